package egress_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/forkcell/forkcell/internal/network/egress"
)

const plainAPI = `{host: api.example.com, port: 80, protocol: rest, rules: [{allow: {method: "*", path: "/ok/**"}}]}`

// TestForms sends requests that other proxies have read in two ways.
func TestForms(t *testing.T) {
	t.Parallel()
	const host = "Host: api.example.com\r\n"
	for _, q := range []struct {
		name, send string
		// status of the answer, 0 for none.
		status int
		// seen is what the upstream saw.
		seen string
	}{
		{"plain", "GET /ok/ HTTP/1.1\r\n" + host + "\r\n", 200, "GET /ok/ body="},
		{"absolute", "GET http://api.example.com/ok/1 HTTP/1.1\r\n" + host + "\r\n", 200, "GET /ok/1 body="},
		{"absolute, other Host", "GET http://api.example.com/ok/ HTTP/1.1\r\nHost: evil.example.com\r\n\r\n", 421, ""},
		{"absolute, other port in Host", "GET http://api.example.com/ok/ HTTP/1.1\r\nHost: api.example.com:8080\r\n\r\n", 421, ""},
		{"absolute without path", "GET http://api.example.com?a=/ok/ HTTP/1.1\r\n" + host + "\r\n", 403, ""},
		{"dot host", "GET /ok/ HTTP/1.1\r\nHost: API.example.com.:80\r\n\r\n", 200, "GET /ok/ body="},
		{"odd characters", "GET /ok/%7b{}|\" HTTP/1.1\r\n" + host + "\r\n", 200, "GET /ok/%7B%7B%7D%7C%22 body="},
		{"other host", "GET /ok/ HTTP/1.1\r\nHost: evil.example.com\r\n\r\n", 421, ""},
		{"other port", "GET /ok/ HTTP/1.1\r\nHost: api.example.com:8080\r\n\r\n", 421, ""},
		{"no host", "GET /ok/ HTTP/1.1\r\n\r\n", 400, ""},
		{"no host 1.0", "GET /ok/ HTTP/1.0\r\n\r\n", 421, ""},
		{"two hosts", "GET /ok/ HTTP/1.1\r\n" + host + "Host: evil.example.com\r\n\r\n", 400, ""},
		{"host with user", "GET /ok/ HTTP/1.1\r\nHost: evil@api.example.com\r\n\r\n", 400, ""},
		{"host with path", "GET /ok/ HTTP/1.1\r\nHost: api.example.com/x\r\n\r\n", 400, ""},
		{"absolute other host", "GET http://evil.example.com/ok/ HTTP/1.1\r\n" + host + "\r\n", 421, ""},
		{"absolute other scheme", "GET https://api.example.com/ok/ HTTP/1.1\r\n" + host + "\r\n", 403, ""},
		{"absolute with user", "GET http://a:b@api.example.com/ok/ HTTP/1.1\r\n" + host + "\r\n", 403, ""},
		{"double slash", "GET //evil.example.com/ok/ HTTP/1.1\r\n" + host + "\r\n", 403, ""},
		{"backslash", "GET /ok/..\\x HTTP/1.1\r\n" + host + "\r\n", 403, ""},
		{"fragment", "GET /ok/#x HTTP/1.1\r\n" + host + "\r\n", 403, ""},
		{"non-ASCII path", "GET /ok/\xc3\xa9 HTTP/1.1\r\n" + host + "\r\n", 403, ""},
		{"non-ASCII query", "GET /ok/?\xc3\xa9 HTTP/1.1\r\n" + host + "\r\n", 403, ""},
		{"encoded slash", "GET /ok/a%2F..%2F..%2Fx HTTP/1.1\r\n" + host + "\r\n", 403, ""},
		{"encoded dots", "GET /ok/%2e%2e/x HTTP/1.1\r\n" + host + "\r\n", 403, ""},
		{"encoded backslash", "GET /ok/..%5cx HTTP/1.1\r\n" + host + "\r\n", 403, ""},
		{"double encoding", "GET /ok/%252e%252e/x HTTP/1.1\r\n" + host + "\r\n", 403, ""},
		{"overlong dots", "GET /ok/%c0%ae%c0%ae/x HTTP/1.1\r\n" + host + "\r\n", 403, ""},
		{"dots with parameters", "GET /ok/..;a/x HTTP/1.1\r\n" + host + "\r\n", 403, ""},
		{"long path", "GET /ok/" + strings.Repeat("a", 5000) + " HTTP/1.1\r\n" + host + "\r\n", 403, ""},
		{"star", "OPTIONS * HTTP/1.1\r\n" + host + "\r\n", 403, ""},
		{"connect", "CONNECT api.example.com:80 HTTP/1.1\r\n" + host + "\r\n", 403, ""},
		{"websocket word", "WEBSOCKET_TEXT /ok/ HTTP/1.1\r\n" + host + "\r\n", 403, ""},
		{"lower case method", "get /ok/ HTTP/1.1\r\n" + host + "\r\n", 403, ""},
		{"h2c upgrade", "GET /ok/ HTTP/1.1\r\n" + host + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n", 403, ""},
		{"h2c settings", "GET /ok/ HTTP/1.1\r\n" + host + "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n", 403, ""},
		{"h2c preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 403, ""},
		{"tls upgrade", "GET /ok/ HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: TLS/1.0\r\n\r\n", 403, ""},
		{"websocket on rest", "GET /ok/ HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", 403, ""},
		{"rewritten", "GET /ok/ HTTP/1.1\r\n" + host + "X-Original-URL: /admin\r\n\r\n", 403, ""},
		{"two lengths", "POST /ok/ HTTP/1.1\r\n" + host + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400, ""},
		{"signed length", "POST /ok/ HTTP/1.1\r\n" + host + "Content-Length: +3\r\n\r\nabc", 400, ""},
		{"length list", "POST /ok/ HTTP/1.1\r\n" + host + "Content-Length: 3, 3\r\n\r\nabc", 400, ""},
		{"space before colon", "POST /ok/ HTTP/1.1\r\n" + host + "Content-Length : 3\r\n\r\nabc", 400, ""},
		{"folded header", "GET /ok/ HTTP/1.1\r\n" + host + "X: a\r\n Host: evil.example.com\r\n\r\n", 200, "GET /ok/ body="},
		{"bare CR in header", "GET /ok/ HTTP/1.1\r\n" + host + "X: a\rY: b\r\n\r\n", 400, ""},
		{"NUL in header", "GET /ok/ HTTP/1.1\r\n" + host + "X: a\x00b\r\n\r\n", 400, ""},
		{"odd coding", "POST /ok/ HTTP/1.1\r\n" + host + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501, ""},
		{"coding list", "POST /ok/ HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501, ""},
		{"two codings", "POST /ok/ HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", 501, ""},
		// One framing wins, as the standard has it, and only that is sent on:
		// what follows it is a request of its own here, and is decided.
		{"length and coding", "POST /ok/ HTTP/1.1\r\n" + host + "Content-Length: 40\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /admin HTTP/1.1\r\n" + host + "\r\n", 200, "POST /ok/ body="},
		{"body of a GET", "GET /ok/ HTTP/1.1\r\n" + host + "Content-Length: 44\r\n\r\nGET /admin HTTP/1.1\r\nHost: api.example.com\r\n\r\n", 200, "GET /ok/ body=GET /admin HTTP/1.1\r\nHost: api.example.com\r\n"},
		{"header bytes", "GET /ok/ HTTP/1.1\r\n" + host + "X: " + strings.Repeat("a", 80<<10) + "\r\n\r\n", 431, ""},
		{"line without end", "GET /ok/" + strings.Repeat("a", 80<<10), 431, ""},
	} {
		t.Run(q.name, func(t *testing.T) {
			t.Parallel()
			c := newCell(t, rules(plainAPI))
			seen := make(chan string, 8)
			up := c.serve(api, 80, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if r.Host != api {
					t.Errorf("upstream saw the host %q", r.Host)
				}
				seen <- r.Method + " " + r.RequestURI + " body=" + string(body)
				_, _ = io.WriteString(w, "ok")
			}))
			conn := c.dial(c.to(api, 80))
			status := 0
			if res := raw(conn, q.send); res != nil {
				status = res.StatusCode
			}
			_ = conn.Close()
			if err := c.proxy.Close(); err != nil {
				t.Error(err)
			}
			close(seen)
			if got := <-seen; status != q.status || got != q.seen {
				t.Errorf("status %d, upstream saw %q; want %d, %q", status, got, q.status, q.seen)
			}
			if q.seen == "" {
				up.untouched(t)
				c.denied(q.status)
			}
			for more := range seen {
				t.Errorf("upstream also saw %q", more)
			}
		})
	}
}

// TestFronting checks that a TLS connection to one host carries no request for
// another, in HTTP/1.1 and in HTTP/2.
func TestFronting(t *testing.T) {
	t.Parallel()
	both := rules(restAPI, "{host: b.example.com, port: 443, protocol: rest, access: full}")
	c := newCell(t, both)
	up := c.serve(api, 443, http.HandlerFunc(mirror))
	other := c.serve("b.example.com", 443, http.HandlerFunc(mirror))
	conn, err := c.secure(api, 443, api)
	if err != nil {
		t.Fatal(err)
	}
	if res := raw(conn, "GET /repos/a HTTP/1.1\r\nHost: b.example.com\r\n\r\n"); res == nil || res.StatusCode != 421 {
		t.Error(res)
	}
	for _, fields := range [][]string{
		{":authority", "b.example.com"},
		{":authority", api, "host", "b.example.com"},
		{"host", "b.example.com"},
		{":authority", api + ":8443"},
	} {
		status := h2Request(t, c, append([]string{":method", "GET", ":scheme", "https", ":path", "/repos/a"}, fields...))
		if status != "421" {
			t.Errorf("%v: %q", fields, status)
		}
	}
	up.untouched(t)
	other.untouched(t)
	// The same with the right host passes, so that the above fails for its
	// reason.
	if status := h2Request(t, c, []string{":method", "GET", ":scheme", "https", ":path", "/repos/a", ":authority", api}); status != "200" {
		t.Errorf("%q", status)
	}
	// HTTP/2 has no CONNECT, no upgrade and no framing headers here.
	for _, fields := range [][]string{
		{":method", "CONNECT", ":authority", "b.example.com:443"},
		{":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":path", "/repos/a", ":authority", api},
		{":method", "GET", ":scheme", "https", ":path", "/repos/a", ":authority", api, "upgrade", "websocket", "connection", "upgrade"},
		{":method", "POST", ":scheme", "https", ":path", "/repos/a", ":authority", api, "transfer-encoding", "chunked"},
		{":method", "GET", ":scheme", "https", ":path", "http://b.example.com/", ":authority", api},
		{":method", "GET", ":scheme", "https", ":path", "*", ":authority", api},
	} {
		before := up.requests.Load()
		if status := h2Request(t, c, fields); status == "200" || up.requests.Load() != before {
			t.Errorf("%v: %q", fields, status)
		}
	}
	other.untouched(t)
}

// h2Request sends one request with the fields as given, and returns its status,
// or "" if there is none.
func h2Request(t testing.TB, c *cell, fields []string) string {
	t.Helper()
	conn, err := c.secure(api, 443, api, "h2")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, http2.ClientPreface)
	fr := http2.NewFramer(conn, bufio.NewReader(conn))
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = fr.WriteSettings()
	var block strings.Builder
	enc := hpack.NewEncoder(&block)
	for i := 0; i+1 < len(fields); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte(block.String()), EndStream: true, EndHeaders: true})
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			return ""
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			return f.PseudoValue("status")
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return ""
		}
	}
}

// TestMethodOverride checks that a header cannot make a denied request of an
// allowed one.
func TestMethodOverride(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(restAPI))
	up := c.serve(api, 443, http.HandlerFunc(mirror))
	for _, name := range []string{"X-HTTP-Method-Override", "X_HTTP_Method_Override", "x-http_method", "X.Method.Override", "X_Original-URL", "Content_Type", "Transfer_Encoding"} {
		status, body, _ := get(t, c.client(true), "POST", "https://"+api+"/echo", nil, name, "delete")
		if status != 403 {
			t.Error(name, status, body)
		}
	}
	up.untouched(t)
}

// TestEscapedPaths checks that a deny rule holds for other spellings of its path.
func TestEscapedPaths(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(`{host: api.example.com, port: 443, protocol: rest, access: read-only, allow_encoded_slash: true, deny_rules: [{method: "*", path: "/@corp/**"}]}`))
	up := c.serve(api, 443, http.HandlerFunc(mirror))
	for _, path := range []string{
		"/@corp/x", "/%40corp/x", "/%2540corp/x", "/@%2563orp/x", "/@%25%36%33orp/x", "/@%252563orp/x", "/%2540%2563orp/x",
		"/@corp%2Fx", "/@corp%5Cx", "/%2F@corp/x", "/a/..%2F@corp/x", "/a/.%5C@corp/x", "/a/%2e%2e%2F@corp/x",
	} {
		if status, body, _ := get(t, c.client(true), "GET", "https://"+api+path, nil); status != 403 {
			t.Error(path, status, body)
		}
	}
	up.untouched(t)
}

// TestSlow checks that programs that take their time hold nothing for long.
func TestSlow(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(plainAPI, restAPI), func(cfg *egress.Config) {
		cfg.Limits.Hello, cfg.Limits.Idle = 100*time.Millisecond, 200*time.Millisecond
	})
	up := c.serve(api, 80, http.HandlerFunc(mirror))
	for _, q := range []struct {
		port uint16
		send string
	}{{80, ""}, {80, "GET /ok/ HT"}, {80, "GET /ok/ HTTP/1.1\r\nHost: api.example.com\r\n"}, {443, ""}, {443, "\x16\x03\x01"}} {
		conn := c.dial(c.to(api, q.port))
		_, _ = io.WriteString(conn, q.send)
		start := time.Now()
		_, _ = io.Copy(io.Discard, conn)
		if d := time.Since(start); d > 15*time.Second {
			t.Errorf("%q held for %v", q.send, d)
		}
	}
	up.untouched(t)
}

// TestSlowBody checks that a body that rules are about comes soon or not at all,
// and that others may take their time.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	const hello = time.Second // the header of a request has as long as such a body
	c := newCell(t, rules(plainAPI, "{host: rpc.example.com, port: 80, protocol: json-rpc, rules: [{allow: {method: a}}]}"), func(cfg *egress.Config) {
		cfg.Limits.Hello, cfg.Limits.Reading = hello, 1
	})
	rpc := c.serve("rpc.example.com", 80, http.HandlerFunc(mirror))
	c.serve(api, 80, http.HandlerFunc(mirror))
	const head = "Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{"
	for range 2 {
		if res := raw(c.dial(c.to("rpc.example.com", 80)), "POST / HTTP/1.1\r\nHost: rpc.example.com\r\n"+head); res == nil || res.StatusCode != 403 {
			t.Error(res)
		}
	}
	rpc.untouched(t)
	conn := c.dial(c.to(api, 80))
	_, _ = io.WriteString(conn, "POST /ok/ HTTP/1.1\r\nHost: api.example.com\r\n"+head)
	time.AfterFunc(2*hello, func() { _, _ = io.WriteString(conn, strings.Repeat("x", 19)) })
	if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || res.StatusCode != 200 {
		t.Error(res, err)
	}
}

// TestManyRequests checks the limit over all connections.
func TestManyRequests(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(plainAPI), func(cfg *egress.Config) { cfg.Limits.Requests = 2 })
	arrived, release := make(chan struct{}), make(chan struct{})
	c.serve(api, 80, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	}))
	const ask = "GET /ok/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n"
	for range 2 {
		_, _ = io.WriteString(c.dial(c.to(api, 80)), ask)
		<-arrived
	}
	if res := raw(c.dial(c.to(api, 80)), ask); res == nil || res.StatusCode != 503 {
		t.Error(res)
	}
	close(release)
}

// TestHostAfterLongHeader checks a second Host when the server's buffer of 4,096
// bytes has room for one more byte of the header before it: that byte is not one
// that the server reads ahead. Each part is a TLS record, read by itself.
func TestHostAfterLongHeader(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(fullAPI))
	c.serve(api, 443, http.HandlerFunc(mirror))
	conn := c.tls(c.dial(c.to(api, 443)), api)
	line := "GET https://api.example.com/ok/ HTTP/1.1\r\n"
	long := "X: " + strings.Repeat("x", 4095-len("X: \r")) + "\r"
	if _, err := io.WriteString(conn, line+long); err != nil {
		t.Fatal(err)
	}
	if res := raw(conn, "\nHost: evil.example.com\r\n\r\n"); res == nil || res.StatusCode != 421 {
		t.Errorf("%+v", res)
	}
}

func TestAudit(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(`{host: api.example.com, port: 443, protocol: rest, enforcement: audit, rules: [{allow: {method: GET, path: /a}}]}`))
	c.serve(api, 443, http.HandlerFunc(mirror))
	for _, q := range []struct{ method, disposition string }{{"GET", "Allowed"}, {"DELETE", "Alert"}} {
		if status, body, _ := get(t, c.client(true), q.method, "https://"+api+"/a", nil); status != 200 {
			t.Error(status, body)
		}
		e := c.find(4002, func(e map[string]any) bool { return text(e, "http_request", "http_method") == q.method })
		if text(e, "disposition") != q.disposition {
			t.Error(fmt.Sprint(e))
		}
	}
}
