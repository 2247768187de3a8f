package workspace

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/forkcell/forkcell/internal/fsx"
)

const (
	// keptOpen is how many directories that are not in use a walk leaves open.
	keptOpen = 256
	// batch is how many files are one task.
	batch = 16
)

// task is a piece of work on a tree: a directory, or some of the files in it. It
// has ended when it and all the tasks that it added have.
type task struct {
	up   *task
	left atomic.Int32 // itself and the tasks that it added
	// enter does the work, and may add tasks.
	enter func(t *task) error
	// leave, if not nil, is called when all that was added has ended. If it
	// returns true the task begins again.
	leave func() (again bool, err error)
}

// crew does tasks, several at once, those added last first. So what is in memory
// follows the directories on the way to those that are being read, and neither a
// stack frame nor a descriptor is held for each level of a tree.
type crew struct {
	ctx    context.Context //nolint:containedctx // lives as long as one walk
	keeper *fsx.Keeper
	limit  int

	mu      sync.Mutex
	idle    *sync.Cond
	ready   []*task
	workers int
	running int
	err     error
}

// newCrew has at most twice the number of cores at work: part of the time goes
// to waiting for the disk.
func newCrew(ctx context.Context) *crew {
	c := &crew{ctx: ctx, keeper: fsx.NewKeeper(keptOpen), limit: 2 * runtime.GOMAXPROCS(0)}
	c.idle = sync.NewCond(&c.mu)
	return c
}

// run does a task and all that it adds, and returns the first error. After an
// error nothing more is begun.
func (c *crew) run(enter func(t *task) error, leave func() (bool, error)) error {
	defer c.keeper.Close()
	c.ready, c.workers, c.err = nil, 1, nil
	c.add(nil, enter, leave)
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.next() {
			continue
		}
		if c.running == 0 {
			return c.err
		}
		c.idle.Wait()
	}
}

// add adds a task. Only the task up may do so, while it is in its enter.
func (c *crew) add(up *task, enter func(t *task) error, leave func() (bool, error)) {
	t := &task{up: up, enter: enter, leave: leave}
	t.left.Store(1)
	if up != nil {
		up.left.Add(1)
	}
	c.push(t)
}

func (c *crew) push(t *task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = append(c.ready, t)
	if len(c.ready) > 1 && c.workers < c.limit {
		c.workers++
		go c.help()
	}
	c.idle.Signal()
}

// help does tasks until there are none.
func (c *crew) help() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.next() {
	}
	c.workers--
	c.idle.Signal()
}

// next does one task, if there is one. The lock is held but for the work itself.
func (c *crew) next() bool {
	n := len(c.ready) - 1
	if n < 0 || c.err != nil {
		return false
	}
	t := c.ready[n]
	c.ready[n], c.ready = nil, c.ready[:n]
	c.running++
	c.mu.Unlock()
	err := c.do(t)
	c.mu.Lock()
	c.running--
	if err != nil && c.err == nil {
		c.err = err
	}
	return true
}

func (c *crew) do(t *task) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if err := t.enter(t); err != nil {
		return err
	}
	for ; t != nil && t.left.Add(-1) == 0; t = t.up {
		if t.leave == nil {
			continue
		}
		again, err := t.leave()
		if err != nil {
			return err
		}
		if again {
			t.left.Store(1)
			c.push(t)
			return nil
		}
	}
	return nil
}

// batches adds tasks for names or entries of one directory, some in each.
func batches[T any](c *crew, up *task, all []T, do func(T) error) {
	for len(all) > 0 {
		some := all[:min(batch, len(all))]
		all = all[len(some):]
		c.add(up, func(*task) error {
			for _, x := range some {
				if err := c.ctx.Err(); err != nil {
					return err
				}
				if err := do(x); err != nil {
					return err
				}
			}
			return nil
		}, nil)
	}
}
