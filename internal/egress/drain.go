package egress

import (
	"sync"
	"time"
)

// tally counts what is not done yet, and lets others wait for its end.
type tally struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n is 0 again
}

// add counts one. The function that it returns takes it back, once.
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

// wait returns when nothing is left, or after the limit.
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

// Drain waits, but no longer than the limit, until upstreams of connections that
// are not inspected have been sent what programs have written to them. It is for
// a cell whose programs have ended: what one has written last is on its way as it
// would be without a proxy.
func (p *Proxy) Drain(limit time.Duration) { p.unsent.wait(limit) }
