package daemon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/front/daemon"
)

func decodeInto[T any](t testing.TB, text []byte, doc *T) *T {
	t.Helper()
	if err := json.Unmarshal(text, doc); err != nil {
		t.Errorf("%s: %v", text, err)
	}
	return doc
}

// verified checks the receipts of the home.
func (d *testDaemon) verified() {
	d.Helper()
	var res api.ReceiptVerifyResult
	d.want(200, &res, "POST", "/v1/receipts/verify", api.ReceiptVerifyRequest{All: true})
	if !res.OK {
		d.Errorf("%+v", res.Problems)
	}
}

// TestSupervisorDies kills the supervisor of a live cell while its callers wait: each
// gets a problem, the run is recorded as interrupted, and the cell can be started
// again.
func TestSupervisorDies(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	started := d.live("demo")
	d.want(200, nil, "PUT", files+"?path=new", "kept", "Content-Type", "application/octet-stream")
	answers := make(chan reply, 2)
	for i, accept := range []string{"application/json", "text/event-stream"} {
		go func() {
			answers <- d.send("POST", "/v1/cells/demo/exec", api.ExecBody{Command: []string{"sh", "-c", fmt.Sprintf("touch ready%d; sleep 1000", i)}}, "Accept", accept)
		}()
	}
	for i, limit := 0, time.Now().Add(time.Minute); i < 2; <-time.After(10 * time.Millisecond) {
		r := d.send("GET", fmt.Sprintf("%s?path=ready%d", files, i), nil)
		if r.status == 200 {
			i++
		}
		if time.Now().After(limit) {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	if err := unix.Kill(started.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r := <-answers; !strings.Contains(string(r.body), string(api.CodeLost)) {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	var again api.StartResult
	for limit := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
		r := d.send("POST", "/v1/cells/demo/start", nil)
		if r.status == 200 {
			decodeInto(t, r.body, &again)
			break
		}
		if r.status != 409 || time.Now().After(limit) {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	var run api.RunInfo
	d.want(200, &run, "GET", "/v1/runs/"+started.RunID, nil)
	if run.State != "ended" || run.Outcome != "interrupted" || again.RunID == started.RunID {
		t.Errorf("%+v", run)
	}
	d.exec("demo", "true")
	d.verified()
}

// streamingRoutes are the requests whose answers come in parts, with the text after
// which the reader leaves.
func streamingRoutes() []struct{ name, method, path, body, accept, until string } {
	const sse = "text/event-stream"
	forever := `{"command":["sh","-c","while :; do echo output; done"]}`
	return []struct{ name, method, path, body, accept, until string }{
		{"run", "POST", "/v1/cells/idle/runs", forever, sse, "event: stdout"},
		{"race", "POST", "/v1/race", `{"cell":"idle","jobs":2,"attempts":[{"command":["true"]},{"command":["sleep","1000"]}]}`, sse, "event: attempt"},
		{"exec", "POST", "/v1/cells/demo/exec", forever, sse, "event: stdout"},
		{"events", "GET", "/v1/events?follow=true", "", sse, ":"},
		{"run events", "GET", "/v1/runs/RUN/events?follow=true", "", sse, ":"},
		{"logs", "GET", "/v1/runs/RUN/logs?follow=true", "", "*/*", "output"},
		{"watch", "POST", files + "/watch", `{"recursive":true}`, sse, "started"},
		{"file", "GET", files + "?path=large", "", "*/*", "\x00\x00"},
		{"archive", "GET", files + "?path=large", "", "application/x-tar", "ustar"},
		{"export", "GET", "/v1/cells/idle/export", "", "*/*", "ustar"},
	}
}

// TestEarlyDisconnects leaves each stream in the middle. Nothing of it is left in the
// daemon, and its run ends.
func TestEarlyDisconnects(t *testing.T) {
	d := newDaemon(t)
	run := d.live("demo").RunID
	d.cell("idle")
	d.exec("demo", "sh", "-c", "truncate -s 1G large; echo output")
	before := d.atRest()
	for _, route := range streamingRoutes() {
		ctx, cancel := context.WithCancel(t.Context())
		path := strings.ReplaceAll(route.path, "RUN", run)
		req, err := http.NewRequestWithContext(ctx, route.method, d.site+path, strings.NewReader(route.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", route.accept)
		if route.body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		resp, err := d.client.Do(req)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(route.name, resp, err)
		}
		seen := ""
		for buf := make([]byte, 4096); !strings.Contains(seen, route.until); {
			n, err := resp.Body.Read(buf)
			if seen += string(buf[:n]); err != nil || len(seen) > 1<<16 {
				t.Fatalf("%s: %q: %v", route.name, seen, err)
			}
		}
		cancel()
		_ = resp.Body.Close()
		d.client.CloseIdleConnections()
		before.settle(t)
	}
	var cells api.List[api.CellInfo]
	d.want(200, &cells, "GET", "/v1/cells", nil)
	if len(cells.Items) != 2 {
		t.Errorf("%+v", cells.Items)
	}
	d.idle("idle")
	d.verified()
}

// idle waits until no run holds a cell.
func (d *testDaemon) idle(cell string) {
	d.Helper()
	for limit := time.Now().Add(time.Minute); d.state(cell) != "idle"; <-time.After(10 * time.Millisecond) {
		if time.Now().After(limit) {
			d.Fatal(cell, d.state(cell))
		}
	}
}

// TestReaderThatDoesNotRead opens streams and reads nothing. The daemon keeps no more
// than buffers of connections, and ends the streams after the time that it gives a
// reader for a part, 30 s.
func TestReaderThatDoesNotRead(t *testing.T) {
	t.Parallel()
	s := newSoak(t)
	s.cell("idle")
	started := s.live("demo")
	s.exec("demo", "sh", "-c", "truncate -s 1G large; yes output | head -c 50M")
	before := s.holds()
	var conns []net.Conn
	for _, route := range streamingRoutes() {
		switch route.name {
		case "run", "exec", "logs", "file", "archive":
		default:
			continue // they have little to say
		}
		for range 3 {
			conn, err := net.Dial("unix", filepath.Join(s.home, daemon.SocketName))
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
			path := strings.ReplaceAll(route.path, "RUN", started.RunID)
			fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
				route.method, path, route.accept, len(route.body), route.body)
		}
	}
	begin := time.Now()
	var closing sync.WaitGroup
	for _, conn := range conns {
		closing.Go(func() { awaitHangup(t, conn) })
	}
	most := before
	for ended := untilDone(&closing); ; {
		if h := s.holds(); h.Heap > most.Heap {
			most = h
		}
		select {
		case <-ended:
		case <-time.After(time.Second):
			continue
		}
		break
	}
	t.Logf("ended after %s, at most %d MiB, before %d", time.Since(begin), most.Heap>>20, before.Heap>>20)
	if most.Heap > before.Heap+16<<20 {
		t.Errorf("%+v, before %+v", most, before)
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
	before.descriptors += len(conns) // readers of the database and of states are kept
	s.settles(before)
	s.idle("idle")
	s.verified()
	s.terminate()
}

func untilDone(w *sync.WaitGroup) <-chan struct{} {
	done := make(chan struct{})
	go func() { w.Wait(); close(done) }()
	return done
}

// awaitHangup waits until the other side has closed a connection, without reading.
func awaitHangup(t *testing.T, conn net.Conn) {
	t.Helper()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Error(err)
		return
	}
	for limit := time.Now().Add(3 * time.Minute); time.Now().Before(limit); runtime.Gosched() {
		var n int
		poll := []unix.PollFd{{Events: unix.POLLHUP | unix.POLLRDHUP}}
		err := raw.Control(func(fd uintptr) {
			poll[0].Fd = int32(fd)
			n, _ = unix.Poll(poll, 100) // an interrupted one is repeated
		})
		if err != nil {
			t.Error(err)
			return
		}
		if n > 0 {
			return
		}
	}
	t.Error("the daemon did not end a stream that nobody reads")
}
