package remote

import (
	"context"
	"net/url"
	"strconv"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/execsocket"
	"github.com/forkcell/forkcell/internal/api/execwire"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine"
)

// Exec executes a command in a live cell, with its streams in a socket.
func (e *Engine) Exec(ctx context.Context, r api.ExecRequest, stdio engine.Stdio) (*api.ExecResult, error) {
	if r.User != "" && r.User != "sandbox" {
		return nil, api.Refusef(api.CodeUser, "leave --user out", "the cell has no user %s", r.User)
	}
	q := url.Values{"command": r.Args, "env": r.Env}
	for key, value := range map[string]string{"workdir": string(r.Workdir), "timeout": duration(r.Timeout)} {
		if value != "" {
			q.Set(key, value)
		}
	}
	if r.TTY {
		q.Set("tty", "true")
		q.Set("cols", strconv.Itoa(int(r.Size.Cols)))
		q.Set("rows", strconv.Itoa(int(r.Size.Rows)))
	}
	if !r.Detachable {
		q.Set("attached", "true")
	}
	if err := textOnly(append(append([]string{}, r.Args...), r.Env...)); err != nil {
		return nil, err
	}
	if stdio.In == nil {
		stdio.In = emptyInput{}
	}
	return e.attend(ctx, op.ExecSocket.At(r.Cell)+"?"+q.Encode(), r, stdio)
}

// Attach joins a command that was executed in a live cell. Without an input the caller
// watches: the command's is not ended.
func (e *Engine) Attach(ctx context.Context, r api.ExecRequest, session string, stdio engine.Stdio) (*api.ExecResult, error) {
	q := url.Values{}
	if r.TTY {
		q.Set("cols", strconv.Itoa(int(r.Size.Cols)))
		q.Set("rows", strconv.Itoa(int(r.Size.Rows)))
	}
	if r.Keyboard == api.KeyboardShare || r.Keyboard == api.KeyboardTake {
		q.Set("keyboard", string(r.Keyboard))
	}
	return e.attend(ctx, op.Attach.At(r.Cell, session)+"?"+q.Encode(), r, stdio)
}

// attend attends a command until it ends or is left. The end of the context closes the
// socket: that ends the command, or leaves one that is detachable.
func (e *Engine) attend(ctx context.Context, path string, r api.ExecRequest, stdio engine.Stdio) (*api.ExecResult, error) {
	sock, err := e.dial(ctx, path)
	if err != nil {
		return nil, err
	}
	defer sock.close()
	res := &api.ExecResult{Cell: r.Cell}
	sock.started = func(m execsocket.Message) {
		res.ExecID = m.ExecID
		if stdio.Started != nil {
			stdio.Started(m.ExecID)
		}
	}
	if stdio.In != nil && r.Detachable && !r.RawInput {
		stdio.In = execwire.DetachKeys(stdio.In)
	}
	left, leave := context.WithCancel(ctx)
	defer leave()
	detached := make(chan struct{}, 1)
	go func() {
		select {
		case <-detached:
			detached <- struct{}{}
			sock.leave(leave)
		case <-left.Done():
		}
	}()
	m, err := sock.relay(left, stdio, detached)
	switch {
	case err != nil && len(detached) > 0, err != nil && ctx.Err() != nil && r.Detachable:
		res.Detached = true
		return res, nil
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, failure(err)
	}
	if m.ExitCode != nil {
		res.ExitCode = *m.ExitCode
	}
	if m.Signal != nil {
		res.Signal = signalNumber(*m.Signal)
	}
	res.TimedOut, res.Killed, res.EndedBy = m.TimedOut, m.Killed, m.EndedBy
	return res, nil
}

// Sessions lists the commands that were executed in a live cell.
func (e *Engine) Sessions(ctx context.Context, cell string) ([]api.SessionInfo, error) {
	status, err := e.Status(ctx, cell)
	if err != nil {
		return nil, err
	}
	if status.Live == nil {
		return nil, api.Refusef(api.CodeNotStarted, "`forkcell start "+cell+"` starts it", "cell %s is not started", cell)
	}
	return status.Live.Sessions, nil
}
