package cli

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// interruptible cancels the context at the first signal that asks the program
// to end. The next one has its ordinary effect, so that work that does not
// listen can still be stopped; the store outlives that.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	go func() {
		<-ctx.Done()
		stop()
	}()
	return ctx, stop
}

// forwarder passes signals on to the command in the cell. The first is the
// command's to obey; the second kills the cell.
type forwarder struct {
	to    chan os.Signal
	kill  context.CancelFunc
	first atomic.Int32
	count int
}

// forward starts to pass signals on; stop ends it.
func forward(kill context.CancelFunc) (f *forwarder, stop func()) {
	f = &forwarder{to: make(chan os.Signal, 8), kill: kill}
	from := make(chan os.Signal, 8)
	signal.Notify(from, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case sig := <-from:
				f.pass(sig)
			case <-done:
				return
			}
		}
	}()
	return f, func() {
		signal.Stop(from)
		close(done)
	}
}

func (f *forwarder) pass(sig os.Signal) {
	if n, ok := sig.(unix.Signal); ok {
		f.first.CompareAndSwap(0, int32(n))
	}
	select {
	case f.to <- sig:
	default: // the command has not read eight signals: it will not read a ninth
	}
	if f.count++; f.count > 1 {
		f.kill()
	}
}

// signal is the number of the first signal that came, or 0.
func (f *forwarder) signal() int { return int(f.first.Load()) }
