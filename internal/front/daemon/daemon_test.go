package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/front/daemon"
	"github.com/forkcell/forkcell/internal/front/local"
	_ "github.com/forkcell/forkcell/internal/sandbox/driver/first" // cells of these tests
)

func TestMain(m *testing.M) {
	if code, is := hostileHelper(); is {
		os.Exit(code)
	}
	if code, is := local.Helper(); is {
		os.Exit(code)
	}
	if os.Args[0] == daemonName {
		os.Exit(daemonMain())
	}
	if filepath.Base(os.Args[0]) == listenerName {
		os.Exit(listenerMain())
	}
	if filepath.Base(os.Args[0]) == repeaterName {
		os.Exit(repeaterMain())
	}
	if runtime := os.Getenv(gvisorVariable); runtime != "" {
		_ = os.Setenv("PATH", os.Getenv("PATH")+":"+filepath.Dir(runtime)) // daemons look for it there
	}
	os.Exit(m.Run())
}

// testDaemon is a real daemon on a home of its own, and a client on its socket.
type testDaemon struct {
	testing.TB
	home   string
	source string
	client *http.Client
	// addresses are what the daemon listens on; site begins URLs.
	addresses []string
	site      string
	stop      func() error
}

// newDaemon starts a daemon that ends with the test.
func newDaemon(t testing.TB) *testDaemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "fc") // short: it holds a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	d := &testDaemon{TB: t, home: filepath.Join(dir, "home"), source: filepath.Join(dir, "src")}
	d.write("hello.txt", "hello\n")
	d.start(api.ServeOptions{})
	return d
}

func (d *testDaemon) write(name, text string) {
	d.Helper()
	path := filepath.Join(d.source, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		d.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		d.Fatal(err)
	}
}

// start serves until stop is called, or the test ends.
func (d *testDaemon) start(o api.ServeOptions) {
	d.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	listening, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- daemon.Serve(ctx, d.home, o, io.Discard, func(at []string) error { d.addresses = at; close(listening); return nil })
	}()
	select {
	case <-listening:
	case err := <-ended:
		cancel()
		d.Fatal("the daemon did not start:", err)
	}
	d.site = "http://localhost"
	socket := filepath.Join(d.home, daemon.SocketName)
	d.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	var once bool
	d.stop = func() error {
		if once {
			return nil
		}
		once = true
		d.client.CloseIdleConnections()
		cancel()
		return <-ended
	}
	d.Cleanup(func() {
		if err := d.stop(); err != nil {
			d.Error("the daemon ended with", err)
		}
	})
}

// reply is an answer that was read whole.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// send sends a request; body is marshalled unless it is nil or text. It also works
// while the test is cleaned up.
func (d *testDaemon) send(method, path string, body any, header ...string) reply {
	d.Helper()
	var data io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		data = strings.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			d.Fatal(err)
		}
		data = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(context.WithoutCancel(d.Context()), method, d.site+path, data)
	if err != nil {
		d.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	if body != nil && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := d.client.Do(req)
	if err != nil {
		d.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		d.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, text}
}

// want sends a request, and decodes the answer into doc unless that is nil.
func (d *testDaemon) want(status int, doc any, method, path string, body any, header ...string) http.Header {
	d.Helper()
	r := d.send(method, path, body, header...)
	if r.status != status {
		d.Fatalf("%s %s: status %d, want %d: %s", method, path, r.status, status, r.body)
	}
	if doc != nil {
		if err := json.Unmarshal(r.body, doc); err != nil {
			d.Fatalf("%s %s: %v: %s", method, path, err, r.body)
		}
	}
	return r.header
}

// problem sends a request that is refused, and returns the problem document.
func (d *testDaemon) problem(status int, code api.Code, method, path string, body any, header ...string) api.Problem {
	d.Helper()
	var p api.Problem
	h := d.want(status, &p, method, path, body, header...)
	if h.Get("Content-Type") != "application/problem+json" || p.Code != code || p.Kind == "" || p.Kind != p.Kind.Known() || p.Status != status || p.Instance != h.Get("X-Request-Id") {
		d.Errorf("%s %s: %s %+v", method, path, h.Get("Content-Type"), p)
	}
	return p
}

// cell makes a cell from the source directory.
func (d *testDaemon) cell(name string) {
	d.Helper()
	d.want(http.StatusCreated, nil, "POST", "/v1/cells", api.CreateCell{Name: name, Source: &api.Source{Path: d.source}})
}
