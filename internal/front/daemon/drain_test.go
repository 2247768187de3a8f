package daemon_test

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/local"
	"github.com/forkcell/forkcell/internal/front/rest"
)

// runSocket begins a run that repeats its input, and returns its socket when the command
// is executed.
func (d *testDaemon) runSocket(cell string) *socket {
	d.Helper()
	s, _, err := d.dial("/v1/cells/"+cell+"/run", nil, execProtocol)
	if err != nil {
		d.Fatal(err)
	}
	s.text(`{"command":["sh","-c","echo begun; cat"],"input":true}`)
	if m := s.message(); m.Type != "started" {
		d.Fatalf("%+v", m)
	}
	s.until(1, "begun\n")
	return s
}

// untilStopping returns when the daemon says that it stops.
func (d *testDaemon) untilStopping() {
	d.Helper()
	for limit := time.Now().Add(time.Minute); d.send("GET", "/readyz", nil).status != http.StatusServiceUnavailable; <-time.After(time.Millisecond) {
		if time.Now().After(limit) {
			d.Fatal("the daemon does not stop")
		}
	}
}

// untilBegun returns when the run of a cell has written its first line.
func (d *testDaemon) untilBegun(cell string) {
	d.Helper()
	for limit := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
		var runs api.List[api.RunInfo]
		d.want(http.StatusOK, &runs, "GET", "/v1/cells/"+cell+"/runs", nil)
		if len(runs.Items) > 0 && bytes.Contains(d.send("GET", "/v1/runs/"+runs.Items[0].RunID+"/logs", nil).body, []byte("begun")) {
			return
		}
		if time.Now().After(limit) {
			d.Fatal("the run does not begin")
		}
	}
}

// inheritedSocket returns a socket of a service manager.
func inheritedSocket(t *testing.T, path string) (*net.UnixListener, *os.File) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return l, f
}

// TestDrain: a daemon that stops refuses new requests with 503 until its running ones
// have ended. Callers of an inherited socket wait for the next daemon.
func TestDrain(t *testing.T) {
	t.Parallel()
	d := &daemonProcess{testDaemon: newDaemon(t)}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(filepath.Dir(d.home), "inherited")
	manager, file := inheritedSocket(t, path)
	d.inherit = []*os.File{file}
	d.launch()
	ended := make(chan error, 1)
	go func() { ended <- d.cmd.Wait() }()
	d.cell("demo")
	running := d.runSocket("demo")
	if err := d.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	d.untilStopping()
	for _, refused := range []struct{ method, path string }{
		{"GET", "/v1/cells"}, {"POST", "/v1/cells/demo/checkpoints"}, {"GET", "/v1/events?follow=true"}, {"GET", "/ui/"}, {"GET", "/nowhere"},
	} {
		d.problem(http.StatusServiceUnavailable, api.CodeDraining, refused.method, refused.path, nil, "Idempotency-Key", "k")
	}
	r := d.send("GET", "/v1/cells", nil)
	if r.header.Get("Retry-After") == "" {
		t.Errorf("%v", r.header)
	}
	for _, answered := range []string{"/healthz", "/version", "/metrics"} {
		d.want(http.StatusOK, nil, "GET", answered, nil)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	next, err := manager.Accept() // nobody else does
	if err != nil {
		t.Fatal(err)
	}
	_ = next.Close()
	running.input("late")
	running.text(`{"type":"stdin_closed"}`)
	running.until(1, "late")
	if m := running.message(); m.Type != "result" {
		t.Errorf("%+v", m)
	}
	_ = running.conn.Close(websocket.StatusNormalClosure, "")
	if err := <-ended; err != nil {
		t.Error("the daemon ended with", err)
	}
	if _, err := d.client.Get(d.site + "/healthz"); err == nil {
		t.Error("the daemon has ended, and answers")
	}
}

// TestDrainInterrupts: a request that takes longer than a daemon that stops waits is
// interrupted, and its caller is told.
func TestDrainInterrupts(t *testing.T) {
	t.Parallel()
	d := newServed(t, func(c *rest.Config) { c.DrainLimit = time.Nanosecond })
	d.cell("demo")
	d.cell("keyed")
	answers := make(chan reply, 2)
	for cell, header := range map[string][]string{"demo": nil, "keyed": {"Idempotency-Key", "k"}} {
		go func() {
			answers <- d.send("POST", "/v1/cells/"+cell+"/runs", api.RunBody{Command: []string{"sh", "-c", "echo begun; exec sleep 1000"}}, header...)
		}()
		d.untilBegun(cell)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.stop() }()
	for range 2 {
		var res api.RunAnswer
		r := <-answers
		if err := json.Unmarshal(r.body, &res); r.status != http.StatusOK || res.Outcome != "interrupted" {
			t.Errorf("%d %s %v", r.status, r.body, err)
		}
	}
	if err := <-ended; err != nil {
		t.Error("the daemon ended with", err)
	}
}

// TestDrainAsync: a daemon that stops waits as long for a run whose caller did not wait as
// for its requests. What takes longer is interrupted, and recorded.
func TestDrainAsync(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		limit   time.Duration
		seconds string
	}{"succeeded": {time.Hour, "1"}, "interrupted": {time.Nanosecond, "1000"}} {
		d := newServed(t, func(config *rest.Config) { config.DrainLimit = c.limit })
		d.cell("demo")
		var begun api.RunStarted
		d.want(http.StatusAccepted, &begun, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"sleep", c.seconds}}, "Prefer", "respond-async")
		if err := d.stop(); err != nil {
			t.Error("the daemon ended with", err)
		}
		e, release, err := local.Open(d.home, local.Write, caller.Caller{Actor: func() string { return "tester" }})
		if err != nil {
			t.Fatal(err)
		}
		info, err := e.RunInfo(t.Context(), begun.RunID)
		if err != nil || info.Outcome != want {
			t.Errorf("%+v, %v, want %s", info, err, want)
		}
		if err := release(); err != nil {
			t.Error(err)
		}
	}
}
