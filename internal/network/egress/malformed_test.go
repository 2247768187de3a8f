package egress_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/evidence/event"
)

// TestMalformed has requests that the server refuses before the policy decides:
// each is one denied request, and the upstream hears nothing of it.
func TestMalformed(t *testing.T) {
	t.Parallel()
	for _, q := range []struct {
		name, send, reason string
		status             int
	}{
		{"request line", "GET\r\n\r\n", "400 Bad Request", 400},
		{"words", "GET / x HTTP/1.1\r\nHost: " + api + "\r\n\r\n", "400 Bad Request", 400},
		{"version", "GET / HTTP/x\r\nHost: " + api + "\r\n\r\n", "400 Bad Request", 400},
		{"newer", "GET / HTTP/3.0\r\nHost: " + api + "\r\n\r\n", "505 HTTP Version Not Supported", 505},
		{"no host", "GET / HTTP/1.1\r\n\r\n", "missing required Host header", 400},
		{"header name", "GET / HTTP/1.1\r\nHost: " + api + "\r\nX Y: z\r\n\r\n", "400 Bad Request", 400},
		{"header value", "GET / HTTP/1.1\r\nHost: " + api + "\r\nX: \x00\r\n\r\n", "400 Bad Request", 400},
		{"two lengths", "POST / HTTP/1.1\r\nHost: " + api + "\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "400 Bad Request", 400},
		{"coding", "POST / HTTP/1.1\r\nHost: " + api + "\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", "501 Not Implemented", 501},
		{"expectation", "POST / HTTP/1.1\r\nHost: " + api + "\r\nExpect: more\r\nContent-Length: 1\r\n\r\na", "417 Expectation Failed", 417},
		{"too long", "GET / HTTP/1.1\r\nHost: " + api + "\r\nX: " + strings.Repeat("a", 80<<10) + "\r\n\r\n", "431 Request Header Fields Too Large", 431},
	} {
		for where, dial := range map[string]func(*cell) net.Conn{
			"tls": func(c *cell) net.Conn {
				conn, err := c.secure(api, 443, api)
				if err != nil {
					t.Fatal(err)
				}
				return conn
			},
			"explicit": func(c *cell) net.Conn { return c.dial(explicit) },
		} {
			t.Run(q.name+"/"+where, func(t *testing.T) {
				t.Parallel()
				c := newCell(t, rules(fullAPI))
				up := c.serve(api, 443, http.HandlerFunc(mirror))
				conn := dial(c)
				if res := raw(conn, q.send); res == nil || res.StatusCode != q.status {
					t.Error(res)
				}
				_ = conn.Close()
				if err := c.proxy.Close(); err != nil {
					t.Error(err)
				}
				up.untouched(t)
				c.denied(q.status)
				c.find(event.HTTPActivity, func(e map[string]any) bool { return strings.Contains(text(e, "status_detail"), q.reason) })
			})
		}
	}
}

// TestMalformedLater has a bad request after a good one on a connection: two
// events.
func TestMalformedLater(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(fullAPI))
	up := c.serve(api, 443, http.HandlerFunc(mirror))
	conn, err := c.secure(api, 443, api)
	if err != nil {
		t.Fatal(err)
	}
	res := raw(conn, "GET /a HTTP/1.1\r\nHost: "+api+"\r\n\r\n")
	if res == nil || res.StatusCode != 200 {
		t.Fatal(res)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	if res := raw(conn, "GET /b HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"); res == nil || res.StatusCode != 400 {
		t.Error(res)
	}
	c.find(event.HTTPActivity, func(e map[string]any) bool { return text(e, "http_request", "url", "path") == "/a" })
	c.find(event.HTTPActivity, func(e map[string]any) bool {
		return text(e, "action") == "Denied" && strings.Contains(text(e, "status_detail"), "400 Bad Request")
	})
	if err := c.proxy.Close(); err != nil {
		t.Error(err)
	}
	n := 0
	for _, e := range c.events {
		if e["class_uid"] == float64(event.HTTPActivity) {
			n++
		}
	}
	if n != 2 || up.requests.Load() != 1 {
		t.Errorf("%d events, %d requests", n, up.requests.Load())
	}
}

// TestIncomplete: what ends before it is a request is none, also after one; but
// what cannot become one is reported.
func TestIncomplete(t *testing.T) {
	t.Parallel()
	const good, half, bad = "GET /a HTTP/1.1\r\nHost: " + api + "\r\n\r\n", "GET /c HTTP/1.1\r\nHo", "GET\r\n\r\n"
	for _, q := range []struct {
		send            string
		allowed, denied int
	}{
		{half, 0, 0}, {"GET", 0, 0}, {good + half, 1, 0}, {good, 1, 0}, {bad, 0, 1},
	} {
		t.Run(strconv.Quote(q.send), func(t *testing.T) {
			t.Parallel()
			c := newCell(t, rules(fullAPI))
			c.serve(api, 443, http.HandlerFunc(mirror))
			conn, err := c.secure(api, 443, api)
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.WriteString(conn, q.send)
			if err := errors.Join(err, conn.CloseWrite()); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
			c.find(event.NetworkActivity, func(e map[string]any) bool { return text(e, "activity_name") == "Close" })
			if err := c.proxy.Close(); err != nil {
				t.Error(err)
			}
			if denied, allowed, _ := c.requests(); denied != q.denied || allowed != q.allowed {
				t.Errorf("%d denied and %d allowed, want %d and %d: %v", denied, allowed, q.denied, q.allowed, c.events)
			}
		})
	}
}

// denied checks that one request was denied, and that its event says so. The
// proxy is closed.
func (c *cell) denied(status int) {
	c.t.Helper()
	c.deniedWith(fmt.Sprint(status))
}

func (c *cell) deniedWith(status string) {
	c.t.Helper()
	n := 0
	for _, e := range c.events {
		if e["class_uid"] != float64(event.HTTPActivity) {
			continue
		}
		n++
		if text(e, "action") != "Denied" || text(e, "http_response", "code") != status || text(e, "status_detail") == "<nil>" ||
			text(e, "actor", "process", "pid") != "7" || text(e, "traffic", "bytes_out") != "0" || text(e, "duration") == "<nil>" {
			c.t.Errorf("event %v", e)
		}
	}
	if n != 1 {
		c.t.Errorf("%d events of requests: %v", n, c.events)
	}
}
