package egress_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/forkcell/forkcell/internal/evidence/event"
)

// TestWire sends what no client sends. Each is refused before the upstream hears of it, or
// the upstream gets the request that was decided on, and no other.
func TestWire(t *testing.T) {
	t.Parallel()
	const graphql = `{host: api.example.com, port: 443, protocol: graphql, rules: [{allow: {operation_type: query, fields: [viewer]}}]}`
	const grpc = `{host: api.example.com, port: 443, protocol: grpc, rules: [{allow: {service: pkg.Store, method: Get}}]}`
	get := func(more ...string) []string { return proper(more...) }
	post := func(path string, more ...string) []string {
		return append([]string{":method: POST", ":scheme: https", ":authority: " + api, ":path: " + path}, more...)
	}
	call := func(path string, more ...string) []string {
		return post(path, append([]string{"content-type: application/grpc", "te: trailers"}, more...)...)
	}
	const read, write = `{"query":"{ viewer { login } }"}`, `{"query":"mutation { x }"}`
	for _, q := range []struct {
		name, rules string
		header      []string
		body        string
		passes      bool
	}{
		{"two authorities", fullAPI, get(":authority: other.example.com"), "", false},
		{"authority twice", fullAPI, get(":authority: " + api), "", false},
		{"another host", fullAPI, get("host: other.example.com"), "", false},
		{"two hosts", fullAPI, get("host: "+api, "host: other.example.com"), "", false},
		{"the host again", fullAPI, get("host: " + api), "", true},
		{"host alone", fullAPI, []string{":method: GET", ":scheme: https", ":path: /a", "host: other.example.com"}, "", false},
		{"user", fullAPI, []string{":method: GET", ":scheme: https", ":authority: x@" + api, ":path: /a"}, "", false},
		{"port", fullAPI, []string{":method: GET", ":scheme: https", ":authority: " + api + ":444", ":path: /a"}, "", false},
		{"address as path", fullAPI, []string{":method: GET", ":scheme: https", ":authority: " + api, ":path: https://other.example.com/a"}, "", false},
		{"no method", fullAPI, []string{":method: G T", ":scheme: https", ":authority: " + api, ":path: /a"}, "", false},
		{"line in a path", fullAPI, []string{":method: GET", ":scheme: https", ":authority: " + api, ":path: /a HTTP/1.1\r\nx: y"}, "", false},
		{"line in a value", fullAPI, get("x: a\r\nhost: other"), "", false},
		{"chunked", fullAPI, get("transfer-encoding: chunked"), "", false},
		{"length of nothing", fullAPI, get("content-length: 5"), "", true},
		{"two lengths", fullAPI, post("/a", "content-length: 4", "content-length: 5"), "body", true}, // one is sent
		{"too short", fullAPI, post("/a", "content-length: 5"), "body", false},
		{"too long", fullAPI, post("/a", "content-length: 3"), "body", false},
		{"upgrade", fullAPI, get("upgrade: h2c"), "", false},

		{"query", graphql, post("/g", "content-type: application/json"), read, true},
		{"mutation", graphql, post("/g", "content-type: application/json"), write, false},
		{"two types", graphql, post("/g", "content-type: application/json", "content-type: text/plain"), read, false},
		{"type in parts", graphql, post("/g", "content-type: application/json, application/graphql"), read, false},
		{"encoded", graphql, post("/g", "content-type: application/json", "content-encoding: identity"), read, false},
		{"UTF-16", graphql, post("/g", "content-type: application/json; charset=utf-16"), read, false},
		{"form", graphql, post("/g", "content-type: application/x-www-form-urlencoded"), "query={viewer}", false},
		{"two requests", graphql, post("/g", "content-type: application/json"), read + write, false},
		{"in the query too", graphql, post("/g?query=mutation%7Bx%7D", "content-type: application/json"), read, false},
		{"escaped key", graphql, post("/g", "content-type: application/json"), `{"query":"{ viewer }","quer\u0079":"mutation { x }"}`, false},
		{"other case", graphql, post("/g", "content-type: application/json"), `{"query":"{ viewer }","Query":"mutation { x }"}`, false},
		{"comment", graphql, post("/g", "content-type: application/json"), `{"query":"{ viewer #\r secrets\n }"}`, false},
		{"comment in JSON", graphql, post("/g", "content-type: application/json"), `{"query":"{ viewer }"/*,*/}`, false},
		{"alias", graphql, post("/g", "content-type: application/json"), `{"query":"{ viewer: secrets }"}`, false},
		{"fragment", graphql, post("/g", "content-type: application/json"), `{"query":"{ ...a } fragment a on Query { ...b } fragment b on Query { secrets }"}`, false},
		{"second operation", graphql, post("/g", "content-type: application/json"), `{"query":"query a { viewer } mutation b { x }","operationName":"a"}`, false},
		{"in a batch", graphql, post("/g", "content-type: application/json"), "[" + read + "," + write + "]", false},
		{"persisted", graphql, post("/g", "content-type: application/json"), `{"extensions":{"persistedQuery":{"version":1,"sha256Hash":"` + strings.Repeat("a", 64) + `"}}}`, false},
		{"by GET", graphql, []string{":method: GET", ":scheme: https", ":authority: " + api, ":path: /g?query=%7Bsecrets%7D"}, "", false},
		{"twice by GET", graphql, []string{":method: GET", ":scheme: https", ":authority: " + api, ":path: /g?query=%7Bviewer%7D&query=%7Bsecrets%7D"}, "", false},
		{"GET with a body", graphql, []string{":method: GET", ":scheme: https", ":authority: " + api, ":path: /g?query=%7Bviewer%7D", "content-type: application/json"}, write, false},
		{"method override", graphql, post("/g", "content-type: application/json", "x-http-method-override: GET"), read, false},

		{"call", grpc, call("/pkg.Store/Get"), "\x00\x00\x00\x00\x01x", true},
		{"two messages, compressed", grpc, call("/pkg.Store/Get", "grpc-encoding: gzip"), "\x01\x00\x00\x00\x01x\x01\x00\x00\x00\x01y", true},
		{"other call", grpc, call("/pkg.Store/Delete"), "\x00\x00\x00\x00\x00", false},
		{"other case of a call", grpc, call("/pkg.Store/GET"), "", false},
		{"escaped call", grpc, call("/pkg.Store/%47et"), "\x00\x00\x00\x00\x00", true},
		{"call up", grpc, call("/pkg.Store/Get/../Delete"), "", false},
		{"call in the query", grpc, call("/pkg.Store/Get?x=/pkg.Store/Delete"), "", false},
		{"two slashes", grpc, call("//pkg.Store/Get"), "\x00\x00\x00\x00\x00", true}, // one is sent
		{"gRPC-Web", grpc, post("/pkg.Store/Get", "content-type: application/grpc-web"), "", false},
		{"two types of call", grpc, call("/pkg.Store/Get", "content-type: application/json"), "", false},
		{"call by override", grpc, call("/pkg.Store/Get", "x-http-method: DELETE"), "", false},
	} {
		for _, h2 := range []bool{true, false} {
			if !h2 && q.rules == grpc {
				continue // its servers speak HTTP/2
			}
			t.Run(fmt.Sprintf("%s to HTTP/2 %t", q.name, h2), func(t *testing.T) {
				t.Parallel()
				c := newCell(t, rules(q.rules))
				seen := make(chan arrived, 2)
				up := c.serve(api, 443, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					body, err := io.ReadAll(r.Body)
					if err == nil {
						seen <- arrived{r, string(body)}
					}
				}), func(s *httptest.Server) { s.EnableHTTP2 = h2 })
				got := c.wire(q.header, q.body)
				switch {
				case !q.passes && len(seen) > 0:
					t.Errorf("the program got %s, the upstream %d requests", got, len(seen))
				case q.passes && (got != "200" || len(seen) != 1 || up.requests.Load() != 1):
					t.Errorf("the program got %s, the upstream %d requests", got, len(seen))
				case q.passes:
					r := <-seen
					if r.body != q.body || r.Host != api || r.Header["Host"] != nil || len(r.Header["Content-Length"]) > 1 ||
						r.ContentLength > int64(len(q.body)) || q.rules == grpc && r.RequestURI != "/pkg.Store/Get" {
						t.Errorf("the upstream got %q for %s, %s, %v", r.body, r.Host, r.RequestURI, r.Header)
					}
				}
			})
		}
	}
}

// arrived is a request with its body, as an upstream has read them.
type arrived struct {
	*http.Request
	body string
}

// wire sends one request in HTTP/2 as it is, and returns what became of it.
func (c *cell) wire(header []string, body string) string {
	s := c.speak()
	err := errors.Join(s.greet(), s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: s.fields(header...), EndStream: body == "", EndHeaders: true}))
	if body != "" {
		err = errors.Join(err, s.WriteData(1, true, []byte(body)))
	}
	if err != nil {
		c.t.Fatal(err)
	}
	got := s.ends(1)
	if err := errors.Join(s.conn.Close(), c.proxy.Close()); err != nil {
		c.t.Error(err)
	}
	return got
}

// TestContinuations: a header in ever more pieces, empty ones too, ends the connection,
// also where another stream is open.
func TestContinuations(t *testing.T) {
	t.Parallel()
	for name, piece := range map[string][]byte{"empty": {}, "table size": {0x20}, "indexed": {0xbe}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCell(t, rules(fullAPI))
			up := c.serve(api, 443, http.HandlerFunc(mirror))
			s := c.speak()
			if err := errors.Join(s.greet(), s.open(1, proper()...)); err != nil {
				t.Fatal(err)
			}
			if got := s.ends(1); got != "200" {
				t.Fatal(got)
			}
			first := append(s.fields(proper()...), s.fields("x: "+strings.Repeat("a", 2000))...)
			if err := s.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: first}); err != nil {
				t.Fatal(err)
			}
			// What it answers is read beside, so that neither side waits for the other.
			end := make(chan string, 1)
			go func() { end <- s.ends(3) }()
			_ = s.conn.SetDeadline(time.Now().Add(20 * time.Second))
			var err error
			for err == nil {
				err = s.WriteContinuation(3, false, piece)
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the header did not end")
			}
			_ = s.conn.Close()
			<-end
			if err := c.proxy.Close(); err != nil {
				t.Error(err)
			}
			if n := up.requests.Load(); n != 1 {
				t.Errorf("the upstream got %d requests", n)
			}
			c.find(event.NetworkActivity, func(e map[string]any) bool {
				return name != "empty" || strings.Contains(text(e, "status_detail"), "pieces")
			})
		})
	}
}
