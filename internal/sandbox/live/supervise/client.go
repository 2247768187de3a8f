package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/sandbox/live/wire"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Client calls the supervisor of a live cell. Each method opens a new connection.
type Client struct {
	cell string
	line *wire.Client
}

// NewClient returns a client of the supervisor of a cell that listens on a socket.
func NewClient(cell, socket, version string) *Client {
	return &Client{cell: cell, line: wire.NewClient(socket, version)}
}

// Stop ends the cell and returns the result of its whole life.
func (c *Client) Stop(ctx context.Context, r api.StopRequest) (*api.RunResult, error) {
	q := stopCall{GraceUS: r.Grace.Microseconds(), For: r.For}
	if r.Grace < 0 {
		q.GraceUS = -1 // also for less than a microsecond
	}
	var res api.RunResult
	if err := c.call(ctx, callStop, q, &res); err != nil {
		return nil, err
	}
	return &res, nil
}

// Turn takes a turn of the cell.
func (c *Client) Turn(ctx context.Context) (*api.TurnInfo, error) {
	var res api.TurnInfo
	if err := c.call(ctx, callTurn, turnCall{}, &res); err != nil {
		return nil, err
	}
	return &res, nil
}

// Checkpoint captures what the cell holds at one moment. The name may be "".
func (c *Client) Checkpoint(ctx context.Context, name string) (*api.CheckpointResult, error) {
	var res api.CheckpointResult
	if err := c.call(ctx, callCheckpoint, checkpointCall{Name: name}, &res); err != nil {
		return nil, err
	}
	return &res, nil
}

// Save captures what the cell holds at one moment, with its memory. The name may be "".
func (c *Client) Save(ctx context.Context, name string) (*api.CheckpointResult, error) {
	var res api.CheckpointResult
	if err := c.call(ctx, callCheckpoint, checkpointCall{Name: name, Memory: true}, &res); err != nil {
		return nil, err
	}
	return &res, nil
}

// ApplyPolicy gives the cell another policy at once, with the operator's grants for it and
// the values of credentials.
func (c *Client) ApplyPolicy(ctx context.Context, f api.PolicyFile, grants api.GrantRequest, values map[string][]byte) (*api.PolicyApplied, error) {
	var res api.PolicyApplied
	q := policyCall{Name: []byte(f.Name), Text: f.Text, Path: f.Path, Grants: grants, Values: values}
	if err := c.call(ctx, callPolicy, q, &res); err != nil {
		return nil, err
	}
	return &res, nil
}

// Pause stops the processes of the cell. A paused cell stays paused.
func (c *Client) Pause(ctx context.Context, fsOnly bool) (*api.PauseResult, error) {
	return c.pausing(ctx, callPause, pauseCall{fsOnly})
}

// Resume continues the processes of a paused cell. Another one goes on.
func (c *Client) Resume(ctx context.Context) (*api.PauseResult, error) {
	return c.pausing(ctx, callResume, struct{}{})
}

func (c *Client) pausing(ctx context.Context, method string, request any) (*api.PauseResult, error) {
	var res api.PauseResult
	if err := c.call(ctx, method, request, &res); err != nil {
		return nil, err
	}
	return &res, nil
}

// State returns what the supervisor knows of the cell at this moment. It does not
// count as a use of the cell.
func (c *Client) State(ctx context.Context) (State, error) {
	var s State
	err := c.call(ctx, callState, struct{}{}, &s)
	return s, err
}

// Processes lists what runs in the cell.
func (c *Client) Processes(ctx context.Context) ([]api.ProcessInfo, error) {
	list, err := c.line.Processes(ctx)
	if err != nil {
		return nil, fromWire(c.cell, err)
	}
	out := make([]api.ProcessInfo, len(list))
	for i, p := range list {
		out[i] = api.ProcessInfo{
			PID: p.PID, PPID: p.PPID, UID: p.UID, State: p.State, ExecID: p.Session, StartedAt: p.Started.UTC(),
			CPUUS: p.CPU.Microseconds(), RSS: p.RSS, Args: texts(p.Args),
		}
	}
	return out, nil
}

// Sessions lists the commands that were executed in the cell.
func (c *Client) Sessions(ctx context.Context) ([]api.SessionInfo, error) {
	list, err := c.line.Sessions(ctx)
	if err != nil {
		return nil, fromWire(c.cell, err)
	}
	var out []api.SessionInfo
	for _, s := range list {
		out = append(out, api.SessionInfo{
			ExecID: s.ID, Args: texts(s.Args), TTY: s.TTY, Detachable: s.Detachable, Main: s.Main, Running: s.Running(),
			Clients: s.Clients, StartedAt: s.Started.UTC(),
		})
	}
	return out, nil
}

// Logs writes the output of the cell's run: what is kept of it, and with follow, what
// comes until the cell is stopped.
func (c *Client) Logs(ctx context.Context, run string, follow bool, stdout, stderr io.Writer) error {
	q := outputCall{Run: run, Wait: follow}
	for {
		var part outputPart
		err := c.call(ctx, callOutput, q, &part)
		if q.From != 0 && errors.Is(err, wire.ErrNoServer) {
			err = lostError(c.cell, err)
		}
		if err != nil {
			return err
		}
		for _, chunk := range part.Chunks {
			to := stdout
			if chunk.Stderr {
				to = stderr
			}
			if _, err := to.Write(chunk.Data); err != nil {
				return err
			}
		}
		if part.Ended || !follow && len(part.Chunks) == 0 {
			return nil
		}
		q.From = part.Next
	}
}

func (c *Client) call(ctx context.Context, method string, request, result any) error {
	data, err := json.Marshal(request)
	if err != nil {
		return err
	}
	answer, err := c.line.Call(ctx, method, data)
	if err != nil {
		return fromWire(c.cell, err)
	}
	return json.Unmarshal(answer, result)
}

// texts returns arguments as JSON can carry them.
func texts(args []string) []string {
	var out []string
	for _, a := range args {
		out = append(out, quote.UTF8(a))
	}
	return out
}
