package rest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/caller"
)

// portTest passes requests on to a listener of this host, as to one in a cell.
type portTest struct {
	*testing.T
	listen net.Listener
	site   *httptest.Server
	wait   time.Duration
	hide   []string
	ended  chan struct{} // gets a value when a connection to the listener has ended
}

// newPortTest begins to listen. talk speaks with each client, and its connection is
// closed afterwards.
func newPortTest(t *testing.T, talk func(net.Conn)) *portTest {
	t.Helper()
	p := &portTest{T: t, wait: time.Minute, hide: hiddenHeaders(), ended: make(chan struct{}, 1)}
	var err error
	if p.listen, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.listen.Close() })
	go func() {
		for {
			conn, err := p.listen.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				talk(conn)
			}()
		}
	}()
	s := New(Config{Engine: func(caller.Caller) Engine { return nil }})
	p.site = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		target, ok := portTargetOf(r)
		if !ok {
			t.Errorf("%s is no request to a port", r.RequestURI)
			return
		}
		x := &exchange{call: &call{id: "req_1"}, server: s, w: w, r: r}
		(&portProxy{exchange: x, target: target, wait: p.wait, hide: p.hide}).serve(r.Context(), p.join)
	}))
	t.Cleanup(p.site.Close)
	return p
}

// join connects a stream with the listener, as the engine does.
func (p *portTest) join(ctx context.Context, stream io.ReadWriter) error {
	conn, err := net.Dial("tcp", p.listen.Addr().String())
	if err != nil {
		return engine.ErrNoListener
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	go func() {
		_, _ = io.Copy(conn, stream)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, conn)
	select {
	case p.ended <- struct{}{}:
	default:
	}
	return err
}

func (p *portTest) send(method, path string, body io.Reader, header ...string) (*http.Response, string) {
	p.Helper()
	ctx := httptrace.WithClientTrace(p.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		p.Errorf("an announcement was passed on: %d %v", code, h)
		return nil
	}})
	r, err := http.NewRequestWithContext(ctx, method, p.site.URL+"/v1/cells/demo/ports/80"+path, body)
	if err != nil {
		p.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		p.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.Fatal(err)
	}
	return resp, string(text)
}

// says reads a request and answers it with text.
func says(text string) func(net.Conn) {
	return func(c net.Conn) {
		if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		_, _ = io.WriteString(c, text)
	}
}

// TestPortHidesToken: the listener gets no token. Without the control it does.
func TestPortHidesToken(t *testing.T) {
	t.Parallel()
	seen := make(chan http.Header, 1)
	p := newPortTest(t, func(c net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		seen <- r.Header
		_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
	})
	send := func() http.Header {
		p.send("GET", "/", nil, "Authorization", "Bearer fct_secret", "Cookie", "a=b", "Proxy-Authorization", "Basic c2VjcmV0", "X-Own", "kept")
		return <-seen
	}
	if h := send(); strings.Contains(fmt.Sprint(h), "secret") || h.Get("Cookie") != "" || h.Get("X-Own") != "kept" {
		t.Errorf("the listener got %v", h)
	}
	p.hide = nil
	if h := send(); h.Get("Authorization") != "Bearer fct_secret" || h.Get("Cookie") != "a=b" {
		t.Errorf("without the control, the listener got %v", h)
	}
}

// TestPortGuardsAnswers: an answer has nothing that a client would keep or follow for
// the daemon's site.
func TestPortGuardsAnswers(t *testing.T) {
	t.Parallel()
	p := newPortTest(t, says("HTTP/1.1 103 Early Hints\r\nSet-Cookie: early=1\r\n\r\n"+
		"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nService-Worker-Allowed: /\r\nClear-Site-Data: \"*\"\r\nAlt-Svc: h3=\":1\"\r\n"+
		"Access-Control-Allow-Origin: *\r\nStrict-Transport-Security: max-age=1\r\nWww-Authenticate: Basic\r\nX-Request-Id: forged\r\n"+
		"Content-Security-Policy: script-src 'self'\r\nX-Own: kept\r\nConnection: X-Hop\r\nX-Hop: 1\r\nTransfer-Encoding: chunked\r\n\r\n"+
		"2\r\nok\r\n0\r\nSet-Cookie: late=1\r\nX-Late: kept\r\n\r\n"))
	resp, text := p.send("GET", "/", nil)
	if resp.StatusCode != 200 || text != "ok" || resp.Header.Get("X-Own") != "kept" || resp.Header.Get("X-Hop") != "" {
		t.Errorf("%s %v %q", resp.Status, resp.Header, text)
	}
	if resp.Trailer.Get("Set-Cookie") != "" || resp.Trailer.Get("X-Late") != "kept" {
		t.Errorf("trailers %v", resp.Trailer)
	}
	for name := range resp.Header {
		if isUnwanted(name) {
			t.Errorf("the answer has %s", name)
		}
	}
	if got := resp.Header.Values("Content-Security-Policy"); len(got) != 2 || got[0] != "sandbox" || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%q %v", got, resp.Header)
	}
}

// TestPortRedirects: clients follow redirects with their token, so those that leave
// the port are not passed on.
func TestPortRedirects(t *testing.T) {
	t.Parallel()
	location := make(chan string, 1)
	p := newPortTest(t, func(c net.Conn) {
		says("HTTP/1.1 307 Temporary Redirect\r\nLocation: " + <-location + "\r\nContent-Length: 0\r\n\r\n")(c)
	})
	const here = "/v1/cells/demo/ports/80"
	for from, want := range map[string]string{
		"/login?a=b#c":               here + "/login?a=b#c",
		"next":                       here + "/dir/next",
		"../up":                      here + "/up",
		"../../../../accept":         here + "/accept",
		"http://localhost:80/x%2Fy":  here + "/x%2Fy",
		"http://127.0.0.1:80":        here,
		"?q=1":                       here + "/dir/page?q=1",
		"/v1/cells/demo/accept":      here + "/v1/cells/demo/accept",
		"/%2e%2e/%2e%2e/accept":      "",
		"/%2E%2e/x":                  "",
		"/a/..%2f..%2f/b":            "",
		"http://localhost/v1/tokens": "",
		"https://localhost:80/x":     "",
		"//evil.example/x":           "",
		"http://u:p@localhost:80/x":  "",
		"javascript:alert(1)":        "",
		"http://[":                   "",
	} {
		location <- from
		resp, _ := p.send("GET", "/dir/page", nil)
		if got := resp.Header.Get("Location"); got != want || resp.StatusCode != 307 {
			t.Errorf("%s became %s %q, want %q", from, resp.Status, got, want)
		}
	}
}

// TestPortPath: the listener gets the path and the query as they were sent.
func TestPortPath(t *testing.T) {
	t.Parallel()
	p := newPortTest(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		first, err := in.ReadString('\n')
		for line := first; err == nil && line != "\r\n"; {
			line, err = in.ReadString('\n')
		}
		_, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\n"+first)
	})
	for _, path := range []string{
		"/", "/a/b", "/a%2Fb", "/a%20b?x=%zz;y&z", "//a//b", "//evil.example/x", "/./a/../b", "/%2e%2e/b", "/a|b^c", `/"q"`, "/%C3%BC", "/a?", "/?a=b?c", "/a+b", "/%41", "/%zz",
	} {
		conn, err := net.Dial("tcp", p.site.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET /v1/cells/demo/ports/80%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = conn.Close()
		if path == "/%zz" { // no server of Go takes it
			if resp.StatusCode != 400 {
				t.Errorf("%s: %s", path, resp.Status)
			}
			continue
		}
		if want := "GET " + path + " HTTP/1.1\r\n"; string(text) != want || err != nil {
			t.Errorf("%s: the listener got %q, %v", path, text, err)
		}
	}
}

// TestPortBadListeners: a listener that does not speak HTTP is one problem document.
func TestPortBadListeners(t *testing.T) {
	t.Parallel()
	for name, talk := range map[string]func(net.Conn){
		"closes at once": func(net.Conn) {},
		"closes":         says(""),
		"garbage":        says("SSH-2.0-server\r\n"),
		"binary":         says(strings.Repeat("\x00\xff", 1000)),
		"cut headers":    says("HTTP/1.1 200 OK\r\nA: b\r\n"),
		"two lengths":    says("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
		"an upgrade":     says("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
		"large headers":  says("HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", maxHeader) + "\r\n\r\n"),
		"endless headers": func(c net.Conn) {
			says("HTTP/1.1 200 OK\r\n")(c)
			for err := error(nil); err == nil; {
				_, err = io.WriteString(c, "A: b\r\n")
			}
		},
		"endless announcements": func(c net.Conn) {
			says("")(c)
			for err := error(nil); err == nil; {
				_, err = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp, text := newPortTest(t, talk).send("GET", "/", nil)
			wantProblem(t, resp, text, 502, api.CodeForward)
		})
	}
	p := newPortTest(t, func(net.Conn) {})
	_ = p.listen.Close()
	resp, text := p.send("GET", "/", nil)
	if got := wantProblem(t, resp, text, 502, api.CodeForward); !strings.HasPrefix(got.Detail, "nothing listens on ") {
		t.Error(got.Detail)
	}
}

func wantProblem(t *testing.T, resp *http.Response, text string, status int, code api.Code) (got api.Problem) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &got); err != nil || resp.Header.Get("Content-Type") != problemType || resp.StatusCode != status || got.Code != code {
		t.Errorf("%v: %s %v %.300q", err, resp.Status, resp.Header, text)
	}
	return got
}

// TestPortSlowListeners: a listener that does not read or does not answer is given up.
func TestPortSlowListeners(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	p := newPortTest(t, func(net.Conn) { <-done })
	p.wait = 50 * time.Millisecond
	resp, text := p.send("GET", "/", nil)
	wantProblem(t, resp, text, 504, api.CodeTimeout)
	resp, text = p.send("POST", "/", strings.NewReader(strings.Repeat("a", 32<<20)))
	wantProblem(t, resp, text, 504, api.CodeTimeout)
}

// TestPortEndlessAnswer: an answer arrives as it comes, and the connection to the
// listener ends when the client goes.
func TestPortEndlessAnswer(t *testing.T) {
	t.Parallel()
	p := newPortTest(t, func(c net.Conn) {
		says("HTTP/1.1 200 OK\r\n\r\nfirst\n")(c)
		_, _ = io.Copy(io.Discard, c) // until the other side closes
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", p.site.URL+"/v1/cells/demo/ports/80/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if line != "first\n" || err != nil {
		t.Errorf("%q %v", line, err)
	}
	cancel()
	<-p.ended
}

// TestPortSocketEnds: a WebSocket whose client reads nothing ends with its request.
func TestPortSocketEnds(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe() // nothing reads far
	defer far.Close()
	ctx, cancel := context.WithCancel(t.Context())
	conn, _, err := (&portWriter{ResponseWriter: hijacker{ResponseWriter: httptest.NewRecorder(), conn: near}, ctx: ctx}).Hijack()
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() { _, err := conn.Write([]byte("x")); failed <- err }()
	cancel()
	if err := <-failed; !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}

type hijacker struct {
	http.ResponseWriter
	conn net.Conn
}

func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) { return h.conn, nil, nil }

// TestPortStreams: requests to ports count as streams of their caller.
func TestPortStreams(t *testing.T) {
	t.Parallel()
	s := New(Config{Engine: func(caller.Caller) Engine { return nil }})
	for range maxStreams {
		if _, err := s.streams.admit("busy"); err != nil {
			t.Fatal(err)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/cells/demo/ports/80/", nil)
	w := httptest.NewRecorder()
	c := &call{id: "req_1", caller: sender{name: "busy", local: true}}
	s.dispatch(w, r.WithContext(context.WithValue(r.Context(), callKey, c)))
	wantProblem(t, w.Result(), w.Body.String(), 429, api.CodeTooMany)
}

// TestPortNavigations: what a browser would show or run is refused.
func TestPortNavigations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, value string
		refused     bool
	}{
		{"Sec-Fetch-Mode", "navigate", true},
		{"Sec-Fetch-Mode", "nested-navigate", true},
		{"Sec-Fetch-Mode", "cors", false},
		{"Sec-Fetch-Mode", "websocket", false},
		{"Sec-Fetch-Dest", "document", true},
		{"Sec-Fetch-Dest", "iframe", true},
		{"Sec-Fetch-Dest", "object", true},
		{"Sec-Fetch-Dest", "script", true},
		{"Sec-Fetch-Dest", "serviceworker", true},
		{"Sec-Fetch-Dest", "image", true},
		{"Sec-Fetch-Dest", "empty", false},
		{"Upgrade-Insecure-Requests", "1", true},
		{"Service-Worker", "script", true},
		{"Accept", "text/html", false},
	} {
		if got := isNavigation(http.Header{c.name: {c.value}}); got != c.refused {
			t.Errorf("%s: %s: %v", c.name, c.value, got)
		}
	}
}
