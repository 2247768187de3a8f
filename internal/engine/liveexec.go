package engine

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/live/supervise"
	"github.com/forkcell/forkcell/internal/sandbox/live/wire"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// ErrDetached is the error of an input whose caller leaves the command running.
var ErrDetached = wire.ErrDetached

// ErrNoListener is the error when nothing listens on a port of a live cell.
var ErrNoListener = supervise.ErrNoListener

// Exec executes a command in a live cell and waits for it.
func (e *Engine) Exec(ctx context.Context, req api.ExecRequest, stdio Stdio) (*api.ExecResult, error) {
	client, err := e.EnterLive(ctx, req.Cell)
	if err != nil {
		return nil, err
	}
	return client.Exec(ctx, req, stdio.streams(), stdio.Started)
}

// Attach joins a command that was executed in a live cell, beginning with its last
// output. The session is an id or a unique part of one.
func (e *Engine) Attach(ctx context.Context, req api.ExecRequest, session string, stdio Stdio) (*api.ExecResult, error) {
	client, err := e.EnterLive(ctx, req.Cell)
	if err != nil {
		return nil, err
	}
	list, err := client.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	found, err := pickSession(list, req.Cell, session)
	if err != nil {
		return nil, err
	}
	if err := refuseStill(ctx, client, found, req.Cell); err != nil {
		return nil, err
	}
	return client.Attach(ctx, req, found, stdio.streams(), stdio.Started)
}

// refuseStill refuses to join a command that stands still, because its cell is paused.
func refuseStill(ctx context.Context, client *supervise.Client, joined api.SessionInfo, cell string) error {
	if !joined.Running {
		return nil
	}
	state, err := client.State(ctx)
	if err == nil && state.Paused {
		err = home.PausedCell(cell)
	}
	return err
}

func (s Stdio) streams() driver.Stdio {
	return driver.Stdio{In: s.In, Out: s.Out, Err: s.Err, Resize: s.Resize, Signals: s.Signals}
}

// Sessions lists the commands that were executed in a live cell.
func (e *Engine) Sessions(ctx context.Context, cell string) ([]api.SessionInfo, error) {
	client, err := e.DialLive(ctx, cell)
	if err != nil {
		return nil, err
	}
	return client.Sessions(ctx)
}

func pickSession(list []api.SessionInfo, cell, ref string) (api.SessionInfo, error) {
	ids := make([]string, len(list))
	for i, s := range list {
		ids[i] = s.ExecID
	}
	id, err := store.PickID(ids, ref)
	if err != nil {
		return api.SessionInfo{}, home.IDError("session", ref, err, "`forkcell status "+cell+"` shows the sessions")
	}
	return list[slices.Index(ids, id)], nil
}

// Forward finds a live cell and returns a function that connects one stream with a
// port on the cell's loopback, until the listener closes it.
func (e *Engine) Forward(ctx context.Context, cell string, port int) (join func(context.Context, io.ReadWriter) error, err error) {
	client, err := e.EnterLive(ctx, cell)
	if err != nil {
		return nil, err
	}
	return client.Forward(ctx, port)
}

// FollowLogs writes the stored output of a live cell and, with follow, new output
// until the cell is stopped. It returns false if the run does not belong to a live
// cell.
func (e *Engine) FollowLogs(ctx context.Context, cell, run string, follow bool, stdout, stderr io.Writer) (isLive bool, err error) {
	c, err := e.FindRecorded(cell)
	if err != nil {
		return false, err
	}
	info := e.LiveInfo(ctx, c, false)
	if info == nil || !strings.HasPrefix(info.RunID, run) {
		return false, nil
	}
	client, err := e.DialLive(ctx, cell)
	if err != nil {
		return true, err
	}
	return true, client.Logs(ctx, info.RunID, follow, stdout, stderr)
}
