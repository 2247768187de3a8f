package supervise

import (
	"cmp"
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/live/wire"
)

// usualGrace is the time that the processes of a cell that is stopped have to end by
// themselves.
const usualGrace = 5 * time.Second

// mainGrace is the time that is left to other processes when the command has ended that
// the cell ends with. No caller waits for them.
const mainGrace = time.Second

// hangUpAfter returns how long the command that the cell ends with has to end by SIGTERM,
// before its terminal is hung up: a program with a handler for SIGTERM may have none for
// SIGHUP. One that ignores SIGTERM, such as a shell, has the rest of the time.
func hangUpAfter(grace time.Duration) time.Duration { return min(3*time.Second, grace*3/5) }

// reportLimit is how long the end of a command may take to be reported.
const reportLimit = 2 * time.Second

// maxWait is how long clients have to take what their commands have printed.
const maxWait = 5 * time.Second

// lookInterval is the usual time between checks that the socket can be reached.
const lookInterval = 5 * time.Second

// errSocketRemoved means that no client can reach a live cell any more.
var errSocketRemoved = errors.New("it was removed, as by the removal of the home")

// Cause is why a live cell ends.
type Cause int

// The causes.
const (
	Stopped      Cause = iota // a client asked for it
	TimedOut                  // its time-out
	Died                      // its first process was killed
	Interrupted               // the context of Serve ended
	SocketFailed              // its socket failed
	NotWarm                   // its command did not become warm
	MainEnded                 // the command that it ends with has ended
	MainMissing               // that command has not begun in time
	Suspended                 // it is paused, and no process of it is left
)

// Ending describes why and how a live cell is ended.
type Ending struct {
	Cause Cause
	// Grace is the time that its processes have to end by themselves.
	Grace time.Duration
	// Err is the failure of a socket, or why the cell is not warm.
	Err error
	// Exit is how the command ended that the cell ends with.
	Exit wire.Exit
}

// Serve serves the socket until the cell is to end, or has ended.
func (h *Host) Serve(ctx context.Context) Ending {
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h.cancel = cancel
	go func() {
		h.served <- wire.Serve(serving, h.Listener, h, wire.Options{UID: os.Geteuid(), Version: h.Version, Attached: h.recordAttach, Typed: h.recordTyped, Undelivered: h.takeBack})
	}()
	defer h.takeTurns(serving)()
	limit, stopLimit := after(h.Timeout)
	defer stopLimit()
	missing, stopMissing := after(h.AwaitMain)
	defer stopMissing()
	look := time.NewTicker(cmp.Or(h.Look, lookInterval))
	defer look.Stop()
	return h.await(ctx, limit, missing, look.C)
}

// after returns a channel that gets a value after a time, and never for 0.
func after(d time.Duration) (<-chan time.Time, func() bool) {
	if d <= 0 {
		return nil, func() bool { return true }
	}
	t := time.NewTimer(d)
	return t.C, t.Stop
}

// await waits until the cell is to end, or has ended.
func (h *Host) await(ctx context.Context, limit, missing, look <-chan time.Time) Ending {
	for {
		select {
		case <-h.begun:
			missing = nil
			continue
		case <-look:
			if !h.Listener.IsLost() {
				continue
			}
			return Ending{Cause: SocketFailed, Grace: usualGrace, Err: errSocketRemoved}
		case <-missing:
			return Ending{Cause: MainMissing, Grace: mainGrace}
		case grace := <-h.stop:
			return Ending{Cause: Stopped, Grace: grace}
		case grace := <-h.suspend:
			return Ending{Cause: Suspended, Grace: grace}
		case exit := <-h.main:
			return Ending{Cause: MainEnded, Grace: mainGrace, Exit: exit}
		case <-limit:
			return Ending{Cause: TimedOut, Grace: usualGrace}
		case <-h.Cell.Gone():
			h.mu.Lock()
			h.ending, h.died = true, true
			h.mu.Unlock()
			return Ending{Cause: Died}
		case <-ctx.Done():
			return Ending{Cause: Interrupted, Grace: usualGrace}
		case err := <-h.served:
			h.served <- nil
			return Ending{Cause: SocketFailed, Grace: usualGrace, Err: err}
		}
	}
}

// Ended has the results of ending a live cell.
type Ended struct {
	Usage driver.Usage
	// TerminateErr is why its processes could not be asked to end, CloseErr what
	// failed when the rest was killed.
	TerminateErr, CloseErr error
}

// End asks the processes of the cell to end within the grace, and kills the rest.
func (h *Host) End(grace time.Duration) (e Ended) {
	h.mu.Lock()
	h.ending = true
	h.mu.Unlock()
	h.exclusive.Lock()
	defer h.exclusive.Unlock()
	if h.isPaused() {
		// Frozen processes cannot end.
		e.TerminateErr = h.Cell.Thaw()
	}
	select {
	case grace = <-h.suspend: // another cause was first
	default:
	}
	if grace > 0 && e.TerminateErr == nil && !h.still {
		e.TerminateErr = h.terminate(grace)
	}
	e.Usage = h.Cell.Usage()
	e.CloseErr = h.Cell.Close()
	h.awaitCommands()
	h.output.close()
	return e
}

// terminate asks the processes of the cell to end.
func (h *Host) terminate(grace time.Duration) error {
	h.hangUpTerminals(false)
	later := time.AfterFunc(hangUpAfter(grace), func() { h.hangUpTerminals(true) })
	defer later.Stop()
	all, err := h.Cell.Terminate(grace)
	if all {
		// Who kills the first process now may lose how they ended.
		h.awaitEnds(reportLimit)
	}
	return err
}

// awaitCommands waits until all output of commands is written. A client that does
// not read would block its command, so after maxWait all connections are closed.
func (h *Host) awaitCommands() {
	if !h.awaitEnds(maxWait) {
		h.Close()
		h.running.Wait()
	}
}

// awaitEnds reports whether all commands have ended within a time.
func (h *Host) awaitEnds(limit time.Duration) bool {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.running.Wait()
	}()
	select {
	case <-ended:
		return true
	case <-time.After(limit):
		return false
	}
}

// hangUpTerminals sends SIGHUP to commands with a terminal: interactive shells ignore
// SIGTERM. main means the command that the cell ends with, instead of the others.
func (h *Host) hangUpTerminals(main bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range h.commands {
		if x.tty && x.main == main {
			_ = x.Signal(int(syscall.SIGHUP))
		}
	}
}

// Close removes the socket and begins to end the connections; those that wait for an
// answer still get it. It comes before the run is concluded, so that a socket is never
// without a run that has to be finished.
func (h *Host) Close() {
	h.cancel()
	_ = h.Listener.Close() // what it could not remove, the next start replaces
}

// Finish answers the clients that asked for the end, and returns when they have their
// answers.
func (h *Host) Finish(res *api.RunResult, err error) error {
	h.result, h.err = res, err
	close(h.done)
	return <-h.served
}
