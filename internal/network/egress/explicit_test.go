package egress_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/evidence/event"
)

// through returns a client that is configured for the proxy.
func (c *cell) through(h2 bool) *http.Client {
	cl := c.client(h2)
	tr := cl.Transport.(*http.Transport)
	tr.DialContext = nil
	tr.Proxy = func(*http.Request) (*url.URL, error) { return &url.URL{Scheme: "http", Host: c.at(explicit)}, nil }
	return cl
}

func TestExplicitProxy(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, h2 bool) {
		c := newCell(t, rules(restAPI, plainAPI))
		up := c.serve(api, 443, http.HandlerFunc(mirror))
		plain := c.serve(api, 80, http.HandlerFunc(mirror))
		cl := c.through(h2)
		for _, q := range []struct{ method, url string }{
			{"GET", "https://" + api + "/other"},
			{"DELETE", "https://" + api + "/repos/a"},
			{"GET", "http://" + api + "/other"},
			{"GET", "http://evil.example.com/ok/"},
			{"GET", "http://127.0.0.1/ok/"},
			{"GET", "http://198.18.9.9/ok/"},
		} {
			if status, body, header := get(t, cl, q.method, q.url, nil); status != 403 || header.Get("X-Forkcell-Policy") != "denied" {
				t.Errorf("%v: %d %s", q, status, body)
			}
		}
		if _, err := cl.Get("https://evil.example.com/"); err == nil || !strings.Contains(err.Error(), "Forbidden") {
			t.Error(err)
		}
		up.untouched(t)
		plain.untouched(t)
		for _, u := range []string{"https://" + api + "/repos/a", "http://" + api + "/ok/a"} {
			if status, body, _ := get(t, cl, "GET", u, nil); status != 200 || !strings.Contains(body, "host="+api+" ") {
				t.Errorf("%s: %d %s", u, status, body)
			}
		}
	})
}

func TestExplicitForms(t *testing.T) {
	t.Parallel()
	for i, q := range []struct {
		send   string
		status int
	}{
		{"GET /ok/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n", 403},
		{"GET https://api.example.com/ok/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n", 403},
		{"GET http://u:p@api.example.com/ok/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n", 403},
		{"GET ftp://api.example.com/ok/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n", 403},
		{"CONNECT api.example.com HTTP/1.1\r\nHost: api.example.com\r\n\r\n", 403},
		{"CONNECT *.example.com:80 HTTP/1.1\r\nHost: *.example.com:80\r\n\r\n", 403},
		{"CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: x\r\n\r\n", 403},
		{"CONNECT 0x7f.1:80 HTTP/1.1\r\nHost: x\r\n\r\n", 403},
		{"CONNECT /x HTTP/1.1\r\nHost: x\r\n\r\n", 403},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 403},
		// The Host header is the address line's, not the other way round.
		{"GET http://api.example.com/ok/ HTTP/1.1\r\nHost: evil.example.com\r\n\r\n", 421},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			c := newCell(t, rules(plainAPI))
			up := c.serve(api, 80, http.HandlerFunc(mirror))
			res := raw(c.dial(explicit), q.send)
			if res == nil || res.StatusCode != q.status {
				t.Errorf("%q: %v", q.send, res)
			}
			if q.status != 200 {
				up.untouched(t)
			}
		})
	}
}

// TestConnectOpaque checks server-first protocols, bytes that come with the
// CONNECT itself, and the server name within.
func TestConnectOpaque(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(tcpDB))
	c.listen("db.example.com", 5432, func(conn net.Conn) {
		_, _ = io.WriteString(conn, "220 ready\n")
		echo(conn)
	})
	conn := c.dial(explicit)
	_, _ = io.WriteString(conn, "CONNECT db.example.com:5432 HTTP/1.1\r\nHost: db.example.com:5432\r\n\r\nearly\n")
	r := bufio.NewReader(conn)
	var got strings.Builder
	for range 4 {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		got.WriteString(line)
	}
	if want := "HTTP/1.1 200 Connection established\r\n\r\n220 ready\nearly\n"; got.String() != want {
		t.Errorf("%q", got.String())
	}
	_ = conn.Close()
	c.find(event.NetworkActivity, func(e map[string]any) bool {
		return text(e, "dst_endpoint", "hostname") == "db.example.com" && strings.HasPrefix(text(e, "message"), "6 bytes sent, 16 received")
	})

	conn = c.dial(explicit)
	if res := raw(conn, "CONNECT db.example.com:5432 HTTP/1.1\r\nHost: db.example.com:5432\r\n\r\n"); res == nil || res.StatusCode != 200 {
		t.Fatal(res)
	}
	if err := tls.Client(conn, &tls.Config{ServerName: "evil.example.com"}).Handshake(); err == nil {
		t.Error("another server's name")
	}
	c.find(event.NetworkActivity, func(e map[string]any) bool {
		return text(e, "disposition") == "Blocked" && strings.HasPrefix(text(e, "status_detail"), "tls: ")
	})
}
