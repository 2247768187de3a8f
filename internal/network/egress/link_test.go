package egress_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// play answers the requests on each connection with the texts for it, and closes
// it after them, unless the last one is "hold".
func (c *cell) play(conns ...[]string) *atomic.Int64 {
	var n atomic.Int64
	return c.listen(api, 80, func(conn net.Conn) {
		k := int(n.Add(1)) - 1
		if k >= len(conns) {
			c.t.Errorf("connection %d to the upstream", k+1)
			return
		}
		r := bufio.NewReader(conn)
		for _, answer := range conns[k] {
			if answer == "hold" {
				_, _ = io.Copy(io.Discard, r)
				return
			}
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			if _, err := io.WriteString(conn, answer); err != nil {
				return
			}
		}
	})
}

// TestAnswers has upstreams that answer as they should, and others.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const (
		good  = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood"
		evil  = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
		hints = "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"
	)
	for _, q := range []struct {
		name  string
		conns [][]string
		want  []string
	}{
		{"kept", [][]string{{good, good, "hold"}}, []string{"200 good", "200 good"}},
		{"closed while idle", [][]string{{good}, {good, "hold"}}, []string{"200 good", "200 good"}},
		{"unasked", [][]string{{good + evil, "hold"}, {good, "hold"}}, []string{"200 good", "200 good"}},
		{"says that it closes", [][]string{{"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na", "hold"}, {good, "hold"}}, []string{"200 a", "200 good"}},
		{"version 1.0", [][]string{{"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", "hold"}, {good, "hold"}}, []string{"200 a", "200 good"}},
		{"until the end", [][]string{{"HTTP/1.1 200 OK\r\n\r\nall"}, {good, "hold"}}, []string{"200 all", "200 good"}},
		{"chunks", [][]string{{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", good, "hold"}}, []string{"200 abc", "200 good"}},
		{"no content", [][]string{{"HTTP/1.1 204 No Content\r\n\r\n", good, "hold"}}, []string{"204 ", "200 good"}},
		{"interim", [][]string{{hints + good, good, "hold"}}, []string{"200 good", "200 good"}},
		{"too many interim", [][]string{{strings.Repeat(hints, 10) + good, "hold"}, {good, "hold"}}, []string{"502", "200 good"}},
		{"switches", [][]string{{"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "hold"}, {good, "hold"}}, []string{"502", "200 good"}},
		{"long header", [][]string{{"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", 300<<10) + "\r\n\r\n"}, {good, "hold"}}, []string{"502", "200 good"}},
		{"no answer", [][]string{{""}, {good, "hold"}}, []string{"502", "200 good"}},
		{"no answer later", [][]string{{good, ""}, {good, "hold"}}, []string{"200 good", "200 good"}},
		{"no HTTP", [][]string{{"SSH-2.0-x\r\n", "hold"}, {good, "hold"}}, []string{"502", "200 good"}},
		{"cut", [][]string{{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut"}, {good, "hold"}}, []string{"200 cut unexpected EOF", "200 good"}},
	} {
		t.Run(q.name, func(t *testing.T) {
			t.Parallel()
			c := newCell(t, rules(plainAPI))
			dialled := c.play(q.conns...)
			cl := c.client(false)
			for i, want := range q.want {
				if got := ask(t, cl, http.MethodGet); got != want {
					t.Errorf("request %d: %q, want %q", i, got, want)
				}
			}
			if n := int(dialled.Load()); n != len(q.conns) {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// ask returns the status of an answer and what could be read of it.
func ask(t *testing.T, cl *http.Client, method string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, "http://"+api+"/ok/", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := cl.Do(r)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	switch {
	case res.Header.Get("X-Forkcell-Policy") == "failed":
		return fmt.Sprint(res.StatusCode)
	case err != nil:
		return fmt.Sprint(res.StatusCode, " ", string(body), " ", err)
	}
	return fmt.Sprint(res.StatusCode, " ", string(body))
}

// TestUnasked has an upstream that says something while nobody asks: it is no
// answer to the next request.
func TestUnasked(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(plainAPI))
	answered, said := make(chan struct{}), make(chan struct{})
	var n atomic.Int64
	c.listen(api, 80, func(conn net.Conn) {
		first, r := n.Add(1) == 1, bufio.NewReader(conn)
		for {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood")
			if first {
				<-answered
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
				close(said)
			}
		}
	})
	cl := c.client(false)
	got := []string{ask(t, cl, http.MethodGet)}
	close(answered)
	<-said
	got = append(got, ask(t, cl, http.MethodHead), ask(t, cl, http.MethodGet))
	if want := []string{"200 good", "200 ", "200 good"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// corked is a connection whose writes wait to be sent as one.
type corked struct {
	net.Conn
	hold bool
	buf  []byte
}

func (c *corked) Write(b []byte) (int, error) {
	if c.buf = append(c.buf, b...); !c.hold {
		_, err := c.Conn.Write(c.buf)
		c.buf = nil
		return len(b), err
	}
	return len(b), nil
}

// TestUnaskedInTLS is the same where both come in one piece: what was not asked
// for is in TLS's own buffer then.
func TestUnaskedInTLS(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(fullAPI))
	leaf, err := c.hosts.Leaf(api)
	if err != nil {
		t.Fatal(err)
	}
	n := c.listen(api, 443, func(conn net.Conn) {
		below := &corked{Conn: conn}
		secure := tls.Server(below, &tls.Config{Certificates: []tls.Certificate{*leaf}})
		r := bufio.NewReader(secure)
		for {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			below.hold = true
			_, _ = io.WriteString(secure, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood")
			below.hold = false
			_, _ = io.WriteString(secure, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
		}
	})
	cl := c.client(false)
	for i := range 3 {
		if status, body, _ := get(t, cl, "GET", "https://"+api+"/", nil); status != 200 || body != "good" {
			t.Error(i, status, body)
		}
	}
	if n.Load() != 3 {
		t.Errorf("%d connections", n.Load())
	}
}

// TestKeptInTLS checks that a connection in TLS is used again.
func TestKeptInTLS(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(fullAPI))
	up := c.serve(api, 443, http.HandlerFunc(mirror))
	cl := c.client(false)
	for range 5 {
		get(t, cl, "GET", "https://"+api+"/", nil)
		get(t, cl, "HEAD", "https://"+api+"/", nil)
	}
	if n := up.conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TestGone checks that an upstream's connection ends with the program's interest
// in it, and that connections of an old policy are not used again.
func TestGone(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(plainAPI))
	ended := make(chan struct{}, 8)
	c.listen(api, 80, func(conn net.Conn) {
		r := bufio.NewReader(conn)
		for {
			q, err := http.ReadRequest(r)
			if err != nil {
				ended <- struct{}{}
				return
			}
			if q.URL.Path == "/ok/" {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood")
			}
		}
	})
	conn := c.dial(c.to(api, 80))
	_, _ = io.WriteString(conn, "GET /ok/never HTTP/1.1\r\nHost: "+api+"\r\n\r\n")
	for c.dials.Load() == 0 {
		pause()
	}
	_ = conn.(*net.TCPConn).SetLinger(0) // one that is only closed may be one that still reads
	_ = conn.Close()
	<-ended
	if got := ask(t, c.client(false), http.MethodGet); got != "200 good" {
		t.Error(got)
	}
	if err := c.proxy.Reload(generation(t, rules(plainAPI))); err != nil {
		t.Fatal(err)
	}
	<-ended
}
