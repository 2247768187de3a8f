package native

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/driver"
	"github.com/forkcell/forkcell/internal/driver/fault"
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
	if t.isWarm() {
		return driver.Outcome{}, fault.At("exec", driver.ErrHeld)
	}
	return t.Cell.Exec(ctx, cmd, stdio)
}

// Freeze implements driver.Cell: a template that is warm stands still.
func (t *template) Freeze(ctx context.Context) error {
	t.mu.Lock()
	if t.warm == nil {
		t.mu.Unlock()
		return t.Cell.Freeze(ctx)
	}
	t.frozen = true // until Thaw no copy is made
	return nil
}

// Thaw implements driver.Cell.
func (t *template) Thaw() error {
	if t.frozen {
		t.frozen = false
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
	t.mu.Lock()
	if t.warm != nil {
		t.warm.close()
	}
	t.mu.Unlock()
	if !branches {
		return t.destroyAll()
	}
	err := t.killCommands()
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

// killCommands ends every process of the template but the first one and the spawner.
func (t *template) killCommands() error {
	deadline := time.Now().Add(stopLimit)
	for {
		list, err := t.processes()
		if err != nil {
			return err
		}
		left := 0
		for _, p := range list {
			if p.HostPID == t.pid || p.State == "Z" {
				continue
			}
			left++
			if err := unix.Kill(p.HostPID, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("end the template: %w", err)
			}
		}
		switch {
		case left == 0:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("end the template: %d processes: %w", left, driver.ErrStillRunning)
		}
		select {
		case <-t.gone:
			return nil
		case <-time.After(time.Millisecond):
		}
	}
}
