package native

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
)

// life counts the branches of a template. The pid namespaces of branches are below
// the template's, whose first process must live as long as any of them.
type life struct {
	mu       sync.Mutex
	branches int
	closed   bool // no command of the template runs any more, and none can
	// ended is closed when the template has been closed, or its first process has
	// died.
	ended chan struct{}
	once  sync.Once
}

func (l *life) end() { l.once.Do(func() { close(l.ended) }) }

// begin counts a branch, unless the template is closed.
func (l *life) begin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errEnded
	}
	l.branches++
	return nil
}

// finish counts a branch that has ended, and reports whether it was the last one of a
// template that is closed.
func (l *life) finish() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.branches--
	return l.closed && l.branches == 0
}

// close closes the template. It reports whether it was open, and whether it has
// branches.
func (l *life) close() (open, branches bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	open, l.closed = !l.closed, true
	return open, l.branches > 0
}

// Gone implements driver.Cell.
func (t *template) Gone() <-chan struct{} { return t.life.ended }

// Exec implements driver.Cell. Nothing runs in a template that is warm.
func (t *template) Exec(ctx context.Context, cmd driver.Command, stdio driver.Stdio) (driver.Outcome, error) {
	e, err := t.begin(ctx, cmd, stdio)
	if err != nil {
		return driver.Outcome{}, err
	}
	out := driver.Outcome{Controls: t.controls}
	e.serve(ctx, stdio, &out)
	return out, nil
}

// begin executes a command unless the template is warm, and not while it becomes so.
func (t *template) begin(ctx context.Context, cmd driver.Command, stdio driver.Stdio) (*execution, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.isHeld() {
		return nil, fault.At("exec", errors.Join(driver.ErrHeld, t.lost))
	}
	return t.Cell.begin(ctx, cmd, stdio)
}

// signalCommand sends a signal to a command. SIGCONT is left out: it could arrive when
// the template stands still.
func (t *template) signalCommand(e *execution, sig unix.Signal) {
	switch sig {
	case unix.SIGCONT:
	case unix.SIGKILL:
		t.killCommand(e)
	default:
		e.order(sig)
	}
}

// killCommand kills a command, and stops the template again if it stood still: the
// kernel lets the stopped processes go on whose group has lost its last parent.
func (t *template) killCommand(e *execution) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ready.drain()
	e.order(unix.SIGKILL)
	select {
	case a, ok := <-e.reports:
		if ok {
			e.reports <- a // for serve
		}
	case <-time.After(stopLimit):
	}
	if t.warm == nil {
		return
	}
	if err := t.hold(context.Background()); err != nil {
		_ = t.lose(context.Background(), err) // else its first process was killed
	}
}

// Terminate implements driver.Cell. The processes of a warm template cannot end by
// themselves.
func (t *template) Terminate(limit time.Duration) (bool, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.isHeld() {
		return false, nil
	}
	return t.Cell.Terminate(limit)
}

// Freeze implements driver.Cell: a template that is warm stands still.
func (t *template) Freeze(ctx context.Context) error {
	t.mu.Lock()
	if !t.isHeld() {
		t.mu.Unlock()
		return t.Cell.Freeze(ctx)
	}
	t.frozen.Store(true) // until Thaw no copy is made
	return nil
}

// Thaw implements driver.Cell.
func (t *template) Thaw() error {
	if t.frozen.CompareAndSwap(true, false) {
		t.mu.Unlock()
		return nil
	}
	return t.Cell.Thaw()
}

// Close ends the template. While it has branches its first process stays.
func (t *template) Close() error {
	open, branches := t.life.close()
	if !open {
		return nil
	}
	if t.frozen.CompareAndSwap(true, false) {
		t.mu.Unlock()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !branches {
		t.endWarm(errEnded)
		return t.destroyAll()
	}
	err := t.lose(context.Background(), errEnded)
	if err == nil {
		err = t.spawner.detach(t.state)
	}
	if err != nil {
		// Its files must be nobody's any more.
		return errors.Join(err, t.destroyAll())
	}
	t.life.end()
	return nil
}

// destroyAll ends the first process, and with it everything below.
func (t *template) destroyAll() error {
	err := t.Cell.Close()
	t.spawner.close()
	t.life.end()
	return err
}
