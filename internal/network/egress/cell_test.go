package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/network/egress"
	"github.com/forkcell/forkcell/internal/network/egress/authority"
	"github.com/forkcell/forkcell/internal/network/egress/credential"
	"github.com/forkcell/forkcell/internal/network/egress/names"
	"github.com/forkcell/forkcell/internal/policy"
)

const curl = "/usr/bin/curl"

// cell is a proxy with everything around it but the kernel's part: each
// destination has a listener of its own, in place of the capture.
type cell struct {
	t     testing.TB
	proxy *egress.Proxy
	names names.Table
	trust *x509.CertPool // the cell's
	ca    *authority.Authority
	hosts *authority.Authority // issues the upstreams' certificates

	mu        sync.Mutex
	listeners map[egress.Destination]string
	places    map[string]egress.Destination
	upstreams map[string]string
	process   egress.Process
	broken    error         // of attribution
	slow      chan struct{} // what the dialer waits for, if it is not nil
	events    []map[string]any

	dials atomic.Int64
}

type option func(*egress.Config)

func newCell(t testing.TB, rules string, opts ...option) *cell {
	t.Helper()
	c := &cell{
		t: t, listeners: map[egress.Destination]string{}, places: map[string]egress.Destination{}, upstreams: map[string]string{},
		process: egress.Process{PID: 7, Parent: 2, Binary: curl},
	}
	c.ca, c.hosts = newAuthority(t), newAuthority(t)
	c.trust = poolOf(t, c.ca)
	cfg := egress.Config{
		Generation: generation(t, rules), Names: &c.names, Destination: c.destination, Attribute: c.attribute,
		Dialer: c, Authority: c.ca, Roots: poolOf(t, c.hosts), Event: c.event,
	}
	for _, o := range opts {
		o(&cfg)
	}
	p, err := egress.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.proxy = p
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		// Whatever the test did, all memory was given back. Connections to
		// upstreams are closed by goroutines of net/http.
		deadline := time.Now().Add(30 * time.Second)
		for p.MemoryHeld() != 0 && time.Now().Before(deadline) {
			pause()
		}
		if n := p.MemoryHeld(); n != 0 {
			t.Errorf("%d bytes of the budget are held after the end", n)
		}
	})
	return c
}

func newAuthority(t testing.TB) *authority.Authority {
	t.Helper()
	a, err := authority.New("test")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func poolOf(t testing.TB, a *authority.Authority) *x509.CertPool {
	t.Helper()
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(a.PEM()) {
		t.Fatal("no certificate")
	}
	return p
}

func generation(t testing.TB, rules string) *egress.Generation {
	t.Helper()
	p, err := policy.Parse("test.yaml", []byte("version: 1\n"+rules), policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := &egress.Generation{Policy: p, Hash: p.Hash()}
	if len(p.Credentials) == 0 {
		// As a cell without credentials has it.
		if g.Credentials, err = credential.NewSet(nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// rules writes a policy with one entry for curl.
func rules(endpoints ...string) string {
	return "network_policies: {api: {endpoints: [" + strings.Join(endpoints, ", ") + "], binaries: [{path: " + curl + "}]}}"
}

func (c *cell) destination(conn net.Conn) (egress.Destination, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.places[conn.LocalAddr().String()], nil
}

func (c *cell) attribute(net.Conn) (egress.Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.process, c.broken
}

// Dial is the proxy's: it knows the upstreams of the test and no other.
func (c *cell) Dial(ctx context.Context, host string, port uint16, _ []netip.Prefix) (net.Conn, error) {
	c.dials.Add(1)
	if c.slow != nil {
		<-c.slow
	}
	c.mu.Lock()
	addr, ok := c.upstreams[net.JoinHostPort(host, strconv.Itoa(int(port)))]
	c.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("%w: %s has none for the test", egress.ErrDestination, host)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}

// event keeps an event as a reader of the journal sees it.
func (c *cell) event(e event.Event) {
	f := &memory{}
	j, err := event.Create(f, event.Meta{Cell: "cell", Run: "run"}, event.Options{})
	if err == nil {
		err = j.Append(e)
	}
	if err == nil {
		_, err = j.Seal()
	}
	var m map[string]any
	line, _, _ := bytes.Cut(f.data, []byte("\n"))
	if err == nil {
		err = json.Unmarshal(line, &m)
	}
	if err != nil {
		c.t.Error("event:", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, m)
}

type memory struct {
	data []byte
	at   int
}

func (m *memory) Read(p []byte) (int, error) {
	n := copy(p, m.data[m.at:])
	m.at += n
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (m *memory) Write(p []byte) (int, error) {
	m.data = append(m.data, p...)
	return len(p), nil
}
func (m *memory) Seek(int64, int) (int64, error) { return int64(len(m.data)), nil }
func (m *memory) Truncate(int64) error           { return nil }
func (m *memory) Sync() error                    { return nil }

// find waits for an event of a class for which ok holds.
func (c *cell) find(class event.Class, ok func(map[string]any) bool) map[string]any {
	c.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); pause() {
		c.mu.Lock()
		for _, e := range c.events {
			if e["class_uid"] == float64(class) && ok(e) {
				c.mu.Unlock()
				return e
			}
		}
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t.Fatalf("no such event of class %d among %v", class, c.events)
	return nil
}

func pause() {
	t := time.NewTimer(2 * time.Millisecond)
	<-t.C
}

// text finds a text in an event by the names of its fields.
func text(e map[string]any, path ...string) string {
	var v any = e
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return fmt.Sprint(v)
}

// at returns the address of a listener that stands for a destination.
func (c *cell) at(d egress.Destination) string {
	c.t.Helper()
	c.mu.Lock()
	addr, ok := c.listeners[d]
	c.mu.Unlock()
	if ok {
		return addr
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	c.listeners[d], c.places[l.Addr().String()] = l.Addr().String(), d
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.proxy.Serve(ctx, l) }()
	c.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			c.t.Error("serve:", err)
		}
	})
	return l.Addr().String()
}

// to finds the destination that a program of the cell would connect to.
func (c *cell) to(host string, port uint16) egress.Destination {
	c.t.Helper()
	if addr, err := netip.ParseAddr(host); err == nil {
		return egress.Destination{Addr: netip.AddrPortFrom(addr, port)}
	}
	v4, _, err := c.names.Assign(host)
	if err != nil {
		c.t.Fatal(err)
	}
	return egress.Destination{Addr: netip.AddrPortFrom(v4, port)}
}

var explicit = egress.Destination{Addr: netip.MustParseAddrPort("192.0.2.1:64753"), Explicit: true}

func (c *cell) dial(d egress.Destination) net.Conn {
	c.t.Helper()
	conn, err := net.Dial("tcp", c.at(d))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	return conn
}

// secure dials and starts TLS with a server name.
func (c *cell) secure(host string, port uint16, sni string, protos ...string) (*tls.Conn, error) {
	conn := tls.Client(c.dial(c.to(host, port)), &tls.Config{RootCAs: c.trust, ServerName: sni, NextProtos: protos})
	return conn, conn.Handshake()
}

// tls starts TLS on a connection.
func (c *cell) tls(conn net.Conn, name string) *tls.Conn {
	c.t.Helper()
	secure := tls.Client(conn, &tls.Config{RootCAs: c.trust, ServerName: name})
	if err := secure.Handshake(); err != nil {
		c.t.Fatal(err)
	}
	return secure
}

// tlsH2 starts TLS for HTTP/2 on a connection.
func (c *cell) tlsH2(conn net.Conn, name string) *tls.Conn {
	c.t.Helper()
	secure := tls.Client(conn, &tls.Config{RootCAs: c.trust, ServerName: name, NextProtos: []string{"h2"}})
	if err := secure.Handshake(); err != nil {
		c.t.Fatal(err)
	}
	return secure
}

// client is a program's HTTP client.
func (c *cell) client(h2 bool) *http.Client {
	tr := &http.Transport{
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			n, err := strconv.ParseUint(port, 10, 16)
			if err != nil {
				return nil, err
			}
			var d net.Dialer
			return d.DialContext(ctx, "tcp", c.at(c.to(host, uint16(n))))
		},
		TLSClientConfig: &tls.Config{RootCAs: c.trust}, ForceAttemptHTTP2: h2, DisableCompression: true,
		MaxIdleConnsPerHost: 64,
	}
	c.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// upstream is a server that counts what it sees.
type upstream struct {
	*httptest.Server
	conns, requests atomic.Int64
}

// serve starts an upstream for a host and port: with TLS if the port is 443.
func (c *cell) serve(host string, port uint16, h http.Handler, change ...func(*httptest.Server)) *upstream {
	c.t.Helper()
	u := &upstream{}
	u.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.requests.Add(1)
		h.ServeHTTP(w, r)
	}))
	u.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			u.conns.Add(1)
		}
	}
	u.EnableHTTP2 = true
	leaf, err := c.hosts.Leaf(host)
	if err != nil {
		c.t.Fatal(err)
	}
	u.TLS = &tls.Config{Certificates: []tls.Certificate{*leaf}}
	for _, f := range change {
		f(u.Server)
	}
	if port == 443 {
		u.StartTLS()
	} else {
		u.Start()
	}
	c.t.Cleanup(func() {
		u.CloseClientConnections()
		u.Close()
	})
	c.pin(host, port, u.Listener.Addr().String())
	return u
}

func (c *cell) pin(host string, port uint16, addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.upstreams[net.JoinHostPort(host, strconv.Itoa(int(port)))] = addr
}

// untouched checks that an upstream saw nothing, not even a connection.
func (u *upstream) untouched(t testing.TB) {
	t.Helper()
	if n := u.conns.Load(); n != 0 {
		t.Errorf("the upstream saw %d connections and %d requests", n, u.requests.Load())
	}
}

// get sends a request and returns the status, the body and the header.
func get(t testing.TB, cl *http.Client, method, url string, body io.Reader, header ...string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	res, err := cl.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return res.StatusCode, string(b), res.Header
}

// raw sends bytes on a connection and reads one answer to them; nil if the
// connection ends without one.
func raw(conn net.Conn, bytes string) *http.Response {
	if _, err := io.WriteString(conn, bytes); err != nil {
		return nil
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil
	}
	return res
}
