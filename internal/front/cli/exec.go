package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/text/document"

	"github.com/spf13/cobra"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/text/quote"
)

type execOptions struct {
	terminal terminalFlags
	env      []string
	envFile  []string
	workdir  string
	user     string
	timeout  duration
}

func newExec(s *frame) *cobra.Command {
	var o execOptions
	cmd := &cobra.Command{
		Use:   "exec [flags] [CELL] [flags] -- COMMAND [ARG]...",
		Short: "Execute a command in a live cell",
		Long: `Execute a command in a live cell.

Everything after -- is the command, byte for byte. Its output is passed on unchanged;
on a terminal, without what leaves the screen, such as clipboard writes and titles, which
--raw passes too. Its exit code is the exit code of forkcell. Other codes: 124 it ran past
--timeout, 125 forkcell itself failed, 126 it could not be executed, 127 it was not
found, 128+N signal N killed it.

The environment is that of the cell, and what --env adds. When stdin, stdout and
stderr are a terminal, the command gets a terminal and stdin too; -T turns that off.
Many commands can run at once. If this process is killed, the command gets SIGHUP.
A process in the background of a command with a terminal gets SIGHUP at its end, too;
with -T it goes on until the cell is stopped.`,
		Example: `  forkcell exec demo -- make test
  forkcell exec demo -- python3
  tar c src | forkcell exec -i demo -- tar x`,
		DisableFlagsInUseLine: true,
		Annotations:           map[string]string{annotationRun: "yes"},
		Args:                  func(cmd *cobra.Command, args []string) error { return runArgs(cmd, s.args, args) },
		ValidArgsFunction:     s.completeCell,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started, s.isRun = true, true
			env, err := environment(cmd, o.envFile, o.env)
			if err == nil {
				err = o.terminal.resolve(cmd, s)
			}
			if err != nil {
				return err
			}
			v := visit{session: s, signals: listen(), interactive: o.terminal.interactive, raw: o.terminal.raw, request: api.ExecRequest{
				Cell: args[0], Args: args[1:], Env: env, Workdir: api.Text(s.startIn(o.workdir)), User: o.user, Timeout: time.Duration(o.timeout), TTY: o.terminal.tty,
			}}
			return s.rawEngine(Visit, func(e Engine) error { return v.do(cmd.Context(), e.Exec) })
		},
	}
	f := cmd.Flags()
	o.terminal.addFlags(cmd)
	f.StringArrayVar(&o.env, "env", nil, "set the variable `K=V` for the command (repeatable)")
	f.StringArrayVar(&o.envFile, "env-file", nil, "set variables from the K=V lines of a `FILE` (repeatable)")
	f.StringVar(&o.workdir, "workdir", "", "start in `PATH`, absolute or relative to the workspace")
	f.StringVar(&o.user, "user", "", "run as this `USER`; sandbox is the only one")
	f.Var(&o.timeout, "timeout", "kill the command after this time")
	return s.ofDirectory(cmd)
}

// visit is one command in a live cell, seen from the terminal.
type visit struct {
	session     *frame
	signals     *forwarder
	interactive bool
	request     api.ExecRequest
	raw         bool // everything that the command prints reaches the terminal
	// lasting means that the end of this input does not end that of the command.
	lasting bool
	// left returns the line for a caller who left the command running; nil for that
	// of a shell.
	left func() string
	// result is how the command ended, after do; nil if it did not end.
	result *api.ExecResult
}

// do runs until the command ends, is left or is killed.
func (v *visit) do(ctx context.Context, join func(context.Context, api.ExecRequest, engine.Stdio) (*api.ExecResult, error)) error {
	s := v.session
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	v.signals.begin(kill)
	defer v.signals.end()
	stdio := engine.Stdio{Out: s.streams.Out, Err: s.streams.Err, Signals: v.signals.to}
	if s.json { // standard output has only the document
		stdio.Out = s.streams.Err
	}
	done := s.onScreen(&stdio, v.request.TTY && v.interactive, v.raw)
	defer done()
	if v.interactive {
		stdio.In = s.streams.In
	}
	if v.interactive && v.lasting {
		stdio.In = lastingInput{s.streams.In, ctx.Done()}
	}
	restore := func() {}
	if v.request.TTY {
		var err error
		if v.request.Size, restore, err = s.terminal(v.interactive, &stdio, v.signals); err != nil {
			return err
		}
		if term := os.Getenv("TERM"); term != "" {
			v.request.Env = append([]string{"TERM=" + term}, v.request.Env...)
		}
	}
	var id atomic.Pointer[string]
	stdio.Started = func(exec string) { id.Store(&exec) }
	res, err := join(ctx, v.request, stdio)
	done()
	restore()
	if err != nil && (ctx.Err() == nil || !errors.Is(err, context.Canceled)) {
		return missingInLive(v.request, err)
	}
	switch exec := id.Load(); {
	case err == nil && !res.Detached:
	case v.left != nil:
		s.note(v.left())
	case err == nil:
		s.note(leftShell(res.Cell, res.ExecID))
	case exec != nil && v.request.Detachable:
		s.note(leftShell(v.request.Cell, *exec))
	}
	if err != nil || res.Detached && ctx.Err() != nil { // a daemon answers also then
		s.code = exitSignalBase + v.signals.signal()
		return errInterrupted
	}
	s.code = res.ExitCode
	if !res.Detached {
		v.result = res
	}
	if !s.json {
		return nil
	}
	return document.Write(s.out, res)
}

// leftShell returns the line for a caller who left a command running.
func leftShell(cell, exec string) string {
	return "left; `forkcell shell " + cell + " --attach " + exec + "` comes back"
}

// lastingInput is an input whose end is not passed on.
type lastingInput struct {
	io.Reader
	done <-chan struct{} // closed when the reader is gone
}

func (l lastingInput) Read(b []byte) (int, error) {
	n, err := l.Reader.Read(b)
	if err != nil && n == 0 {
		<-l.done
	}
	return n, err
}

// missingInLive adds the path on the host to the error about a command that a live
// cell does not have.
func missingInLive(q api.ExecRequest, err error) error {
	start, ok := errors.AsType[*driver.StartError](err)
	if !ok || start.Cause != driver.CauseNotFound {
		return err
	}
	found, show := onHost(first(q.Args))
	if show == "" {
		return err
	}
	return withHint(err, fmt.Sprintf("it is %s on the host: `forkcell stop %s`, then `forkcell start %s --ro %s` shows it",
		quote.Path(found), q.Cell, q.Cell, quote.Arg(show)))
}

func newShell(s *frame) *cobra.Command {
	var attach string
	var raw bool
	cmd := &cobra.Command{
		Use:   "shell [CELL]",
		Short: "Open a shell in a live cell, or come back to one",
		Long: `Open a shell in a live cell, with a terminal. The exit code is the shell's.

Ctrl-P Ctrl-Q leaves the shell running, and so does the end of this process. --attach
comes back to it, and first shows its last output. --attach also shows the output of
a command that exec started. forkcell status lists the sessions of a live cell.`,
		Example: `  forkcell shell demo
  forkcell shell demo --attach exec_01J`,
		Args:              positional("[CELL]"),
		ValidArgsFunction: s.completeCell,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.started, s.isRun = true, true
			v := visit{session: s, signals: listen().leaveOnEnd(), interactive: true, raw: raw, request: api.ExecRequest{
				Cell: args[0], Workdir: api.Text(s.startIn("")), TTY: true, Detachable: true,
			}}
			return s.rawEngine(Visit, func(e Engine) error {
				if attach != "" {
					return v.do(cmd.Context(), func(ctx context.Context, q api.ExecRequest, io engine.Stdio) (*api.ExecResult, error) {
						return e.Attach(ctx, q, attach, io)
					})
				}
				left, err := shellLeft(cmd.Context(), e, args[0])
				if err != nil {
					return err
				}
				s.note(left)
				return v.do(cmd.Context(), func(ctx context.Context, q api.ExecRequest, io engine.Stdio) (*api.ExecResult, error) {
					return openShell(ctx, e, q, io)
				})
			})
		},
	}
	cmd.Flags().BoolVar(&raw, "raw", false, rawUsage)
	cmd.Flags().StringVar(&attach, "attach", "", "come back to the session `ID`")
	return s.ofDirectory(cmd)
}

// shellLeft returns the id of the newest shell of a live cell that was left and
// still runs, or "".
func shellLeft(ctx context.Context, e visitor, name string) (string, error) {
	list, err := e.Sessions(ctx, name)
	if err != nil {
		return "", err
	}
	newest := api.SessionInfo{}
	for _, ses := range list {
		if ses.Running && ses.TTY && ses.Detachable && !ses.Main && ses.Clients == 0 && !ses.StartedAt.Before(newest.StartedAt) {
			newest = ses
		}
	}
	if newest.ExecID == "" {
		return "", nil
	}
	return "a new shell; `forkcell shell " + name + " --attach " + newest.ExecID + "` comes back to the one that was left", nil
}

// openShell starts bash, or sh if the cell has no bash.
func openShell(ctx context.Context, e visitor, q api.ExecRequest, stdio engine.Stdio) (*api.ExecResult, error) {
	q.Args = []string{"bash"}
	res, err := e.Exec(ctx, q, stdio)
	if start, ok := errors.AsType[*driver.StartError](err); ok && start.Cause == driver.CauseNotFound {
		q.Args = []string{"sh"}
		return e.Exec(ctx, q, stdio)
	}
	return res, err
}
