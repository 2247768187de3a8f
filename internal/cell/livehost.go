package cell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/driver"
	"github.com/forkcell/forkcell/internal/event"
	"github.com/forkcell/forkcell/internal/live"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/store"
)

// execution is one command in a live cell.
type execution struct {
	id      string
	tty     bool
	process event.Process
	cancel  context.CancelFunc
	signals chan os.Signal
	resize  chan driver.WindowSize
	done    chan struct{}
	exit    live.Exit
}

// Exec implements live.Host.
func (l *liveCell) Exec(ctx context.Context, c live.Command, streams live.Streams) (live.Process, error) {
	cmd, carries, err := l.command(c)
	if err != nil {
		return nil, toLive(err)
	}
	if err := l.enter(); err != nil {
		return nil, err
	}
	// The protocol ends a command by a signal, never by the context.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	x := &execution{
		id: store.NewID("exec"), tty: c.TTY, cancel: cancel, done: make(chan struct{}),
		signals: make(chan os.Signal, 16), resize: make(chan driver.WindowSize, 1),
	}
	stdio := driver.Stdio{In: streams.In, Out: streams.Out, Err: streams.Err, Signals: x.signals, Resize: x.resize}
	finish := func() {}
	if !carries {
		stdio.Out, stdio.Err, finish = l.tap(streams, c.Env)
	}
	begun, failedToStart := make(chan struct{}), make(chan error, 1)
	args := recordable(c.Args)
	cmd.Executed = func(pid int) {
		l.begins(x, pid, args)
		close(begun)
	}
	go func() {
		defer l.running.Done()
		defer cancel()
		o, err := l.cell.Exec(ctx, cmd, stdio)
		finish()
		if err != nil {
			failedToStart <- err
			return
		}
		l.ends(x, o)
	}()
	select {
	case err := <-failedToStart:
		return nil, l.r.execFailure(err)
	case <-begun:
		return x, nil
	}
}

// enter counts a command that is about to start, unless the cell is ending.
func (l *liveCell) enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending {
		return &api.Error{Kind: api.Refused, Code: api.CodeStopping, Message: fmt.Sprintf("cell %s is being stopped", l.r.cell.Name)}
	}
	l.running.Add(1)
	return nil
}

// begins and ends write a command down.
func (l *liveCell) begins(x *execution, pid int, args []string) {
	x.process = event.Process{PID: pid, Parent: 1, Binary: first(args), Args: args}
	l.mu.Lock()
	l.commands[pid] = x
	l.mu.Unlock()
	l.r.happened(event.Launch(event.Subject{Process: event.Process{PID: 1}, Message: x.id + " was executed"}, x.process))
	l.noteForward(x, event.Opened)
}

func (l *liveCell) ends(x *execution, o driver.Outcome) {
	l.mu.Lock()
	if l.commands[x.process.PID] == x {
		delete(l.commands, x.process.PID)
	}
	l.mu.Unlock()
	l.noteForward(x, event.Closed)
	l.r.happened(event.Exit(event.Subject{Message: x.id + " has ended"}, x.process, o.Code))
	x.exit = live.Exit{Code: o.Code, Signal: o.Signal, TimedOut: o.TimedOut, Killed: o.Killed}
	close(x.done)
}

// command turns what a client asks for into what the driver executes. carries
// says that it is the cell's end of a copy.
func (l *liveCell) command(c live.Command) (cmd driver.Command, carries bool, err error) {
	spec := l.r.spec
	if c.User != "" && c.User != policy.Sandbox && c.User != strconv.Itoa(l.r.e.driver.User()) {
		return cmd, false, api.Refusef(api.CodeUser, "leave --user out", "the command cannot be %s: the cell's only user is sandbox", quote.Arg(c.User))
	}
	workdir := spec.Workdir
	if c.Workdir != "" {
		workdir = c.Workdir
		if !path.IsAbs(workdir) {
			workdir = path.Join(l.r.cell.MountAt, workdir)
		}
	}
	l.mu.Lock()
	env := slices.Clone(l.env)
	l.mu.Unlock()
	for _, kv := range c.Env {
		name, _, isPair := strings.Cut(kv, "=")
		if !isPair || name == "" {
			return cmd, false, api.Usagef("give NAME=VALUE", "bad environment entry %s", quote.Arg(kv))
		}
		env = slices.DeleteFunc(env, func(old string) bool { return strings.HasPrefix(old, name+"=") })
		env = append(env, kv)
	}
	args := c.Args
	if args[0] == carrier {
		carries, args = true, append([]string{carrierFile}, args[1:]...)
		workdir = l.r.cell.MountAt
	}
	return driver.Command{
		Args: args, Env: env, Workdir: path.Clean(workdir), TTY: c.TTY,
		Size: driver.WindowSize(c.Size), Timeout: c.Timeout,
	}, carries, nil
}

func (r *run) execFailure(err error) error {
	start, ok := errors.AsType[*driver.StartError](err)
	switch {
	case !ok:
		return toLive(r.startFailure(err))
	case start.Cause == driver.CauseNotFound, start.Cause == driver.CauseNotExecutable:
		return &live.StartError{
			Step: start.Step, Message: start.Err.Error(), NotFound: start.Cause == driver.CauseNotFound, NotExecutable: start.Cause == driver.CauseNotExecutable,
		}
	}
	return toLive(api.WithHint(r.startFailure(err), codePIDs,
		fmt.Sprintf("end some of its processes, or stop the cell and start it with more of them, at least %d", enoughPIDs)))
}

// ID implements live.Process.
func (x *execution) ID() string { return x.id }

// Wait implements live.Process.
func (x *execution) Wait() live.Exit {
	<-x.done
	return x.exit
}

// Signal implements live.Process. A command that has not taken sixteen signals
// will not take another; SIGKILL always arrives.
func (x *execution) Signal(n int) error {
	if n == int(syscall.SIGKILL) {
		x.cancel()
		return nil
	}
	select {
	case x.signals <- syscall.Signal(n):
	default:
	}
	return nil
}

// Resize implements live.Process: the last size counts.
func (x *execution) Resize(size api.WindowSize) error {
	for {
		select {
		case x.resize <- driver.WindowSize(size):
			return nil
		default:
		}
		select {
		case <-x.resize:
		default:
		}
	}
}

// Processes implements live.Host.
func (l *liveCell) Processes(context.Context) ([]live.ProcessInfo, error) {
	list, err := l.cell.Processes()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]live.ProcessInfo, len(list))
	for i, p := range list {
		out[i] = live.ProcessInfo{
			PID: p.PID, PPID: p.PPID, UID: p.UID, State: p.State, Started: p.Started, CPU: p.CPU, RSS: p.RSS, Args: p.Args,
		}
		// A command begins a session of its own, whose number is its pid.
		if x := l.commands[p.SID]; x != nil {
			out[i].Session = x.id
		}
	}
	return out, nil
}

// Call implements live.Host.
func (l *liveCell) Call(ctx context.Context, method string, request json.RawMessage) (json.RawMessage, error) {
	var result any
	var err error
	switch method {
	case callStop:
		result, err = answerTo(request, l.askToStop)
	case callCheckpoint:
		result, err = answerTo(request, func(q checkpointCall) (*api.CheckpointResult, error) { return l.checkpoint(ctx, q) })
	case callOutput:
		result, err = answerTo(request, func(q outputCall) (*outputPart, error) { return l.output(ctx, q) })
	case callPolicy:
		result, err = answerTo(request, l.applyPolicy)
	default:
		err = api.Refusef(api.CodeUnknownCall, "use the version of forkcell that started the cell", "the supervisor knows no %s", quote.Arg(method))
	}
	if err != nil {
		return nil, toLive(err)
	}
	return json.Marshal(result)
}

func answerTo[Q, A any](request json.RawMessage, do func(Q) (A, error)) (any, error) {
	var q Q
	if err := json.Unmarshal(request, &q); err != nil {
		return nil, api.Usagef("", "a request that cannot be understood: %v", err)
	}
	return do(q)
}

// askToStop begins the end, or joins one that has begun, and waits for it.
func (l *liveCell) askToStop(q stopCall) (*api.RunResult, error) {
	grace := time.Duration(q.GraceUS) * time.Microsecond
	if grace < 0 {
		grace = usualGrace
	}
	select {
	case l.stop <- grace:
	default:
	}
	<-l.done
	return l.result, l.err
}
