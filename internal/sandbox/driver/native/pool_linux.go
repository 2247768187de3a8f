package native

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// pool has first processes that were started before their cells are known. Each
// waits for its plan and serves one cell. The start of a process, a clone and the
// start of a Go program, so runs beside other work.
//
// They execute this process's own program and are its user's, so neither can be out
// of date. The mounts of the host can: a process has a copy of those that there were
// when it was started.
type pool struct {
	start func() (*process, error)

	mu      sync.Mutex
	size    int            // so many are kept ready
	waiting []chan spawned // the oldest first
	mounts  hostMounts
	// later calls a function when refillDelay has passed. refilling means that it will.
	later     func(func())
	refilling bool
}

type spawned struct {
	proc *process
	err  error
}

// Warm starts the first process of the next cell beforehand. The returned
// function ends it if no cell has taken it.
func (n *Driver) Warm() (cool func()) {
	n.prepareLayers()
	return n.pool.warm()
}

// Keep keeps size first processes ready for cells to come, and replaces each that a
// cell takes. It does not wait for them: see AwaitReady. The returned function ends
// those that no cell has taken.
func (n *Driver) Keep(size int) (end func(), err error) {
	n.prepareLayers()
	return n.pool.keep(size)
}

// Ready returns the number of first processes that wait for a cell, and the number
// that Keep keeps ready.
func (n *Driver) Ready() (ready, size int) {
	p := &n.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.waiting {
		ready += len(w)
	}
	return ready, p.size
}

// AwaitReady waits until the processes of Keep have been started. What could not be
// started is tried again, and reported, by the cell that needs it.
func (n *Driver) AwaitReady() {
	if callerIdentity().Root {
		_, _ = n.layers.get()
	}
	n.pool.mu.Lock()
	waiting := slices.Clone(n.pool.waiting)
	n.pool.mu.Unlock()
	for _, w := range waiting {
		w <- <-w // a cell that takes it waits for the same
	}
}

// prepareLayers makes the user namespace of a root caller's layers beforehand.
func (n *Driver) prepareLayers() {
	if callerIdentity().Root {
		// The next caller of get has the error.
		go func() { _, _ = n.layers.get() }()
	}
}

// firstProcess returns a process that was started beforehand, or a new one.
func (n *Driver) firstProcess() (*process, error) {
	if p := n.pool.take(); p != nil {
		return p, nil
	}
	return n.spawn()
}

func (p *pool) warm() (cool func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) > 0 {
		return func() {}
	}
	p.add()
	next := p.waiting[0]
	return func() {
		if p.remove(next) {
			(<-next).discard()
		}
	}
}

func (p *pool) keep(size int) (end func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.mounts.watch(); err != nil {
		return nil, err
	}
	p.size = size
	p.fill()
	return p.close, nil
}

func (p *pool) close() {
	p.mu.Lock()
	p.size = 0
	waiting := p.waiting
	p.waiting = nil
	p.mounts.close()
	p.mu.Unlock()
	discardAll(waiting)
}

// fill starts the processes that are missing. The caller holds the lock.
func (p *pool) fill() {
	for len(p.waiting) < p.size {
		p.add()
	}
}

func (p *pool) add() {
	next := make(chan spawned, 1)
	p.waiting = append(p.waiting, next)
	go func() {
		proc, err := p.start()
		next <- spawned{proc, err}
	}()
}

// take returns a process that waits, or nil if none does.
func (p *pool) take() *process {
	for {
		next := p.next()
		if next == nil {
			return nil
		}
		s := <-next
		if s.err != nil {
			return nil // the caller's own attempt has the present reason
		}
		select {
		case <-s.proc.gone: // it was killed
			s.discard()
		default:
			return s.proc
		}
	}
}

// takeReady returns a process that has been started, or nil if there is none.
func (p *pool) takeReady() *process {
	p.mu.Lock()
	ready := len(p.waiting) > 0 && len(p.waiting[0]) > 0
	p.mu.Unlock()
	if !ready {
		return nil
	}
	return p.take()
}

// next takes the oldest process that is up to date off the list. While most of the
// others are still there, it is replaced shortly after its cell has ended: a start
// takes the processors from the cell that begins now.
func (p *pool) next() chan spawned {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mounts.haveChanged() {
		go discardAll(p.waiting)
		p.waiting = nil
	}
	var next chan spawned
	if len(p.waiting) > 0 {
		next, p.waiting = p.waiting[0], p.waiting[1:]
	}
	if len(p.waiting) <= p.size/2 {
		p.fill()
	}
	return next
}

// refill starts the processes that are missing.
func (p *pool) refill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refilling = false
	p.fill()
}

// refillDelay is the time between the end of a cell and the start of the process that
// replaces its first one. A run is sealed, signed and answered meanwhile, and has the
// processors for it.
const refillDelay = 5 * time.Millisecond

// refillSoon starts the processes that are missing, after refillDelay.
func (p *pool) refillSoon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) < p.size && !p.refilling {
		p.refilling = true
		p.later(p.refill)
	}
}

func afterDelay(f func()) { time.AfterFunc(refillDelay, f) }

// remove takes a process off the list and reports whether it was there.
func (p *pool) remove(next chan spawned) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.waiting, next)
	if at >= 0 {
		p.waiting = slices.Delete(p.waiting, at, at+1)
	}
	return at >= 0
}

func (s spawned) discard() {
	if s.err == nil {
		s.proc.destroy()
	}
}

func discardAll(list []chan spawned) {
	for _, w := range list {
		(<-w).discard()
	}
}

// hostMounts notices changes of the mounts that this process sees.
type hostMounts struct {
	fd      int
	watched bool
}

func (m *hostMounts) watch() error {
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("watch the host's mounts: %w", err)
	}
	m.fd, m.watched = fd, true
	return nil
}

// haveChanged reports whether mounts have changed since the last call.
func (m *hostMounts) haveChanged() bool {
	if !m.watched {
		return false
	}
	events, err := pollNow(m.fd, unix.POLLPRI)
	return err != nil || events&unix.POLLPRI != 0
}

func (m *hostMounts) close() {
	if m.watched {
		m.watched = false
		_ = unix.Close(m.fd)
	}
}
