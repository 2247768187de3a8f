package egress_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// FuzzRequests sends any bytes to an inspected endpoint. Whatever they are, the
// upstream sees only requests that the policy allows, in their canonical form.
func FuzzRequests(f *testing.F) {
	for _, s := range []string{
		"GET /ok/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
		"GET /no HTTP/1.1\r\nHost: api.example.com\r\n\r\nGET /ok/2 HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
		"POST /ok/ HTTP/1.1\r\nHost: api.example.com\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n",
		"POST /ok/ HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nabc",
		"GET http://api.example.com/ok/../x HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /ok/%2e%2e;a/%2f HTTP/1.0\r\nHost: api.example.com\r\nConnection: keep-alive\r\n\r\n",
		"GET /ok/?a=1;b HTTP/1.1\r\nHost: api.example.com\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
		"\x16\x03\x01\x00\x05hello", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	c := newCell(f, rules(plainAPI))
	problem := make(chan string, 64)
	c.serve(api, 80, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		path, _, _ := strings.Cut(r.RequestURI, "?")
		bad := r.Host != api || path != "/ok" && !strings.HasPrefix(path, "/ok/") || r.Header.Get("Upgrade") != ""
		for _, s := range []string{"//", "/./", "/../", "%2f", "%2F", "%00", ";", "\\", "#"} {
			bad = bad || strings.Contains(path, s)
		}
		bad = bad || strings.HasSuffix(path, "/..") || strings.HasSuffix(path, "/.")
		if bad {
			select {
			case problem <- r.Method + " " + r.RequestURI + " host " + r.Host:
			default:
			}
		}
	}))
	at := c.at(c.to(api, 80))
	f.Fuzz(func(t *testing.T, data []byte) {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Skip("no connection: ", err)
		}
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = conn.Write(data)
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
		select {
		case p := <-problem:
			t.Errorf("the upstream saw %q", p)
		default:
		}
	})
}

// FuzzFrames sends any bytes on a websocket whose messages are looked at: only
// what the rules allow may reach the upstream, and that is nothing here but
// frames of control.
func FuzzFrames(f *testing.F) {
	for _, s := range []string{frame(0x81, "a"), frame(0x89, "ping"), frame(0x88, ""), frame(0x01, "a") + frame(0x80, "b"), "\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff1234"} {
		f.Add([]byte(s))
	}
	c := newCell(f, websocket("access: read-only"))
	problem := make(chan string, 64)
	c.serve(api, 443, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x05hello")
		for {
			b, err := rw.ReadByte()
			if err != nil {
				return
			}
			_ = rw.UnreadByte()
			if _, err := unframe(rw); err == nil && b&0x0f < 8 {
				problem <- "a message"
			}
		}
	}))
	at := c.at(c.to(api, 443))
	f.Fuzz(func(t *testing.T, data []byte) {
		conn, err := tls.Dial("tcp", at, &tls.Config{RootCAs: c.trust, ServerName: api})
		if err != nil {
			t.Skip("no connection: ", err)
		}
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = io.WriteString(conn, handshake)
		r := bufio.NewReader(conn)
		if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 101 {
			t.Fatal(res, err)
		}
		_, _ = conn.Write(data)
		_, _ = conn.Write([]byte(frame(0x81, "the end")))
		// A frame that lacks its end is not waited for.
		_ = conn.CloseWrite()
		_, _ = io.Copy(io.Discard, r)
		_ = conn.Close()
		select {
		case p := <-problem:
			t.Errorf("the upstream got %s", p)
		default:
		}
	})
}
