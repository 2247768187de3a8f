package native

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
)

// copyOrder is a copy of the warm process that is to be made.
type copyOrder struct {
	line  *line // on which the copy says what it has done
	order *forkOrder
	hand  *handedDescriptors
	// cancelled returns why the caller does not want it any more.
	cancelled func() error
	// The result. done means that it is set.
	done   bool
	joined *joinedCopy
	err    error
}

// orderQueue has the copies that are to be made when the template runs next. To stop
// it takes as long as to make a copy, so those that wait at the same time are made
// between one start and one stop.
type orderQueue struct {
	mu   sync.Mutex
	list []*copyOrder
}

func (q *orderQueue) add(o *copyOrder) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = append(q.list, o)
}

// take empties the queue.
func (q *orderQueue) take() (list []*copyOrder) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list, q.list = q.list, nil
	return list
}

// copy lets the template run while it makes a copy of its warm process. The first of
// the callers that wait does it for all of them.
func (t *template) copy(ctx context.Context, copied *line, order *forkOrder, h *handedDescriptors) (*joinedCopy, error) {
	o := &copyOrder{line: copied, order: order, hand: h, cancelled: ctx.Err}
	t.orders.add(o)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !o.done {
		// The line to the warm process is for all branches: a caller who loses patience
		// must not leave an answer there.
		t.copyAll(context.WithoutCancel(ctx))
	}
	return o.joined, o.err
}

// copyAll makes the copies that are in the queue, and stops the template. The caller
// holds mu, so no cell is being built: the queue gets those only that are built.
func (t *template) copyAll(ctx context.Context) {
	all := t.orders.take()
	w := t.warm
	if w == nil {
		failAll(all, errors.Join(driver.ErrNotWarm, t.lost))
		return
	}
	t.ready.drain()
	unusable := w.wake()
	for next := all; unusable == nil && len(next) > 0; all = append(all, next...) {
		unusable = t.run(ctx, w, next)
		next = t.orders.take()
	}
	held := t.hold(ctx)
	if unusable == nil && held == nil {
		return
	}
	err := errors.Join(unusable, held)
	failAll(all, errors.Join(err, t.lose(ctx, err)))
}

// run has the warm process make the copies of a list, and returns when each has joined
// its cell or failed to. An error means that the warm process cannot be used any more.
func (t *template) run(ctx context.Context, w *warmProcess, list []*copyOrder) error {
	var joining sync.WaitGroup
	defer joining.Wait()
	for _, o := range list {
		o.done = true
		if o.err = o.cancelled(); o.err != nil {
			continue
		}
		exchange, cancel := context.WithTimeout(ctx, t.driver.opt.joinLimit)
		if o.err = w.fork(exchange, o.order, o.hand); o.err != nil {
			cancel()
			if _, refused := errors.AsType[*refusal](o.err); !refused {
				return o.err
			}
			continue
		}
		joining.Go(func() {
			defer cancel()
			o.joined, o.err = o.line.awaitJoined(exchange, w.filters+1, o.order.Listener)
		})
	}
	return nil
}

// failAll gives every order of a list an error, unless it has its own.
func failAll(list []*copyOrder, err error) {
	for _, o := range list {
		if o.joined != nil {
			mountfd.CloseAll(o.joined.listener)
		}
		o.done, o.joined = true, nil
		if o.err == nil {
			o.err = err
		}
	}
}

// wake lets the warm process run.
func (w *warmProcess) wake() error {
	if err := w.signal(unix.SIGCONT); err != nil {
		return fmt.Errorf("the warm process has ended: %w", err)
	}
	return nil
}

// fork has the warm process make a copy, and returns when it says that it has forked.
func (w *warmProcess) fork(ctx context.Context, order *forkOrder, h *handedDescriptors) error {
	err := w.say(ctx, order, h.fds...)
	h.close()
	if err != nil {
		return err
	}
	s, err := w.await(ctx, "forked")
	if err == nil {
		mountfd.CloseAll(s.fds)
	}
	return err
}

// joinedCopy is a copy that has joined its cell and waits.
type joinedCopy struct {
	pid      int
	inside   int   // its number in the template
	filters  int   // of system calls, that it must have
	listener []int // of its last filter, if it was asked for
	closed   closedSockets
}

// awaitJoined waits until a copy has joined its cell.
func (l *line) awaitJoined(ctx context.Context, filters int, listens bool) (*joinedCopy, error) {
	j := &joinedCopy{filters: filters}
	if listens {
		s, err := l.await(ctx, "listener")
		if err != nil {
			return nil, err
		}
		j.listener = s.fds
	}
	s, err := l.await(ctx, "joined")
	if err != nil {
		mountfd.CloseAll(j.listener)
		return nil, err
	}
	mountfd.CloseAll(s.fds)
	j.pid, j.closed = s.sender, s.Closed
	return j, nil
}
