package egress

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy serves one cell.
type Proxy struct {
	cfg Config
	lim Limits
	// slots, requests and reading hold one token for each connection, request
	// and body that Limits bounds.
	slots, requests, reading chan struct{}
	memory                   budget
	// unsent counts connections with data of a program that may not have been
	// sent to the upstream.
	unsent tally

	// servers are those of inner, for HTTP/1.1, and of streams, for HTTP/2.
	servers  [2]*http.Server
	inner    *queue
	streams  *queue
	upgrades *httputil.ReverseProxy
	pool     pool

	// mu is held for reading while something is decided and registered, so that
	// a new generation finds everything that the old one allowed.
	mu     sync.RWMutex
	gen    *Generation
	conns  map[*conn]struct{}
	closed bool
	// watched reports that endGone will be called.
	watched atomic.Bool

	wg sync.WaitGroup
}

// receiveBuffer bounds the bytes that a program may send on an HTTP/2 connection
// before any of them are forwarded. With the number of connections it bounds the
// proxy's memory.
const receiveBuffer = 256 << 10

// New makes a proxy. It serves until Close.
func New(cfg Config) (*Proxy, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	p := &Proxy{
		cfg: cfg, lim: cfg.Limits.withDefaults(), gen: cfg.Generation,
		conns: map[*conn]struct{}{}, inner: newQueue(), streams: newQueue(),
	}
	p.slots = make(chan struct{}, p.lim.Connections)
	p.requests = make(chan struct{}, p.lim.Requests)
	p.reading = make(chan struct{}, p.lim.Reading)
	p.memory.left = p.lim.Memory
	p.pool = pool{p: p}
	// HTTP/2 comes only in TLS, which is terminated before the server sees it.
	var one, two http.Protocols
	one.SetHTTP1(true)
	two.SetUnencryptedHTTP2(true)
	p.servers = [2]*http.Server{p.newServer(&one), p.newServer(&two)}
	p.upgrades = p.newUpgrades()
	for i, q := range []*queue{p.inner, p.streams} {
		p.wg.Go(func() { _ = p.servers[i].Serve(q) })
	}
	return p, nil
}

func (p *Proxy) newServer(protocols *http.Protocols) *http.Server {
	return &http.Server{
		Protocols:         protocols,
		Handler:           http.HandlerFunc(p.serveHTTP),
		ReadHeaderTimeout: p.lim.Hello,
		IdleTimeout:       p.lim.Idle,
		MaxHeaderBytes:    p.lim.HeaderBytes,
		ConnContext:       withConn,
		ConnState:         connState,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: p.lim.Streams, SendPingTimeout: p.lim.Idle,
			MaxReceiveBufferPerConnection: receiveBuffer, MaxReceiveBufferPerStream: receiveBuffer,
		},
		// Errors on a connection concern only the cell.
		ErrorLog:                     slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		DisableGeneralOptionsHandler: true,
	}
}

// Serve accepts connections from a listener until the context ends, or the
// listener or the proxy is closed. It closes the listener. Several listeners
// may be served at once.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	defer func() { _ = l.Close() }()
	if !p.enter(func() {}) {
		return net.ErrClosed
	}
	var delay time.Duration
	for {
		raw, err := l.Accept()
		switch {
		case err == nil:
		case ctx.Err() != nil, errors.Is(err, net.ErrClosed), p.isClosed():
			return nil
		default:
			// The process may have run out of descriptors; retry after
			// connections have ended.
			delay = min(max(delay*2, 5*time.Millisecond), time.Second)
			if !wait(ctx, delay) {
				return nil
			}
			continue
		}
		delay = 0
		if !p.enter(func() { p.wg.Go(func() { p.take(ctx, raw) }) }) {
			reset(raw)
			return nil
		}
	}
}

func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// enter runs f unless the proxy is closed, and reports whether it did.
func (p *Proxy) enter(f func()) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return false
	}
	f()
	return true
}

func (p *Proxy) isClosed() bool { return !p.enter(func() {}) }

// Close ends every connection and waits until nothing runs any more. The
// callers of Serve close the listeners.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	open := p.open()
	p.mu.Unlock()
	for _, c := range open {
		c.cut(errClosed)
	}
	err := errors.Join(p.servers[0].Close(), p.servers[1].Close())
	p.pool.reset()
	p.wg.Wait()
	p.pool.reset() // what became idle meanwhile
	return err
}

var errClosed = errors.New("the proxy ends")

// open returns the connections; the lock is held.
func (p *Proxy) open() []*conn {
	all := make([]*conn, 0, len(p.conns))
	for c := range p.conns {
		all = append(all, c)
	}
	return all
}

// Reload replaces the generation. It cuts connections and requests that the new
// one does not allow; the new one decides about everything else from now on.
func (p *Proxy) Reload(g *Generation) error {
	if g == nil || g.Policy == nil {
		return errors.New("egress: no policy")
	}
	p.mu.Lock()
	p.gen = g
	open := p.open()
	p.mu.Unlock()
	// Existing connections to upstreams were dialled under other rules for
	// addresses.
	p.pool.reset()
	for _, c := range open {
		c.reconsider(g)
	}
	return nil
}

// queue is a listener for connections that were already accepted and checked.
type queue struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newQueue() *queue { return &queue{conns: make(chan net.Conn), done: make(chan struct{})} }

func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.done:
		return nil, net.ErrClosed
	}
}

func (q *queue) Close() error {
	q.once.Do(func() { close(q.done) })
	return nil
}

func (q *queue) Addr() net.Addr { return &net.TCPAddr{} }

// put hands a connection to the server.
func (q *queue) put(c net.Conn) error {
	select {
	case q.conns <- c:
		return nil
	case <-q.done:
		return net.ErrClosed
	}
}

// reset ends a connection so that the other side gets an error at once instead
// of an end of data, which some programs take for an empty answer.
func reset(c net.Conn) {
	for {
		under, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		c = under.NetConn()
	}
	if tcp, ok := c.(interface{ SetLinger(int) error }); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// closeWrite ends the sending side of a connection.
func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
