package daemon_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/forkcell/forkcell/internal/api"
)

// listenerName is the name of this program as a server in a cell.
const listenerName = "test-listener"

// listenerMain serves HTTP on port 8080, and nothing that is HTTP on 8081.
func listenerMain() int {
	l, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	raw, err := net.Listen("tcp", "[::1]:8081")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	go func() {
		for {
			c, err := raw.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "no HTTP\n")
			_ = c.Close()
		}
	}()
	fmt.Println("ready")
	fmt.Println(http.Serve(l, listenerHandler()))
	return 1
}

// seenRequest is a request as the listener got it.
type seenRequest struct {
	Method, URI, Host, Body string
	Header                  http.Header
}

// listenerHandler answers below /echo/ itself: a ServeMux would redirect some paths.
func listenerHandler() http.Handler {
	mux := listenerMux()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/echo/") {
			mux.ServeHTTP(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Set-Cookie", "a=b")
		_ = json.NewEncoder(w).Encode(seenRequest{r.Method, r.RequestURI, r.Host, string(body), r.Header})
	})
}

func listenerMux() *http.ServeMux {
	mux, left := http.NewServeMux(), make(chan struct{}, 1)
	mux.HandleFunc("/count", func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n)
	})
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "first\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		left <- struct{}{}
	})
	mux.HandleFunc("/left", func(http.ResponseWriter, *http.Request) { <-left })
	mux.HandleFunc("/socket", func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"chat"}})
		if err != nil {
			return
		}
		for {
			kind, data, err := c.Read(context.WithoutCancel(r.Context()))
			if err != nil {
				left <- struct{}{}
				return
			}
			if err := c.Write(r.Context(), kind, data); err != nil {
				return
			}
		}
	})
	return mux
}

// listener makes a live cell with a server in it.
func (d *testDaemon) listener(name string) {
	d.Helper()
	program, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(filepath.Join(d.source, listenerName), program, 0o755)
	}
	if err != nil {
		d.Fatal(err)
	}
	d.live(name)
	res := d.exec(name, "sh", "-c", "mkfifo up && (./"+listenerName+" > up 2>&1 &) && read line < up && echo $line")
	if res.ExitCode != 0 || res.Stdout != "ready\n" {
		d.Fatalf("%+v", res)
	}
}

// TestPorts sends requests to a server in a live cell.
func TestPorts(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.listener("a-demo")
	runner := d.token(api.TokenBody{Name: "runner", Scopes: []string{"run"}, Cells: "a-"})
	const port = "/v1/cells/a-demo/ports/8080"
	var got seenRequest
	h := runner.want(200, &got, "PATCH", port+"/echo/x%2Fy//z?q=1", "body", "Cookie", "c=1", "X-Own", "kept", "Idempotency-Key", "k")
	if got.Method != "PATCH" || got.URI != "/echo/x%2Fy//z?q=1" || got.Host != "localhost:8080" || got.Body != "body" || got.Header.Get("X-Own") != "kept" {
		t.Errorf("%+v", got)
	}
	if got.Header.Get("Authorization") != "" || got.Header.Get("Cookie") != "" || got.Header.Get("Idempotency-Key") != "k" {
		t.Errorf("the listener got %v", got.Header)
	}
	if h.Get("Set-Cookie") != "" || h.Get("Content-Security-Policy") != "sandbox" || h.Get("X-Content-Type-Options") != "nosniff" || len(h.Values("X-Request-Id")) != 1 {
		t.Errorf("%v", h)
	}
	d.want(404, nil, "GET", port+"/nosuch", nil)
	d.want(404, nil, "GET", port, nil)
	const large = 8<<20 + 1
	var n int
	d.want(200, &n, "POST", port+"/count", strings.Repeat("x", large))
	if n != large {
		t.Errorf("%d bytes arrived", n)
	}
	d.problem(502, api.CodeForward, "GET", "/v1/cells/a-demo/ports/8081/", nil)
	d.problem(502, api.CodeForward, "GET", "/v1/cells/a-demo/ports/9/", nil)
	d.problem(400, api.CodeUsage, "GET", "/v1/cells/a-demo/ports/0/", nil)
	d.problem(400, api.CodeUsage, "GET", "/v1/cells/a-demo/ports/65536/", nil)
	d.problem(403, api.CodeForbidden, "GET", port+"/", nil, "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
	d.problem(405, api.CodeMethod, "TRACE", port+"/", nil)
	d.cell("b-demo")
	d.problem(409, api.CodeNotStarted, "GET", "/v1/cells/b-demo/ports/8080/", nil)
	d.problem(404, api.CodeNotFound, "GET", "/v1/cells/nosuch/ports/8080/", nil)
	d.checkPortAccess(port)
	d.checkPortRecords(port)
}

// checkPortAccess sends requests that the sender may not send.
func (d *testDaemon) checkPortAccess(port string) {
	d.Helper()
	d.remote("").problem(401, api.CodeUnauthenticated, "GET", port+"/echo/", nil)
	d.token(api.TokenBody{Name: "reader", Scopes: []string{"read", "decide"}}).problem(403, api.CodeForbidden, "GET", port+"/echo/", nil)
	d.token(api.TokenBody{Name: "other", Scopes: []string{"run"}, Cells: "b-"}).problem(404, api.CodeNotFound, "GET", port+"/echo/", nil)
	d.token(api.TokenBody{Name: "site", Scopes: []string{"run"}}).problem(403, api.CodeForbidden, "GET", port+"/echo/", nil, "Origin", "http://evil.example")
}

// checkPortRecords: requests are in the journal, in the metrics and in the events of
// the run.
func (d *testDaemon) checkPortRecords(port string) {
	d.Helper()
	const route = "/v1/cells/{cell}/ports/{port}/{path}"
	journal := string(d.send("GET", "/v1/events?class=6003", nil).body)
	if !strings.Contains(journal, route) || !strings.Contains(journal, `"runner"`) || strings.Contains(journal, "echo") {
		d.Errorf("the journal of requests: %s", journal)
	}
	if text := string(d.send("GET", "/metrics", nil).body); !strings.Contains(text, `forkcell_api_request_seconds_count{method="PATCH",route="`+route+`",status="2xx"} 1`) {
		d.Error("no metric of the requests")
	}
	if text := string(d.send("GET", "/v1/events?cell=a-demo&class=network_activity", nil).body); !strings.Contains(text, "a connection of the host was forwarded") {
		d.Errorf("events of %s: %s", port, text)
	}
}

// TestPortStreams: answers arrive as they come, and what a client leaves ends in the
// cell.
func TestPortStreams(t *testing.T) {
	t.Parallel()
	d := newRemote(t, api.ServeOptions{})
	d.listener("demo")
	const port = "/v1/cells/demo/ports/8080"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := func(d *testDaemon) *http.Response {
		r, err := http.NewRequestWithContext(ctx, "GET", d.site+port+"/stream", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := d.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(resp.Body).ReadString('\n'); line != "first\n" {
			t.Fatal(line, err)
		}
		return resp
	}
	_ = first(d).Body.Close() // the client goes
	d.want(200, nil, "GET", port+"/left", nil)

	var made api.TokenCreated
	d.want(201, &made, "POST", "/v1/tokens", api.TokenBody{Name: "short", Scopes: []string{"run"}})
	resp := first(d.remote(made.Token))
	d.want(204, nil, "DELETE", "/v1/tokens/"+made.ID, nil)
	d.want(200, nil, "GET", port+"/left", nil) // the stream of a revoked token ends
	_ = resp.Body.Close()

	resp = first(d)
	if err := d.stop(); err != nil { // the daemon does not wait for it
		t.Error(err)
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the stream ended as if it were whole")
	}
	_ = resp.Body.Close()
}

// TestPortSockets talks to a WebSocket in a cell.
func TestPortSockets(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.listener("demo")
	s, resp, err := d.dial("/v1/cells/demo/ports/8080/socket", http.Header{"Cookie": {"a=b"}}, "chat")
	if err != nil {
		t.Fatal(err)
	}
	if s.conn.Subprotocol() != "chat" || resp.Header.Get("Content-Security-Policy") != "sandbox" {
		t.Errorf("%q %v", s.conn.Subprotocol(), resp.Header)
	}
	want := bytes.Repeat([]byte("0123456789abcdef"), 1000)
	for range 3 {
		if err := s.conn.Write(s.ctx, websocket.MessageBinary, want); err != nil {
			t.Fatal(err)
		}
		if _, got, err := s.conn.Read(s.ctx); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	_ = s.conn.CloseNow()
	d.want(200, nil, "GET", "/v1/cells/demo/ports/8080/left", nil) // it ended in the cell

	s, _, err = d.dial("/v1/cells/demo/ports/8080/socket", nil, "chat")
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := d.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("the daemon took %v to stop", took)
	}
	if _, _, err := s.conn.Read(s.ctx); err == nil {
		t.Error("the socket is still open")
	}
}
