package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

// execution is a command that was ordered.
type execution struct {
	cell    *Cell
	id      int
	command driver.Command
	last    bool // the cell ends with it
	ordered time.Time
	// reports gets the init's reports about the command. It is closed when the
	// init is gone; lost then has the reason.
	reports chan answer
	lost    error
	streams []int
}

// awaitStarted waits until the command has been executed.
func (e *execution) awaitStarted(ctx context.Context) error {
	if e.last {
		stop := context.AfterFunc(ctx, e.cell.kill)
		defer stop()
	}
	a, ok := <-e.reports
	switch {
	case ctx.Err() != nil && e.last:
		mountfd.CloseAll(a.fds)
		return fault.At("start", ctx.Err())
	case !ok && errors.Is(e.lost, io.EOF):
		return e.cell.diedError()
	case !ok:
		return fault.At("answer of the init", fmt.Errorf("malformed answer: %w", e.lost))
	case a.Kind != protocol.Started:
		mountfd.CloseAll(a.fds)
		return a.Err()
	}
	e.streams = a.fds
	if e.command.Warm {
		var socket []int
		e.streams, socket = splitLast(a.fds, 1)
		if len(socket) == 1 {
			select {
			case e.cell.warmSocket <- socket[0]:
			default: // another command is the warm one
				mountfd.CloseAll(socket)
			}
		}
	}
	if e.command.Executed != nil {
		e.command.Executed(a.PID)
	}
	return nil
}

// drop ends the cell of a command without a caller, and closes what the init has
// sent about it.
func (e *execution) drop() {
	e.cell.kill()
	for a := range e.reports {
		mountfd.CloseAll(a.fds)
		if a.Kind != protocol.Started {
			return // the last one
		}
	}
}

// kill ends the command: with the whole cell, or only its process group.
func (e *execution) kill() {
	if e.last {
		e.cell.kill()
		return
	}
	e.signal(unix.SIGKILL)
}

func (e *execution) signal(sig unix.Signal) {
	if send := e.cell.signals; send != nil {
		send(e, sig)
		return
	}
	e.order(sig)
}

// order has the first process send a signal, and does not wait for it.
func (e *execution) order(sig unix.Signal) {
	// A cell that is gone needs no signal.
	_ = e.cell.conn.Write(&protocol.Order{Signal: int(sig), To: e.id})
}

// serve serves the command while it runs, and fills in its outcome.
func (e *execution) serve(ctx context.Context, stdio driver.Stdio, out *driver.Outcome) {
	begin := time.Now()
	streams := connect(e.streams, stdio, e.command.TTY)
	var limit <-chan time.Time
	if e.command.Timeout > 0 {
		t := time.NewTimer(e.command.Timeout)
		defer t.Stop()
		limit = t.C
	}
	cancelled, signals, resize := ctx.Done(), stdio.Signals, stdio.Resize
	for {
		select {
		case <-limit:
			out.TimedOut, limit = true, nil
			e.kill()
		case <-cancelled:
			out.Killed, cancelled = true, nil
			e.kill()
		case sig, open := <-signals:
			if !open {
				signals = nil
			} else if no, ok := sig.(syscall.Signal); ok {
				e.signal(no)
			}
		case size, open := <-resize:
			if !open {
				resize = nil
			} else {
				streams.resize(size)
			}
		case r, natural := <-e.reports:
			out.CommandTook = time.Since(begin)
			if natural {
				out.CommandTook = r.CommandTook(time.Since(e.ordered))
			}
			if e.last {
				<-e.cell.gone
				streams.finish(0)
			} else {
				streams.finish(driver.Lingering)
			}
			out.Settle(natural, e.last, unix.WaitStatus(r.Status))
			out.Refused = r.Refused
			return
		}
	}
}
