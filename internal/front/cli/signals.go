package cli

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// endings returns the signals that ask the program to end. A hangup is not one of
// them for a program that nohup started.
func endings() []os.Signal {
	signals := []os.Signal{unix.SIGINT, unix.SIGTERM}
	if !signal.Ignored(unix.SIGHUP) {
		signals = append(signals, unix.SIGHUP)
	}
	return signals
}

// interruptible cancels the context at the first signal that asks the program to
// end; the signal is then the cause. The next signal has its ordinary effect, so
// that work which ignores the context can still be stopped. The store survives
// that.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, endings()...)
	go func() {
		defer signal.Stop(heard)
		select {
		case sig := <-heard:
			if n, ok := sig.(unix.Signal); ok {
				cancel(interruption{n})
			}
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// interruption is the error of work that a signal stopped.
type interruption struct{ signal unix.Signal }

func (i interruption) Error() string { return errInterrupted.Error() }

func (i interruption) Is(err error) bool { return err == errInterrupted }

// hangUpGrace is how long a command may take to end after the caller's terminal has
// gone. No second signal will come from there.
const hangUpGrace = 5 * time.Second

// forwarder passes signals on to the command in the cell. The command handles the
// first one. The second kills the cell, and so does a time-out after a hangup.
// Without a command a signal has its ordinary effect.
type forwarder struct {
	to    chan os.Signal
	from  chan os.Signal
	ready chan struct{}

	mu    sync.Mutex
	kill  context.CancelFunc // nil while there is no command
	first unix.Signal
	count int
	gone  bool // the terminal has gone: the command got SIGHUP, and will be killed
	// leave are the signals that end the caller only: the command goes on.
	leave []os.Signal
}

// listen prepares to pass signals on. Registering four signals takes Go half a
// millisecond, and so does unregistering them. So it registers in parallel with the
// caller's work, and unregisters only for a caller that goes on.
func listen() *forwarder {
	f := &forwarder{to: make(chan os.Signal, 8), from: make(chan os.Signal, 8), ready: make(chan struct{})}
	go func() {
		signal.Notify(f.from, append(endings(), unix.SIGQUIT)...)
		close(f.ready)
		for sig := range f.from {
			if !f.pass(sig) {
				raiseDefault(sig)
			}
		}
	}()
	return f
}

// leaveOnEnd makes the end of the caller, by a hangup, SIGTERM or one of the keys, end only
// the visit, not the command.
func (f *forwarder) leaveOnEnd(keys ...os.Signal) *forwarder {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leave = append(keys, unix.SIGHUP, unix.SIGTERM)
	return f
}

// begin starts passing signals on.
func (f *forwarder) begin(kill context.CancelFunc) {
	<-f.ready
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kill = kill
}

// end restores the ordinary effect of signals.
func (f *forwarder) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kill = nil
}

// stop leaves all signals to others, for a caller that goes on after the command.
func (f *forwarder) stop() {
	<-f.ready
	signal.Stop(f.from)
}

// pass forwards a signal, and reports whether there is a command to receive it.
func (f *forwarder) pass(sig os.Signal) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kill == nil {
		return false
	}
	if sig == unix.SIGHUP && f.gone {
		return true
	}
	if n, ok := sig.(unix.Signal); ok && f.count == 0 {
		f.first = n
	}
	if slices.Contains(f.leave, sig) {
		f.kill()
		return true
	}
	if sig == unix.SIGHUP {
		f.gone = true
		time.AfterFunc(hangUpGrace, f.kill)
	}
	select {
	case f.to <- sig:
	default: // the command has not read eight signals: it will not read a ninth
	}
	if f.count++; f.count > 1 {
		f.kill()
	}
	return true
}

// hangUp sends the command SIGHUP when the terminal has gone: only the leader of a
// session gets that signal from the kernel.
func (f *forwarder) hangUp() { f.pass(unix.SIGHUP) }

// signal returns the number of the first signal that was passed on, or 0.
func (f *forwarder) signal() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return int(f.first)
}

// raiseDefault gives a signal its default effect on this process.
func raiseDefault(sig os.Signal) {
	if n, ok := sig.(unix.Signal); ok {
		signal.Reset(n)
		_ = unix.Kill(unix.Getpid(), n)
	}
}
