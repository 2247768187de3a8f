package supervise

import (
	"context"
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/live/wire"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/internal/text/redact"
)

// execution is one command in a live cell.
type execution struct {
	id      string
	tty     bool
	main    bool // the cell ends with it; guarded by the host's lock
	process event.Process
	cancel  context.CancelFunc
	signals chan os.Signal
	resize  chan driver.WindowSize
	done    chan struct{}
	exit    wire.Exit
	// concluded is closed when the run of the cell has its receipt; nil for a command
	// that the cell does not end with. Who waits for the command gets its end only then.
	concluded <-chan struct{}
}

// Exec implements live.Host.
func (h *Host) Exec(ctx context.Context, c wire.Command, streams wire.Streams) (wire.Process, error) {
	cmd, carries, err := h.command(c)
	if err != nil {
		return nil, toWire(err)
	}
	if !carries {
		streams = h.noting(streams)
	}
	stdio, finish := driver.Stdio{In: streams.In, Out: streams.Out, Err: streams.Err}, func() {}
	if !carries {
		stdio.Out, stdio.Err, finish = h.tap(streams, c.Env)
	}
	ended := func() {
		finish()
		if streams.Ended != nil {
			streams.Ended()
		}
	}
	x, err := h.launch(ctx, cmd, h.Recordable(c.Args), stdio, ended)
	if err != nil {
		return nil, err
	}
	if c.Main {
		x.concluded = h.done
		h.mu.Lock()
		x.main = true
		h.mu.Unlock()
		select {
		case h.begun <- struct{}{}:
		default:
		}
		go h.endWith(x)
	}
	return x, nil
}

// endWith ends the cell when a command has ended.
func (h *Host) endWith(x *execution) {
	<-x.done
	select {
	case h.main <- x.exit:
	default: // it ends with another command already
	}
}

// launch executes a command and returns when it has begun. finish is called at its
// end.
func (h *Host) launch(ctx context.Context, cmd driver.Command, args []string, stdio driver.Stdio, finish func()) (*execution, error) {
	h.starting.RLock()
	defer h.starting.RUnlock()
	if err := h.beginCommand(); err != nil {
		return nil, toWire(err)
	}
	// The protocol ends a command by a signal, never by the context.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	x := &execution{
		id: h.NewID(), tty: cmd.TTY, cancel: cancel, done: make(chan struct{}),
		signals: make(chan os.Signal, 16), resize: make(chan driver.WindowSize, 1),
	}
	stdio.Signals, stdio.Resize = x.signals, x.resize
	begun, failedToStart := make(chan struct{}), make(chan error, 1)
	cmd.Executed = func(pid int) {
		h.recordBegin(x, pid, args)
		close(begun)
	}
	go func() {
		defer h.endCommand()
		defer cancel()
		o, err := h.Cell.Exec(ctx, cmd, stdio)
		finish()
		if err != nil {
			failedToStart <- err
			return
		}
		h.recordEnd(x, o)
	}()
	select {
	case err := <-failedToStart:
		return nil, h.execFailure(err)
	case <-begun:
		return x, nil
	}
}

// beginCommand counts a command that is about to start, unless the cell is ending or
// paused.
func (h *Host) beginCommand() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.refuseEnding(); err != nil {
		return err
	}
	if err := h.refusePaused(); err != nil {
		return err
	}
	h.active++
	h.used = time.Now()
	h.running.Add(1)
	return nil
}

// endCommand is called when a command has ended.
func (h *Host) endCommand() {
	h.mu.Lock()
	h.active--
	h.used = time.Now()
	h.mu.Unlock()
	h.running.Done()
}

// recordBegin records that a command was executed.
func (h *Host) recordBegin(x *execution, pid int, args []string) {
	x.process = event.Process{PID: pid, Parent: 1, Binary: args[0], Args: args}
	h.mu.Lock()
	h.commands[pid] = x
	h.mu.Unlock()
	begun := event.Execute
	if args[0] == carrier { // the cell's end of a copy, of a wait or of a forwarded port
		begun = event.Launch
	}
	h.Record(begun(event.Subject{Process: event.Process{PID: 1}, Message: x.id + " was executed"}, x.process))
	h.recordForward(x, event.Opened)
}

// recordEnd records that a command has ended, and keeps its exit.
func (h *Host) recordEnd(x *execution, o driver.Outcome) {
	h.mu.Lock()
	if h.commands[x.process.PID] == x {
		delete(h.commands, x.process.PID)
	}
	h.mu.Unlock()
	h.recordForward(x, event.Closed)
	h.Record(event.Exit(event.Subject{Message: x.id + " has ended"}, x.process, o.Code))
	h.mu.Lock()
	defer h.mu.Unlock()
	x.exit = wire.Exit{Code: o.Code, Signal: o.Signal, TimedOut: o.TimedOut, Killed: o.Killed, EndedBy: h.endedBy}
	close(x.done)
}

// recordAttach records that a client has joined a command.
func (h *Host) recordAttach(session string) {
	h.Record(event.Config(event.Subject{Message: "a client attached to " + session}, event.ClientAttached))
}

// recordTyped records that a message was typed, and not which one.
func (h *Host) recordTyped(session string, bytes int) {
	h.Record(event.Config(event.Subject{Message: api.Counted(bytes, "byte") + " typed into " + session}, event.MessageTyped))
}

// recordForward records the begin or the end of a forwarded connection.
func (h *Host) recordForward(x *execution, step event.NetworkStep) {
	if port := forwarded(x.process.Args); port != 0 {
		subject := event.Subject{Process: x.process, Message: x.id + ": a connection of the host was forwarded to the cell"}
		h.Record(event.Network(subject, step, event.Connection{IP: "127.0.0.1", Port: port, Inbound: true}))
	}
}

// command turns a client's command into what the driver executes. carries reports
// whether it is the cell's end of a copy or of a forwarded port.
func (h *Host) command(c wire.Command) (cmd driver.Command, carries bool, err error) {
	if c.User != "" && c.User != h.UserName && c.User != strconv.Itoa(h.User) {
		return cmd, false, api.Refusef(api.CodeUser, "leave --user out", "the command cannot be %s: the cell's only user is %s", quote.Arg(c.User), h.UserName)
	}
	workdir := h.Workdir
	if c.Workdir != "" {
		workdir = c.Workdir
		if !path.IsAbs(workdir) {
			workdir = path.Join(h.MountAt, workdir)
		}
	}
	h.mu.Lock()
	env := slices.Clone(h.env)
	h.mu.Unlock()
	for _, kv := range c.Env {
		name, _, isPair := strings.Cut(kv, "=")
		if !isPair || name == "" {
			return cmd, false, api.Usagef("give NAME=VALUE", "bad environment entry %s", quote.Arg(kv))
		}
	}
	env = driver.WithVariables(env, c.Env)
	args := c.Args
	if args[0] == carrier {
		carries, args = true, append([]string{CarrierFile}, args[1:]...)
		workdir = h.MountAt
	}
	return driver.Command{
		Args: args, Env: env, Workdir: path.Clean(workdir), TTY: c.TTY,
		Size: driver.WindowSize(c.Size), Timeout: c.Timeout,
	}, carries, nil
}

// execFailure returns the failure of a command that was not executed, for a client.
func (h *Host) execFailure(err error) error {
	start, ok := errors.AsType[*driver.StartError](err)
	if ok && (start.Cause == driver.CauseNotFound || start.Cause == driver.CauseNotExecutable) {
		return &wire.StartError{
			Step: start.Step, Message: start.Err.Error(), NotFound: start.Cause == driver.CauseNotFound, NotExecutable: start.Cause == driver.CauseNotExecutable,
		}
	}
	if errors.Is(err, driver.ErrEnded) {
		return h.failure(err)
	}
	return toWire(h.StartError(err))
}

// ID implements live.Process.
func (x *execution) ID() string { return x.id }

// Wait implements live.Process.
func (x *execution) Wait() wire.Exit {
	<-x.done
	if x.concluded != nil {
		<-x.concluded
	}
	return x.exit
}

// Signal implements live.Process. If sixteen signals are waiting for the command,
// further ones are dropped, except SIGKILL.
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

// tap keeps what a command prints, each stream without the secret values of its
// environment, while everything is passed on unchanged. Secrets are looked for when
// there is output: many commands have none.
func (h *Host) tap(to wire.Streams, env []string) (out, err io.Writer, finish func()) {
	all, more := append(slices.Clone(h.Config.Env), env...), h.Secrets()
	secrets := sync.OnceValue(func() []redact.Secret {
		_, found := redact.Env(all)
		return append(found, more...)
	})
	keep := func(stderr bool) func() io.WriteCloser {
		return func() io.WriteCloser { return redact.NewWriter(keptStream{h, stderr}, secrets()) }
	}
	stdout, stderr := &tee{begin: keep(false), to: to.Out}, &tee{begin: keep(true), to: to.Err}
	return stdout, stderr, func() {
		stdout.finish()
		stderr.finish()
	}
}

// tee writes to two writers, of which the first is made for the first output. Only the
// second one's errors count.
type tee struct {
	begin func() io.WriteCloser
	keep  io.WriteCloser
	to    io.Writer
}

func (t *tee) Write(p []byte) (int, error) {
	if t.keep == nil {
		t.keep = t.begin()
	}
	_, _ = t.keep.Write(p) // the loss is noted where it happens
	return t.to.Write(p)
}

func (t *tee) finish() {
	if t.keep != nil {
		_ = t.keep.Close() // a failure to keep is noted by Store
	}
}

// keptStream keeps one stream of all commands.
type keptStream struct {
	h      *Host
	stderr bool
}

func (k keptStream) Write(p []byte) (int, error) {
	k.h.output.add(k.stderr, p)
	k.h.Store(k.stderr, p)
	return len(p), nil
}
