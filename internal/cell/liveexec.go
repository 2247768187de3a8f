package cell

import (
	"context"
	"errors"
	"os"
	"slices"
	"syscall"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/driver"
	"github.com/forkcell/forkcell/internal/live"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/store"
)

// Exec executes a command in a live cell and stays with it.
func (e *Engine) Exec(ctx context.Context, req api.ExecRequest, stdio Stdio) (*api.ExecResult, error) {
	client, err := e.dialLive(ctx, req.Cell)
	if err != nil {
		return nil, err
	}
	if len(req.Args) == 0 || req.Args[0] == "" {
		return nil, api.Usagef("`forkcell exec "+req.Cell+" -- CMD ARG...`", "no command to execute")
	}
	cmd := live.Command{
		Args: req.Args, Env: req.Env, Workdir: string(req.Workdir), User: req.User, TTY: req.TTY, Size: api.WindowSize(req.Size),
		Stdin: stdio.In != nil, Timeout: req.Timeout, Detachable: req.Detachable,
	}
	return visit(req, stdio, func(s live.Streams, c live.Control) (live.Exit, error) { return client.Exec(ctx, cmd, s, c) })
}

// Attach joins a command that was executed in a live cell, beginning with its
// last output. The session is an id or a unique part of one.
func (e *Engine) Attach(ctx context.Context, req api.ExecRequest, session string, stdio Stdio) (*api.ExecResult, error) {
	client, err := e.dialLive(ctx, req.Cell)
	if err != nil {
		return nil, err
	}
	list, err := client.Sessions(ctx)
	if err != nil {
		return nil, fromLive(req.Cell, err)
	}
	found, err := pick(list, req.Cell, session)
	if err != nil {
		return nil, err
	}
	req.Args, req.Detachable, req.TTY = found.Args, found.Detachable, found.TTY
	return visit(req, stdio, func(s live.Streams, c live.Control) (live.Exit, error) {
		return client.Attach(ctx, found.ID, api.WindowSize(req.Size), s, c)
	})
}

// Sessions lists the commands that were executed in a live cell.
func (e *Engine) Sessions(ctx context.Context, cell string) ([]api.SessionInfo, error) {
	client, err := e.dialLive(ctx, cell)
	if err != nil {
		return nil, err
	}
	list, err := client.Sessions(ctx)
	if err != nil {
		return nil, fromLive(cell, err)
	}
	return sessionInfos(list), nil
}

func pick(list []live.Session, cell, ref string) (live.Session, error) {
	hint := "`forkcell status " + cell + "` shows the sessions"
	ids := make([]string, len(list))
	for i, s := range list {
		ids[i] = s.ID
	}
	id, err := store.PickID(ids, ref)
	if err != nil {
		return live.Session{}, idError("session", ref, err, hint)
	}
	return list[slices.Index(ids, id)], nil
}

// visit connects the caller's streams to a session.
func visit(req api.ExecRequest, stdio Stdio, join func(live.Streams, live.Control) (live.Exit, error)) (*api.ExecResult, error) {
	res := &api.ExecResult{Cell: req.Cell}
	done := make(chan struct{})
	defer close(done)
	streams := live.Streams{In: stdio.In, Out: stdio.Out, Err: stdio.Err}
	if stdio.In != nil && req.TTY && req.Detachable {
		streams.In = live.DetachKeys(stdio.In)
	}
	exit, err := join(streams, live.Control{
		Resize: sizes(stdio.Resize, done), Signals: numbers(stdio.Signals, done),
		Started: func(s live.Session) {
			res.SessionID = s.ID
			if stdio.Started != nil {
				stdio.Started(s.ID)
			}
		},
	})
	if errors.Is(err, live.ErrDetached) {
		res.Detached = true
		return res, nil
	}
	if err != nil {
		return nil, execError(req, err)
	}
	res.ExitCode, res.Signal, res.TimedOut, res.Killed = exit.Code, exit.Signal, exit.TimedOut, exit.Killed
	return res, nil
}

// execError words a failure. That of a command which is not there, or is no
// program, has a *driver.StartError in its chain, as that of a run has.
func execError(req api.ExecRequest, err error) error {
	start, ok := errors.AsType[*live.StartError](err)
	if !ok {
		return fromLive(req.Cell, err)
	}
	cause := &driver.StartError{Step: start.Step, Err: errors.New(start.Message), Cause: driver.CauseNotExecutable}
	name := quote.Arg(first(req.Args))
	if start.NotFound {
		cause.Cause = driver.CauseNotFound
		return &api.Error{Kind: api.Failed, Code: api.CodeExec, Message: "command not found in the cell: " + name, Err: cause}
	}
	return api.Failf(api.CodeExec, cause, "command cannot be executed")
}

// sizes and numbers put the caller's channels into the protocol's types.
func sizes(in <-chan driver.WindowSize, done <-chan struct{}) <-chan api.WindowSize {
	return convert(in, done, func(s driver.WindowSize) (api.WindowSize, bool) { return api.WindowSize(s), true })
}

func numbers(in <-chan os.Signal, done <-chan struct{}) <-chan int {
	return convert(in, done, func(s os.Signal) (int, bool) {
		n, ok := s.(syscall.Signal)
		return int(n), ok
	})
}

func convert[A, B any](in <-chan A, done <-chan struct{}, to func(A) (B, bool)) <-chan B {
	if in == nil {
		return nil
	}
	out := make(chan B)
	go func() {
		for {
			select {
			case <-done:
				return
			case a, open := <-in:
				if !open {
					return
				}
				b, ok := to(a)
				if !ok {
					continue
				}
				select {
				case out <- b:
				case <-done:
					return
				}
			}
		}
	}()
	return out
}
