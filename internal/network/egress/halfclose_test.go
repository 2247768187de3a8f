package egress_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/network/egress"
)

// TestHalfClose checks that a program that sends nothing more after its request
// gets the answer, however long it takes.
func TestHalfClose(t *testing.T) {
	t.Parallel()
	const (
		entries = "{host: api.example.com, ports: [80, 443], protocol: rest, access: full}"
		plain   = "GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n"
	)
	post := "POST / HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 4\r\n\r\nbody"
	for name, q := range map[string]struct {
		port    uint16
		request string
		via     string // of a proxy that the program knows of
	}{
		"plain":         {80, plain, ""},
		"plain, body":   {80, post, ""},
		"plain, proxy":  {80, "GET http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n", "request"},
		"plain, tunnel": {80, plain, "CONNECT api.example.com:80"},
		"TLS":           {443, plain, ""},
		"TLS, body":     {443, post, ""},
		"TLS, tunnel":   {443, plain, "CONNECT api.example.com:443"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCell(t, rules(entries))
			asked, answer := make(chan struct{}), make(chan struct{})
			c.serve(api, q.port, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				close(asked)
				<-answer
				// A proxy that takes the end for a program that is gone ends the
				// request at once.
				slow := time.NewTimer(150 * time.Millisecond)
				defer slow.Stop()
				select {
				case <-r.Context().Done():
					t.Error("the request was ended")
				case <-slow.C:
				}
				_, _ = io.WriteString(w, "slow")
			}))
			to := c.to(api, q.port)
			if q.via != "" {
				to = explicit
			}
			conn := c.dial(to)
			if strings.HasPrefix(q.via, "CONNECT") {
				if res := raw(conn, q.via+" HTTP/1.1\r\nHost: x\r\n\r\n"); res == nil || res.StatusCode != 200 {
					t.Fatalf("%+v", res)
				}
			}
			if q.port == 443 {
				conn = c.tls(conn, api)
			}
			if _, err := io.WriteString(conn, q.request); err != nil {
				t.Fatal(err)
			}
			<-asked
			closeWrite(t, conn)
			close(answer)
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(res.Body); string(body) != "slow" || err != nil {
				t.Errorf("%q %v", body, err)
			}
		})
	}
}

func closeWrite(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
}

// TestHalfCloseRaw checks the same for connections that are not inspected, and
// for a websocket.
func TestHalfCloseRaw(t *testing.T) {
	t.Parallel()
	for name, q := range map[string]struct {
		entry, first string
		to           func(*cell) egress.Destination
	}{
		"tcp":         {"{host: api.example.com, port: 80}", "", func(c *cell) egress.Destination { return c.to(api, 80) }},
		"tcp, tunnel": {"{host: api.example.com, port: 80}", "CONNECT api.example.com:80 HTTP/1.1\r\nHost: x\r\n\r\n", func(*cell) egress.Destination { return explicit }},
		"websocket":   {"{host: api.example.com, port: 80, protocol: websocket, access: full}", "GET / HTTP/1.1\r\nHost: api.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", func(c *cell) egress.Destination { return c.to(api, 80) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCell(t, rules(q.entry))
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			c.pin(api, 80, l.Addr().String())
			go func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer func() { _ = conn.Close() }()
				r := bufio.NewReader(conn)
				if name == "websocket" {
					if _, err := http.ReadRequest(r); err != nil {
						return
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				}
				n, err := io.Copy(io.Discard, r) // until the end
				_, _ = fmt.Fprint(conn, n, err)
			}()
			conn := c.dial(q.to(c))
			r := bufio.NewReader(conn)
			if q.first != "" {
				if _, err := io.WriteString(conn, q.first); err != nil {
					t.Fatal(err)
				}
				if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 200 && res.StatusCode != 101 {
					t.Fatalf("%+v %v", res, err)
				}
			}
			if _, err := io.WriteString(conn, "\x81\x81\x00\x00\x00\x00a"); err != nil {
				t.Fatal(err)
			}
			closeWrite(t, conn)
			if rest, err := io.ReadAll(r); string(rest) != "7 <nil>" || err != nil {
				t.Errorf("%q %v", rest, err)
			}
		})
	}
}

// TestGoneWhileAnswered checks that a program that is gone ends its request.
func TestGoneWhileAnswered(t *testing.T) {
	t.Parallel()
	for _, port := range []uint16{80, 443} {
		t.Run(fmt.Sprint(port), func(t *testing.T) {
			t.Parallel()
			c := newCell(t, rules("{host: api.example.com, ports: [80, 443], protocol: rest, access: full}"))
			asked, ended := make(chan struct{}), make(chan struct{})
			c.serve(api, port, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				close(asked)
				<-r.Context().Done()
				close(ended)
			}))
			tcp := c.dial(c.to(api, port))
			conn := tcp
			if port == 443 {
				conn = c.tls(tcp, api)
			}
			if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			<-asked
			closeWrite(t, conn)
			_ = tcp.(*net.TCPConn).SetLinger(0) // a reset, as from a process that died with data unread
			_ = tcp.Close()
			<-ended
		})
	}
}
