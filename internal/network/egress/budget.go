package egress

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// budget is the memory that all connections of a cell may make the host hold.
// Memory is taken before an allocation, for its largest possible size, and
// given back when the allocation is dropped.
type budget struct {
	mu   sync.Mutex
	left int64
	// freed is closed when memory was given back while a caller waits.
	freed chan struct{}
}

// The maximum memory of each, with the stacks of its goroutines.
const (
	// connCost is for a connection that is accepted or forwarded unread.
	connCost = 16 << 10
	// plainCost is for a connection that HTTP/1.1 is read from, with its TLS
	// and a header of up to freeHeader. A longer header costs headerFactor
	// times its size.
	plainCost    = 48 << 10
	freeHeader   = 4 << 10
	headerFactor = 4
	// framedCost is for a connection with HTTP/2: the data that is received but
	// not yet forwarded, and the first answers to control frames. answersCost is
	// for answersPaid more. Each stream adds its header.
	framedCost  = 512 << 10
	answersCost = 256 << 10
	streamCost  = 128 << 10
	// requestCost is for a request in progress and the header of its answer,
	// windowCost for the data that an upstream may send in HTTP/2 before the
	// program reads it.
	requestCost = 128 << 10
	windowCost  = 512 << 10
	// upstreamCost is for a connection to an upstream, in use or idle.
	upstreamCost = 64 << 10
	// bodyFactor and frameFactor are for bodies and websocket frames that are
	// held for inspection: they are copied.
	bodyFactor  = 2
	frameFactor = 3
)

// take reports whether n bytes were left, and takes them.
func (b *budget) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.left {
		return false
	}
	b.left -= n
	return true
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
	if b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
}

// wait takes n bytes as soon as they are available, and gives up after most.
func (b *budget) wait(ctx context.Context, n int64, most time.Duration) bool {
	if b.take(n) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		b.mu.Lock()
		if n <= b.left {
			b.left -= n
			b.mu.Unlock()
			return true
		}
		if b.freed == nil {
			b.freed = make(chan struct{})
		}
		freed := b.freed
		b.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return false
		}
	}
}

// account is the memory that one connection or request has taken from a budget.
type account struct {
	b    *budget
	mu   sync.Mutex
	held int64
	over bool
}

// take reports whether n bytes more could be taken.
func (a *account) take(n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over || !a.b.take(n) {
		return false
	}
	a.held += n
	return true
}

// give returns n bytes to the budget.
func (a *account) give(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n = min(n, a.held)
	a.held -= n
	a.b.give(n)
}

// close returns everything to the budget. Later calls of take fail.
func (a *account) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.b.give(a.held)
	a.held, a.over = 0, true
}

// overBudget returns the refusal for a cell that has no memory left.
func (p *Proxy) overBudget(layer string) *refusal {
	return refuse(layer, "", fmt.Sprintf("the connections of the cell hold all of the %d MiB of memory that they may", p.lim.Memory>>20))
}

// heldBody is a body that keeps, and counts, everything that is read before the
// request is decided.
type heldBody struct {
	io.ReadCloser
	f *flight
}

func (h *heldBody) Read(b []byte) (int, error) {
	n, err := h.ReadCloser.Read(b)
	if h.f.holds.Load() && !h.f.account.take(int64(n)*bodyFactor) {
		return 0, h.f.c.p.overBudget(layerRequest)
	}
	return n, err
}

// upstreamConn is a connection to an upstream that is counted in the budget.
type upstreamConn struct {
	net.Conn
	release func()
}

func (c *upstreamConn) NetConn() net.Conn { return c.Conn }

func (c *upstreamConn) CloseWrite() error {
	closeWrite(c.Conn)
	return nil
}

func (c *upstreamConn) Close() error {
	c.release()
	return c.Conn.Close()
}

// dialCounted connects to an upstream within the budget. It closes idle connections
// if it needs room.
func (o *pool) dialCounted(dial func() (net.Conn, error)) (net.Conn, error) {
	if !o.p.memory.take(upstreamCost) {
		o.reset()
		if !o.p.memory.take(upstreamCost) {
			return nil, o.p.overBudget(layerRequest)
		}
	}
	release := sync.OnceFunc(func() { o.p.memory.give(upstreamCost) })
	c, err := dial()
	if err != nil {
		release()
		return nil, err
	}
	return &upstreamConn{Conn: c, release: release}, nil
}
