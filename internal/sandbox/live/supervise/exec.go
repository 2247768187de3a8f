package supervise

import (
	"context"
	"errors"
	"os"
	"syscall"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/execwire"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/live/wire"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Exec executes a command in the cell and waits for it. started, if set, is called
// with the id of its session, before its first output.
func (c *Client) Exec(ctx context.Context, req api.ExecRequest, stdio driver.Stdio, started func(session string)) (*api.ExecResult, error) {
	if len(req.Args) == 0 || req.Args[0] == "" {
		return nil, api.Usagef("`forkcell exec "+c.cell+" -- CMD ARG...`", "no command to execute")
	}
	cmd := wire.Command{
		Args: req.Args, Env: req.Env, Workdir: string(req.Workdir), User: req.User, TTY: req.TTY, Size: req.Size,
		Stdin: stdio.In != nil, Timeout: req.Timeout, Detachable: req.Detachable, Main: req.Main,
	}
	return c.join(req, stdio, started, func(s wire.Streams, ctl wire.Control) (wire.Exit, error) { return c.line.Exec(ctx, cmd, s, ctl) })
}

// Attach joins a command that was executed in the cell, beginning with its last
// output.
func (c *Client) Attach(ctx context.Context, req api.ExecRequest, session api.SessionInfo, stdio driver.Stdio, started func(session string)) (*api.ExecResult, error) {
	req.Args, req.Detachable, req.TTY = session.Args, session.Detachable, session.TTY
	return c.join(req, stdio, started, func(s wire.Streams, ctl wire.Control) (wire.Exit, error) {
		return c.line.Attach(ctx, session.ExecID, req.Size, s, ctl)
	})
}

// join connects the caller's streams to a session.
func (c *Client) join(req api.ExecRequest, stdio driver.Stdio, started func(string), do func(wire.Streams, wire.Control) (wire.Exit, error)) (*api.ExecResult, error) {
	res := &api.ExecResult{Cell: c.cell}
	done := make(chan struct{})
	defer close(done)
	streams := wire.Streams{In: stdio.In, Out: stdio.Out, Err: stdio.Err}
	if stdio.In != nil && req.TTY && req.Detachable && !req.RawInput {
		streams.In = execwire.DetachKeys(stdio.In)
	}
	exit, err := do(streams, wire.Control{
		Resize: sizes(stdio.Resize, done), Signals: numbers(stdio.Signals, done), Keyboard: req.Keyboard,
		Started: func(s wire.Session) {
			res.ExecID = s.ID
			if started != nil {
				started(s.ID)
			}
		},
	})
	if errors.Is(err, wire.ErrDetached) {
		res.Detached = true
		return res, nil
	}
	if err != nil {
		return nil, execError(c.cell, req.Args, err)
	}
	res.ExitCode, res.Signal, res.TimedOut, res.Killed = exit.Code, exit.Signal, exit.TimedOut, exit.Killed
	res.EndedBy = exit.EndedBy
	return res, nil
}

// execError returns the error of a command that was not executed. If the command does
// not exist or is no program, it wraps a *driver.StartError, as that of a run does.
func execError(cell string, args []string, err error) error {
	start, ok := errors.AsType[*wire.StartError](err)
	if !ok {
		return fromWire(cell, err)
	}
	cause := &driver.StartError{Step: start.Step, Err: errors.New(start.Message), Cause: driver.CauseNotExecutable}
	name := quote.Arg(args[0])
	if start.NotFound {
		cause.Cause = driver.CauseNotFound
		return &api.Error{Kind: api.Failed, Code: api.CodeExec, Message: "command not found in the cell: " + name, Err: cause}
	}
	return api.Failf(api.CodeExec, cause, "command cannot be executed")
}

// sizes and numbers convert the caller's channels to the protocol's types.
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
