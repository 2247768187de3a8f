package egress_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/network/egress"
)

// listen starts a raw upstream and counts its connections.
func (c *cell) listen(host string, port uint16, serve func(net.Conn)) *atomic.Int64 {
	c.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = l.Close() })
	c.pin(host, port, l.Addr().String())
	var n atomic.Int64
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			go func() {
				defer func() { _ = conn.Close() }()
				serve(conn)
			}()
		}
	}()
	return &n
}

func echo(c net.Conn) { _, _ = io.Copy(c, c) }

// isReset checks that a connection was reset and that nothing came before.
func isReset(t testing.TB, conn net.Conn) {
	t.Helper()
	b := make([]byte, 100)
	n, err := conn.Read(b)
	if n > 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%d bytes, %v; want a reset", n, err)
	}
}

// isRefused checks that a connection is reset at once, if need be while it is
// made.
func (c *cell) isRefused(to egress.Destination) {
	c.t.Helper()
	conn, err := net.Dial("tcp", c.at(to))
	if errors.Is(err, syscall.ECONNRESET) {
		return
	}
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	isReset(c.t, conn)
}

func TestDeniedConnections(t *testing.T) {
	t.Parallel()
	for _, q := range []struct {
		name    string
		process egress.Process
		broken  error
		host    string
		port    uint16
		layer   string
		reason  string
	}{
		{"host", egress.Process{Binary: curl}, nil, "evil.example.com", 443, "endpoint", "no rule lists"},
		{"port", egress.Process{Binary: curl}, nil, api, 8443, "endpoint", "no rule lists"},
		{"address", egress.Process{Binary: curl}, nil, "93.184.216.34", 443, "endpoint", "no rule lists"},
		{"unbound", egress.Process{Binary: curl}, nil, "198.18.77.77", 443, "endpoint", "no name has been given"},
		{"binary", egress.Process{Binary: "/usr/bin/wget"}, nil, api, 443, "endpoint", "not the binary"},
		{"copied binary", egress.Process{Binary: curl, Untrusted: true}, nil, api, 443, "endpoint", "could have written"},
		{"no binary", egress.Process{}, nil, api, 443, "attribution", "is not known"},
		{"shared socket", egress.Process{}, errors.New("shared by two programs"), api, 443, "attribution", "shared by two programs"},
		{"shared socket to another host", egress.Process{}, errors.New("shared by two programs"), "evil.example.com", 443, "endpoint", "no rule lists"},
	} {
		t.Run(q.name, func(t *testing.T) {
			t.Parallel()
			c := newCell(t, rules(restAPI))
			up := c.serve(api, 443, http.HandlerFunc(mirror))
			c.process, c.broken = q.process, q.broken
			c.isRefused(c.to(q.host, q.port))
			e := c.find(event.NetworkActivity, func(e map[string]any) bool { return text(e, "activity_name") == "Refuse" })
			if text(e, "disposition") != "Blocked" || !strings.HasPrefix(text(e, "status_detail"), q.layer+": ") || !strings.Contains(text(e, "status_detail"), q.reason) {
				t.Errorf("event %v", e)
			}
			up.untouched(t)
			if c.dials.Load() != 0 {
				t.Error("dialled")
			}
		})
	}
}

func TestUntrustedAndLinked(t *testing.T) {
	t.Parallel()
	for _, q := range []struct {
		name    string
		process egress.Process
		broken  error
		binary  string
	}{
		{"any", egress.Process{Binary: "/tmp/x", Untrusted: true}, nil, "/**"},
		{"any, of a program that is gone", egress.Process{}, errors.New("cannot be found"), "/**"},
		{"link", egress.Process{Binary: "/usr/bin/python3.13", Also: []string{"/usr/bin/python3"}}, nil, "/usr/bin/python3"},
	} {
		t.Run(q.name, func(t *testing.T) {
			t.Parallel()
			c := newCell(t, strings.Replace(rules(restAPI), curl, `"`+q.binary+`"`, 1))
			c.serve(api, 443, http.HandlerFunc(mirror))
			c.process, c.broken = q.process, q.broken
			if status, body, _ := get(t, c.client(true), "GET", "https://"+api+"/repos/a", nil); status != 200 {
				t.Error(status, body)
			}
		})
	}
}

const tcpDB = "{host: db.example.com, port: 5432}"

func TestOpaque(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(tcpDB, "{host: 10.1.2.3, port: 5432}"))
	c.listen("db.example.com", 5432, func(c net.Conn) {
		_, _ = io.WriteString(c, "220 ready\n")
		echo(c)
	})
	c.listen("10.1.2.3", 5432, echo)
	for _, host := range []string{"db.example.com", "10.1.2.3"} {
		conn := c.dial(c.to(host, 5432))
		r := bufio.NewReader(conn)
		if host == "db.example.com" {
			// The program has said nothing yet.
			if line, err := r.ReadString('\n'); line != "220 ready\n" {
				t.Fatal(line, err)
			}
		}
		// Bytes that look like nothing, like the start of TLS, and many.
		for _, s := range []string{"\x16\x01hello", "x", strings.Repeat("y", 1<<20)} {
			go func() { _, _ = io.WriteString(conn, s) }()
			b := make([]byte, len(s))
			if _, err := io.ReadFull(r, b); err != nil || string(b) != s {
				t.Fatal(host, err)
			}
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if rest, err := io.ReadAll(r); len(rest) > 0 || err != nil {
			t.Errorf("%q %v", rest, err)
		}
		e := c.find(event.NetworkActivity, func(e map[string]any) bool {
			return text(e, "dst_endpoint", "hostname") == host || host == "10.1.2.3" && text(e, "dst_endpoint", "hostname") == "<nil>"
		})
		if text(e, "activity_name") != "Close" || !strings.HasPrefix(text(e, "message"), "1048584 bytes sent, 10485") || !strings.HasSuffix(text(e, "message"), "not inspected") {
			t.Errorf("event %v", e)
		}
	}
}

// TestServerName checks that TLS goes to the name that was resolved and to no
// other, on endpoints that are inspected and on those that are not.
func TestServerName(t *testing.T) {
	t.Parallel()
	const host = "a.example.com"
	for _, endpoint := range []string{
		"{host: a.example.com, port: 443}",
		"{host: a.example.com, port: 443, tls: skip}",
		"{host: a.example.com, port: 443, protocol: rest, access: full}",
	} {
		for _, sni := range []string{host, "A.Example.com", "b.example.com", ""} {
			t.Run(endpoint+sni, func(t *testing.T) {
				t.Parallel()
				c := newCell(t, rules(endpoint))
				var seen atomic.Int64
				leaf, err := c.hosts.Leaf(host)
				if err != nil {
					t.Fatal(err)
				}
				c.listen(host, 443, func(conn net.Conn) {
					// Count what arrives, before TLS makes anything of it.
					b := bufio.NewReader(conn)
					if _, err := b.Peek(1); err == nil {
						seen.Add(1)
					}
					s := tls.Server(&buffered{conn, b}, &tls.Config{Certificates: []tls.Certificate{*leaf}})
					if _, err := http.ReadRequest(bufio.NewReader(s)); err == nil {
						_, _ = io.WriteString(s, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
					}
				})
				trust := poolOf(t, c.hosts)
				trust.AppendCertsFromPEM(c.ca.PEM())
				conn := tls.Client(c.dial(c.to(host, 443)), &tls.Config{RootCAs: trust, ServerName: sni, InsecureSkipVerify: sni == ""})
				var status int
				if err := conn.Handshake(); err == nil {
					if res := raw(conn, "GET / HTTP/1.1\r\nHost: a.example.com\r\nConnection: close\r\n\r\n"); res != nil {
						status = res.StatusCode
					}
				}
				if ok := strings.EqualFold(sni, host); (status == 200) != ok || (seen.Load() > 0) != ok {
					t.Errorf("status %d, upstream saw %d", status, seen.Load())
				}
				if sni == "b.example.com" {
					c.find(event.NetworkActivity, func(e map[string]any) bool {
						return text(e, "disposition") == "Blocked" && strings.HasPrefix(text(e, "status_detail"), "tls: ")
					})
				}
			})
		}
	}
}

type buffered struct {
	net.Conn
	r *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.r.Read(p) }

// TestHelloCutOpaque checks that half a ClientHello and a broken one never reach
// an upstream.
func TestHelloCutOpaque(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(tcpDB), func(cfg *egress.Config) { cfg.Limits.Hello = 50 * time.Millisecond })
	got := make(chan string, 2)
	c.listen("db.example.com", 5432, func(conn net.Conn) {
		b, _ := io.ReadAll(conn)
		got <- string(b)
	})
	for _, s := range []string{"\x16\x03\x01\x00\x10\x01", "\x16\x03\x01\x00\x05hello"} {
		conn := c.dial(c.to("db.example.com", 5432))
		if _, err := io.WriteString(conn, s); err != nil {
			t.Fatal(err)
		}
		isReset(t, conn)
		if s := <-got; s != "" {
			t.Errorf("the upstream got %q", s)
		}
	}
}

func TestDestinationRefused(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(tcpDB, restAPI))
	c.isRefused(c.to("db.example.com", 5432))
	c.find(event.NetworkActivity, func(e map[string]any) bool {
		return text(e, "disposition") == "Blocked" && strings.HasPrefix(text(e, "status_detail"), "destination: ")
	})
	status, body, _ := get(t, c.client(true), "GET", "https://"+api+"/repos/a", nil)
	if status != 403 || !strings.Contains(body, `"layer":"destination"`) {
		t.Error(status, body)
	}
}

// TestNotHTTP checks that an inspected endpoint accepts only HTTP.
func TestNotHTTP(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules("{host: api.example.com, port: 80, protocol: rest, access: full}"))
	up := c.serve(api, 80, http.HandlerFunc(mirror))
	for _, s := range []string{"\x00\x01", "\x80\x80", "{}"} {
		conn := c.dial(c.to(api, 80))
		_, _ = io.WriteString(conn, s)
		isReset(t, conn)
	}
	up.untouched(t)
}

func TestManyConnections(t *testing.T) {
	t.Parallel()
	const held = 1000
	c := newCell(t, rules(tcpDB, "{host: api.example.com, port: 80, protocol: rest, access: full}"), func(cfg *egress.Config) { cfg.Limits.Connections = held })
	c.listen("db.example.com", 5432, echo)
	c.serve(api, 80, http.HandlerFunc(mirror))
	var conns []net.Conn
	for i := range held {
		to, say := c.to("db.example.com", 5432), "x"
		if i%2 == 0 {
			to, say = c.to(api, 80), "GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n"
		}
		conn := c.dial(to)
		_, _ = io.WriteString(conn, say)
		conns = append(conns, conn)
	}
	b := make([]byte, 1)
	for i, conn := range conns {
		// On a busy machine the dialling alone may have taken that long.
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.ReadFull(conn, b); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	// One more is refused, and works again when there is room.
	c.isRefused(c.to("db.example.com", 5432))
	c.find(event.NetworkActivity, func(e map[string]any) bool { return strings.Contains(text(e, "status_detail"), "too many") })
	_ = conns[1].Close()
	for deadline := time.Now().Add(30 * time.Second); ; pause() {
		if conn, err := net.Dial("tcp", c.at(c.to("db.example.com", 5432))); err == nil {
			_, _ = io.WriteString(conn, "x")
			_, err = io.ReadFull(conn, b)
			_ = conn.Close()
			if err == nil {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("no room")
		}
	}
}

func TestLiteral(t *testing.T) {
	t.Parallel()
	for _, ip := range []string{"203.0.113.9", "2001:db8:1::9"} {
		c := newCell(t, rules(fmt.Sprintf(`{host: "%s", port: 443, protocol: rest, access: read-only}`, ip)))
		c.serve(ip, 443, http.HandlerFunc(mirror))
		host := ip
		if netip.MustParseAddr(ip).Is6() {
			host = "[" + ip + "]"
		}
		status, body, _ := get(t, c.client(true), "GET", "https://"+host+"/x", nil)
		if status != 200 || !strings.Contains(body, "host="+host+" ") {
			t.Error(status, body)
		}
	}
}

// silent is a network without any answer.
type silent struct{ asked chan struct{} }

func (s silent) Dial(ctx context.Context, _ string, _ uint16, _ []netip.Prefix) (net.Conn, error) {
	close(s.asked)
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestCloseDoesNotWaitForADial: the end of a cell ends what it was connecting to.
func TestCloseDoesNotWaitForADial(t *testing.T) {
	t.Parallel()
	s := silent{make(chan struct{})}
	c := newCell(t, rules("{host: "+api+", port: 9000, protocol: tcp}"), func(cfg *egress.Config) {
		cfg.Dialer, cfg.Limits.Dial = s, time.Hour
	})
	conn, err := net.Dial("tcp", c.at(c.to(api, 9000)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	<-s.asked
	closed := make(chan error, 1)
	go func() { closed <- c.proxy.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it waits")
	}
}
