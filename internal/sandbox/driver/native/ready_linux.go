package native

import (
	"errors"
	"sync"
	"time"
)

// readyProcesses are first processes that were started before their branches are
// known. Each waits for its plan. It sees the host's files meanwhile, and the template's
// user owns its namespaces, so none exists while the template runs.
type readyProcesses struct {
	start func() (*process, error)

	mu      sync.Mutex
	waiting []chan spawned
	mounts  hostMounts
	changed func() bool // reports whether mounts have changed
	making  int         // branches that are being made
	refill  *time.Timer
	closed  bool // none may wait
}

// readyCount is how many processes wait between branches. One that no branch takes is
// ended before a copy is made, which waits until the kernel has taken its mounts apart.
const readyCount = 1

// readyDelay is how long after the last branch the next processes are started: they
// would take the processors from the branch's first answer.
const readyDelay = 50 * time.Millisecond

var errRuns = errors.New("the template runs")

// startReady starts a first process of a branch while the template stands still.
func (t *template) startReady() (*process, error) {
	if !t.mu.TryRLock() {
		return nil, errRuns
	}
	defer t.mu.RUnlock()
	if t.warm == nil {
		return nil, errEnded
	}
	return t.spawner.start()
}

// firstOfBranch returns a process that waits, or a new one. The caller holds mu for
// reading.
func (t *template) firstOfBranch() (*process, error) {
	if p := t.ready.take(); p != nil {
		return p, nil
	}
	return t.spawner.start()
}

// open begins to keep processes ready. A host whose mounts cannot be watched has none.
func (r *readyProcesses) open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed && r.mounts.watch() == nil {
		r.fill(readyCount)
	}
}

// expect starts a process if none waits.
func (r *readyProcesses) expect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fill(1)
}

// fill starts processes until so many wait. The caller holds the lock.
func (r *readyProcesses) fill(size int) {
	if !r.mounts.watched {
		return
	}
	for len(r.waiting) < size {
		next := make(chan spawned, 1)
		r.waiting = append(r.waiting, next)
		go func() {
			proc, err := r.start()
			next <- spawned{proc, err}
		}()
	}
}

// begin counts a branch that is being made.
func (r *readyProcesses) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.making++
	if r.refill != nil {
		r.refill.Stop()
	}
}

// finish counts a branch that was made. After the last one, processes are started for
// the next ones.
func (r *readyProcesses) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.making--
	if r.making > 0 || !r.mounts.watched {
		return
	}
	r.refill = time.AfterFunc(readyDelay, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.making == 0 {
			r.fill(readyCount)
		}
	})
}

// take returns a process that waits and has the host's present mounts, or nil.
func (r *readyProcesses) take() *process {
	for next := r.next(); next != nil; next = r.next() {
		s := <-next
		if s.err == nil && s.proc.isAlive() {
			return s.proc
		}
		s.discard() // it was killed, or never started
	}
	return nil
}

// next takes the oldest process off the list.
func (r *readyProcesses) next() (next chan spawned) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed() {
		discardAll(r.waiting)
		r.waiting = nil
	}
	if len(r.waiting) > 0 {
		next, r.waiting = r.waiting[0], r.waiting[1:]
	}
	return next
}

// drain ends the processes that wait, and returns when they are gone.
func (r *readyProcesses) drain() {
	r.mu.Lock()
	waiting := r.waiting
	r.waiting = nil
	r.mu.Unlock()
	discardAll(waiting)
}

// close ends the processes that wait. None is started any more.
func (r *readyProcesses) close() {
	r.mu.Lock()
	r.closed = true
	r.mounts.close()
	if r.refill != nil {
		r.refill.Stop()
	}
	r.mu.Unlock()
	r.drain()
}
