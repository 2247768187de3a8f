package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/network/egress/names"
	"github.com/forkcell/forkcell/internal/policy"
)

// place is the destination of a connection.
type place struct {
	// host is a name, or an address as netip writes it.
	host string
	port uint16
	// literal reports that host is an address.
	literal bool
}

// conn is a program's connection.
type conn struct {
	net.Conn
	p     *Proxy
	start time.Time
	// ahead holds bytes that were read to look at them; Read returns them first.
	ahead    []byte
	in, out  atomic.Int64
	proc     Process
	to       place
	explicit bool
	secure   bool
	// account is the memory that the connection holds.
	account account
	// header counts the received part of the header of the HTTP/1.1 request
	// that is being read, and the memory taken for it.
	header header
	// head keeps the header of the HTTP/1.1 request that is being read.
	head head
	// unhandled reports that a request has arrived whose handler was not called
	// yet.
	unhandled atomic.Bool
	// sent is called when everything has been sent to the upstream.
	sent func()
	// peer is the upstream of a connection that is not inspected.
	peer atomic.Pointer[string]

	mu      sync.Mutex
	ruling  *view
	flights map[*flight]struct{}
	cause   error
	done    chan struct{}
	once    sync.Once
}

func (p *Proxy) newConn(raw net.Conn) *conn {
	c := &conn{Conn: raw, p: p, start: time.Now(), flights: map[*flight]struct{}{}, done: make(chan struct{}), sent: func() {}}
	c.account.b = &p.memory
	return c
}

func (c *conn) NetConn() net.Conn { return c.Conn }

func (c *conn) Read(b []byte) (int, error) {
	if len(c.ahead) > 0 {
		n := copy(b, c.ahead)
		c.ahead = c.ahead[n:]
		return n, nil
	}
	n, err := c.Conn.Read(b)
	c.in.Add(int64(n))
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.out.Add(int64(n))
	return n, err
}

func (c *conn) CloseWrite() error {
	closeWrite(c.Conn)
	return nil
}

func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.done) })
	return err
}

// whenDone calls f when the connection is closed, unless stop is called before.
func (c *conn) whenDone(f func()) (stop func()) {
	stopped := make(chan struct{})
	go func() {
		select {
		case <-c.done:
			f()
		case <-stopped:
		}
	}()
	return sync.OnceFunc(func() { close(stopped) })
}

// cut resets a connection and records the cause in its event.
func (c *conn) cut(cause error) {
	c.mu.Lock()
	if c.cause == nil {
		c.cause = cause
	}
	c.mu.Unlock()
	for _, f := range c.inFlight() {
		f.cancel(cause)
	}
	reset(c.Conn)
	_ = c.Close()
}

// inFlight returns the requests that are being handled.
func (c *conn) inFlight() []*flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.flights))
}

func (c *conn) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// refusal is the reason why a connection or request is denied. layer names the
// check; policy, if set, is the hash of the policy that decided.
type refusal struct {
	layer  string
	policy string
	policy.Explanation
	hint string
}

func (r *refusal) Error() string { return r.Reason }

// The checks, in their order.
const (
	layerAttribution = "attribution"
	layerEndpoint    = "endpoint"
	layerDestination = "destination"
	layerTLS         = "tls"
	layerRequest     = "request"
	layerCredential  = "credential"
)

func refuse(layer, rule, reason string) *refusal {
	return &refusal{layer: layer, Explanation: policy.Explanation{Rule: rule, Reason: reason}}
}

// take serves an accepted connection until its end.
func (p *Proxy) take(ctx context.Context, raw net.Conn) {
	c := p.newConn(raw)
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	default:
		reset(raw)
		p.recordConn(c, event.Refused, refuse(layerEndpoint, "", "the cell has too many connections open"))
		return
	}
	c.sent = p.unsent.add()
	defer c.sent()
	defer func() { _ = c.Close() }()
	defer c.account.close()
	if !c.account.take(connCost) {
		reset(raw)
		p.recordConn(c, event.Refused, p.overBudget(layerEndpoint))
		return
	}
	// Do not wait for connections when the cell ends.
	stop := context.AfterFunc(ctx, func() { c.cut(errClosed) })
	defer stop()
	if err := p.identify(c); err != nil {
		reset(raw)
		p.recordConn(c, event.Refused, err)
		return
	}
	if c.explicit {
		c.sent()
		p.serveExplicit(c)
		return
	}
	p.serve(ctx, c)
}

// identify finds the destination and the program of a connection.
func (p *Proxy) identify(c *conn) error {
	d, err := p.cfg.Destination(c.Conn)
	if err != nil {
		return refuse(layerEndpoint, "", "the destination is not known: "+err.Error())
	}
	c.explicit = d.Explicit
	c.to, err = p.placeOf(d.Addr)
	if err != nil && !c.explicit {
		return err
	}
	if c.proc, err = p.cfg.Attribute(c.Conn); err != nil {
		// Rules for any binary can still match.
		c.proc = Process{Unknown: err.Error()}
	}
	return nil
}

// placeOf finds the name of an address. A synthetic address without a name is
// an error.
func (p *Proxy) placeOf(a netip.AddrPort) (place, error) {
	addr := a.Addr().Unmap().WithZone("")
	to := place{host: addr.String(), port: a.Port(), literal: true}
	name, ok := p.cfg.Names.Name(addr)
	switch {
	case ok:
		return place{host: name, port: a.Port()}, nil
	case names.Synthetic(addr):
		return to, refuse(layerEndpoint, "none", "no name has been given this address")
	}
	return to, nil
}

// serve decides about a connection and forwards it.
func (p *Proxy) serve(ctx context.Context, c *conn) {
	v, err := p.admit(c)
	if err != nil {
		reset(c.Conn)
		p.recordConn(c, event.Refused, err)
		return
	}
	defer p.leave(c)
	if v.opaque() {
		p.serveOpaque(ctx, c, v)
		return
	}
	c.sent()
	p.serveInspected(ctx, c)
}

// admit decides about a connection, and registers an allowed one.
func (p *Proxy) admit(c *conn) (*view, error) {
	p.mu.RLock()
	v := p.gen.view(c.proc, c.to.host, c.to.port)
	p.mu.RUnlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	if v.gen != p.gen {
		v = p.gen.view(c.proc, c.to.host, c.to.port)
	}
	if !v.connection.Allowed {
		return nil, v.refuse(c.to, c.proc)
	}
	c.mu.Lock()
	c.ruling = v
	c.mu.Unlock()
	p.conns[c] = struct{}{}
	return v, nil
}

// keep registers a connection to the explicit proxy, which has no destination yet.
func (p *Proxy) keep(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) leave(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// view returns the part of the policy for a destination; p.mu is held.
func (c *conn) view(to place) *view {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.ruling; v != nil && v.gen == c.p.gen && v.host == to.host && v.port == to.port {
		return v
	}
	c.ruling = c.p.gen.view(c.proc, to.host, to.port)
	return c.ruling
}

// reconsider cuts the connection, or those of its requests, that a new
// generation does not allow.
func (c *conn) reconsider(g *Generation) {
	c.mu.Lock()
	old := c.ruling
	c.mu.Unlock()
	if !c.explicit && old != nil {
		if no := c.outdated(old, g.view(c.proc, c.to.host, c.to.port)); no != nil {
			no.policy = g.Hash
			c.cut(no)
			return
		}
	}
	for _, f := range c.inFlight() {
		f.reconsider(g)
	}
}

// outdated returns the reason why a connection cannot stay under a new
// generation. If it can, outdated moves it to that generation and returns nil.
func (c *conn) outdated(old, v *view) *refusal {
	switch {
	case !v.connection.Allowed:
		return v.refuse(c.to, c.proc)
	case v.opaque() != old.opaque():
		return refuse(layerEndpoint, v.connection.Rule, "the new policy changes whether requests are inspected")
	case v.opaque() && !slices.Equal(v.allowed(), old.allowed()):
		return refuse(layerDestination, v.connection.Rule, "the new policy has other allowed_ips")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ruling == old {
		c.ruling = v
	}
	return nil
}

// serveInspected reads requests from a connection.
func (p *Proxy) serveInspected(ctx context.Context, c *conn) {
	step, err := event.Closed, p.start(ctx, c)
	if err == nil {
		<-c.done
		err = c.why()
	}
	var r *refusal
	if errors.As(err, &r) {
		step = event.Reset
		reset(c.Conn)
	}
	_ = c.Close()
	p.recordConn(c, step, err)
}

// errSilent is the end of a connection on which the program sent nothing.
var errSilent = errors.New("the program sent nothing")

// start hands a connection to the server, as plain HTTP or in TLS.
func (p *Proxy) start(ctx context.Context, c *conn) error {
	var first [1]byte
	_ = c.SetReadDeadline(time.Now().Add(p.lim.Idle))
	if _, err := io.ReadFull(c, first[:]); err != nil {
		return errSilent
	}
	_ = c.SetReadDeadline(time.Time{})
	if !c.account.take(plainCost) {
		return p.overBudget(layerRequest)
	}
	c.ahead = first[:]
	switch b := first[0]; {
	case b == tlsHandshake:
		secure, err := p.terminate(ctx, c)
		if err != nil {
			return err
		}
		return p.serveTLS(c, secure)
	case b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z' || b == '\r' || b == '\n':
		return p.inner.put(&servedConn{Conn: c, c: c})
	}
	return refuse(layerRequest, "", "neither TLS nor HTTP, and the endpoint's requests are inspected")
}

// tlsHandshake is the first byte of every TLS connection.
const tlsHandshake = 0x16

// terminate answers TLS in the name of the host that was resolved, and of no
// other.
func (p *Proxy) terminate(ctx context.Context, c *conn) (*tls.Conn, error) {
	config, err := p.cfg.Authority.Config(c.to.host, "h2", "http/1.1")
	if err != nil {
		return nil, refuse(layerTLS, "", err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, p.lim.Hello)
	defer cancel()
	secure := tls.Server(c, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, refuse(layerTLS, "", "the handshake with the program failed: "+err.Error())
	}
	if err := checkServerName(secure.ConnectionState().ServerName, c.to); err != nil {
		return nil, err
	}
	c.secure = true
	return secure, nil
}

// checkServerName compares the name in a ClientHello with the one resolved.
func checkServerName(sni string, to place) error {
	switch {
	case strings.EqualFold(sni, to.host), sni == "" && to.literal:
		return nil
	case sni == "":
		return refuse(layerTLS, "", "the ClientHello names no server, and "+to.host+" is expected")
	}
	return refuse(layerTLS, "", fmt.Sprintf("the ClientHello names the server %q, and %s is expected", clip(sni), to.host))
}

// clip shortens text from a program.
func clip(s string) string {
	const most = 100
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
