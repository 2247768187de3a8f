package workspace

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

const (
	// keptOpen is the number of unused directories that a walk leaves open.
	keptOpen = 256
	// batch is the number of files in one task.
	batch = 16
)

// task is a piece of work on a tree: a directory, or some of its files. It has
// ended when it and all tasks that it added have ended.
type task struct {
	up   *task
	left atomic.Int32 // itself and the tasks that it added
	// enter does the work, and may add tasks.
	enter func(t *task) error
	// leave, if not nil, is called when all that was added has ended. If it
	// returns true the task begins again.
	leave func() (again bool, err error)
}

// pool runs tasks, several at once, those added last first. So the memory needed
// follows the directories above those that are being read, and there is neither a
// stack frame nor a descriptor for each level of a tree.
type pool struct {
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

// newPool returns a pool that runs at most twice as many tasks as there are cores:
// they spend part of the time waiting for the disk.
func newPool(ctx context.Context) *pool {
	c := &pool{ctx: ctx, keeper: fsx.NewKeeper(keptOpen), limit: 2 * runtime.GOMAXPROCS(0)}
	c.idle = sync.NewCond(&c.mu)
	return c
}

// run runs a task and all that it adds, and returns the first error. After an
// error it starts no more tasks.
func (c *pool) run(enter func(t *task) error, leave func() (bool, error)) error {
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

// add adds a task. Only the task up may call it, in its enter function.
func (c *pool) add(up *task, enter func(t *task) error, leave func() (bool, error)) {
	t := &task{up: up, enter: enter, leave: leave}
	t.left.Store(1)
	if up != nil {
		up.left.Add(1)
	}
	c.push(t)
}

func (c *pool) push(t *task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = append(c.ready, t)
	if len(c.ready) > 1 && c.workers < c.limit {
		c.workers++
		go c.help()
	}
	c.idle.Signal()
}

// help runs tasks until there are none.
func (c *pool) help() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.next() {
	}
	c.workers--
	c.idle.Signal()
}

// next runs one task, if there is one. The lock is released during the work.
func (c *pool) next() bool {
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

func (c *pool) do(t *task) error {
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

// batches adds tasks for the names or entries of one directory, some in each.
func batches[T any](c *pool, up *task, all []T, do func(T) error) {
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
