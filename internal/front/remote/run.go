package remote

import (
	"context"
	"net/http"
	"unicode/utf8"

	"github.com/forkcell/forkcell/client"
	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/execsocket"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Run runs a command as a transaction, with its streams in a socket. The end of the
// context ends the run, whose result is returned all the same.
func (e *Engine) Run(ctx context.Context, r api.RunRequest, stdio engine.Stdio) (*api.RunResult, error) {
	body, err := e.runBody(ctx, r, stdio.In != nil)
	if err != nil {
		return nil, err
	}
	sock, err := e.dial(ctx, op.RunSocket.At(r.Cell))
	if err != nil {
		return nil, err
	}
	defer sock.close()
	if err := sock.tell(ctx, body); err != nil {
		return nil, failure(err)
	}
	begun := make(chan string, 1)
	sock.started = func(m execsocket.Message) { begun <- m.RunID }
	// The socket stays open after the end of the context, for the result.
	reading, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() { e.endRun(reading, begun, giveUp) })()
	m, err := sock.relay(reading, stdio, nil)
	if stdio.Ended != nil {
		stdio.Ended()
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, failure(err)
	case m.Problem != nil:
		return m.Result, reportedError(problem(m.Problem))
	case m.Result == nil:
		return nil, malformed(errNoResult)
	}
	return m.Result, nil
}

var errNoResult = api.Usagef("", "the run has no result")

// endRun asks the daemon to end a run. Without an answer it gives up.
func (e *Engine) endRun(ctx context.Context, begun <-chan string, giveUp func()) {
	limited, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	select {
	case id := <-begun:
		if err := e.ask(limited, http.MethodPost, op.CancelRun.At(id), nil, nil); err == nil {
			<-limited.Done() // the result ends ctx
		}
	default: // nothing has begun
	}
	giveUp()
}

func problem(p *api.Problem) *client.Error {
	return &client.Error{
		Kind: p.Kind.Known(), Code: p.Code, Status: p.Status, Message: p.Detail, Hint: p.Hint, Details: p.Details, RequestID: p.Instance,
	}
}

func (e *Engine) runBody(ctx context.Context, r api.RunRequest, input bool) (api.RunSocketBody, error) {
	settings, err := e.settings(ctx, r.RunOptions)
	if err == nil {
		err = textOnly(r.Args)
	}
	return api.RunSocketBody{
		RunBody: api.RunBody{
			Command: r.Args, RunSettings: settings, RestoreOnFail: r.RestoreOnFail, AcceptOnSuccess: r.AcceptOnSuccess, CheckpointName: r.CheckpointName,
		},
		Input: input, TTY: r.TTY, Cols: r.Size.Cols, Rows: r.Size.Rows, Term: r.Term,
	}, err
}

// textOnly refuses arguments that JSON cannot carry.
func textOnly(args []string) error {
	for _, a := range args {
		if !utf8.ValidString(a) {
			return checkSupported("", "the argument %s is not UTF-8", quote.Arg(a))
		}
	}
	return nil
}

// Plan shows how a command would be run.
func (e *Engine) Plan(ctx context.Context, r api.RunRequest) (*api.RunPlan, error) {
	body, err := e.runBody(ctx, r, false)
	if err != nil {
		return nil, err
	}
	plan := new(api.RunPlan)
	if err := e.ask(ctx, http.MethodPost, op.PlanRun.At(r.Cell), body.RunBody, plan); err != nil {
		return nil, err
	}
	return plan, nil
}

// Start makes a cell live.
func (e *Engine) Start(ctx context.Context, r api.StartRequest) (*api.StartResult, error) {
	settings, err := e.settings(ctx, r.RunOptions)
	if err != nil {
		return nil, err
	}
	body := client.Start{RunSettings: settings}
	if r.Warm != nil {
		if body.Warm, err = warmBody(*r.Warm); err != nil {
			return nil, err
		}
	}
	return asEngineError(e.client.Cells.Named(r.Cell).Start(ctx, body))
}

// Stop ends a live cell.
func (e *Engine) Stop(ctx context.Context, r api.StopRequest) (*api.RunResult, error) {
	var body client.Stop
	if r.Grace >= 0 {
		body.Grace = r.Grace.String()
	}
	return asEngineError(e.client.Cells.Named(r.Cell).Stop(ctx, body))
}

// Pause stops the processes of a live cell.
func (e *Engine) Pause(ctx context.Context, r api.PauseRequest) (*api.PauseResult, error) {
	return asEngineError(e.client.Cells.Named(r.Cell).Pause(ctx, r))
}

// Resume continues the processes of a paused cell.
func (e *Engine) Resume(ctx context.Context, r api.ResumeRequest) (*api.PauseResult, error) {
	settings, err := e.settings(ctx, api.RunOptions{Network: api.NetworkRequest{Credentials: r.Credentials}})
	if err != nil {
		return nil, err
	}
	return asEngineError(e.client.Cells.Named(r.Cell).Resume(ctx, client.Resume{FSOnly: r.FSOnly, Credentials: settings.Credentials}))
}
