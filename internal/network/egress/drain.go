package egress

import (
	"sync"
	"time"
)

// tally counts unfinished work and lets callers wait for its end.
type tally struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n is 0 again
}

// add counts one. Calling done takes it back, once.
func (t *tally) add() (done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == 0 {
		t.none = make(chan struct{})
	}
	t.n++
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.n--; t.n == 0 {
			close(t.none)
		}
	})
}

// wait returns when the count is zero, or after the limit.
func (t *tally) wait(limit time.Duration) {
	t.mu.Lock()
	n, none := t.n, t.none
	t.mu.Unlock()
	if n == 0 {
		return
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-none:
	case <-timer.C:
	}
}

// Drain waits, but no longer than the limit, until everything that programs
// have written to connections that are not inspected was sent to the upstreams.
// It is for a cell whose programs have ended: the last bytes that one has
// written still arrive, as they would without a proxy.
func (p *Proxy) Drain(limit time.Duration) { p.unsent.wait(limit) }
