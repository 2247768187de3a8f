package native

import (
	"sync"

	"github.com/forkcell/forkcell/internal/driver/native/protocol"
)

// warmed is a first process that was started before its cell is known. It waits
// for its plan. Its start, a clone and the start of a Go program, runs beside other
// work.
type warmed struct {
	mu   sync.Mutex
	next chan spawned
}

type spawned struct {
	proc *process
	err  error
}

// Warm starts the first process of the next cell beforehand. The returned
// function ends it if no cell has taken it.
func (n *Driver) Warm() (cool func()) {
	next := make(chan spawned, 1)
	n.warm.mu.Lock()
	taken := n.warm.next != nil
	if !taken {
		n.warm.next = next
	}
	n.warm.mu.Unlock()
	if taken {
		return func() {}
	}
	id := callerIdentity()
	go func() {
		proc, err := spawn(id, n.opt.Executable, n.opt.without)
		next <- spawned{proc, err}
		if id.Root {
			// The next caller of get has the error.
			_, _ = n.layers.get()
		}
	}()
	return func() {
		if n.warm.take() != next {
			return
		}
		if b := <-next; b.err == nil {
			b.proc.destroy()
		}
	}
}

// take returns the waiting process, or nil.
func (w *warmed) take() chan spawned {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := w.next
	w.next = nil
	return next
}

// firstProcess is the warm one or a new one.
func (n *Driver) firstProcess(id protocol.Identity) (*process, error) {
	if next := n.warm.take(); next != nil {
		b := <-next
		return b.proc, b.err
	}
	return spawn(id, n.opt.Executable, n.opt.without)
}
