package client_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forkcell/forkcell/client"
)

// relay passes connections on to the daemon's socket, and cuts the first ones after
// the daemon has answered.
type relay struct {
	cut  atomic.Int32
	seen atomic.Int32
	// room is how many bytes of answers a connection passes on; 0 is all.
	room atomic.Int64
}

func newRelay(t *testing.T, cut int) (*relay, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "fc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	r := &relay{}
	r.cut.Store(int32(cut))
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r.seen.Add(1)
			go r.serve(conn)
		}
	}()
	return r, "unix:" + path
}

func (r *relay) serve(conn net.Conn) {
	defer conn.Close()
	up, err := net.Dial("unix", filepath.Join(os.Getenv("FORKCELL_HOME"), "api.sock"))
	if err != nil {
		return
	}
	defer up.Close()
	go func() { _, _ = io.Copy(up, conn) }()
	if r.cut.Add(-1) >= 0 {
		// The daemon has done what it was asked for, and nobody is told.
		_, _ = up.Read(make([]byte, 1))
		return
	}
	if room := r.room.Load(); room > 0 {
		_, _ = io.CopyN(conn, up, room)
		return
	}
	_, _ = io.Copy(conn, up)
}

// TestRetries loses answers on the way. Calls that may be repeated succeed, and do
// what they do once; a run is not repeated.
func TestRetries(t *testing.T) {
	t.Parallel()
	ctx, direct := t.Context(), connect(t)
	cell := newCell(t, direct, "retries")
	_, url := newRelay(t, 2)
	c := connect(t, client.WithURL(url))
	if _, err := c.Version(ctx); err != nil {
		t.Error("GET:", err)
	}
	r, url := newRelay(t, 1)
	c = connect(t, client.WithURL(url))
	_, err := c.Cells.Named(cell.Name).Run(ctx, client.Run{Command: []string{"true"}})
	if err == nil || r.seen.Load() != 1 {
		t.Errorf("a run was repeated: %v, %d connections", err, r.seen.Load())
	}
	r, url = newRelay(t, 100)
	c = connect(t, client.WithURL(url))
	if _, err := c.Version(ctx); err == nil || r.seen.Load() > 5 {
		t.Errorf("%v, %d connections", err, r.seen.Load())
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := c.Version(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestLostAnswers loses the answers to changes, which are made once.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	r, url := newRelay(t, 2)
	c := connect(t, client.WithURL(url))
	cell := newCell(t, c, "lost")
	if r.seen.Load() != 3 {
		t.Errorf("%d connections", r.seen.Load())
	}
	_, url = newRelay(t, 1)
	c = connect(t, client.WithURL(url))
	run := client.Run{Command: client.Shell("echo x >> log"), RunSettings: client.RunSettings{Wait: "30s"}}
	if _, err := c.Cells.Named(cell.Name).Run(ctx, run, client.IdempotencyKey("lost-"+rand.Text())); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range cell.Runs(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d runs", n)
	}
}

// TestEventsResume follows events over connections that are cut in the middle of an event.
func TestEventsResume(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	c := connect(t)
	cell := newCell(t, c, "resume")
	first := firstEvent(ctx, t, c, cell)
	for range 3 {
		runTrue(ctx, t, cell)
	}
	want := followed(ctx, t, c, first)
	r, url := newRelay(t, 0)
	r.room.Store(4000) // more than one event, less than five
	have := followed(ctx, t, connect(t, client.WithURL(url)), first)
	if !slices.Equal(want, have) || r.seen.Load() < 2 {
		t.Errorf("%v, want %v; %d connections", have, want, r.seen.Load())
	}
	var listed int
	for e, err := range c.Events.List(ctx, client.EventFilter{Cell: cell.Name}) {
		if err != nil || len(e.Data) == 0 {
			t.Fatal(e, err)
		}
		listed++
	}
	if listed < len(want) {
		t.Errorf("%d events are listed", listed)
	}
	for _, err := range c.Events.Follow(ctx, client.EventFilter{}, "nonsense") {
		if !client.HasCode(err, "usage") {
			t.Error(err)
		}
	}
}

func runTrue(ctx context.Context, t *testing.T, cell *client.Cell) {
	t.Helper()
	if _, err := cell.Run(ctx, client.Run{Command: []string{"true"}}); err != nil {
		t.Error(err)
	}
}

// firstEvent returns the id of an event that happened while it was waited for.
func firstEvent(ctx context.Context, t *testing.T, c *client.Client, cell *client.Cell) string {
	t.Helper()
	found := make(chan string, 1)
	go func() {
		for e, err := range c.Events.Follow(ctx, client.EventFilter{Cell: cell.Name}, "") {
			if err != nil {
				t.Error(err)
			}
			found <- e.ID
			return
		}
	}()
	for {
		select {
		case id := <-found:
			return id
		default:
			runTrue(ctx, t, cell)
		}
	}
}

// followed returns the ids of five events.
func followed(ctx context.Context, t *testing.T, c *client.Client, after string) []string {
	t.Helper()
	var ids []string
	for e, err := range c.Events.Follow(ctx, client.EventFilter{Cell: "resume"}, after) {
		if err != nil {
			t.Fatal(err)
		}
		if ids = append(ids, e.ID); len(ids) == 5 {
			break
		}
	}
	return ids
}

// TestAddresses checks which daemons a client talks to.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"unix:", "ftp://localhost", "http://example.com:80", "localhost:80", "http://u:p@localhost", "http://localhost/path", "https://"} {
		if _, err := client.New(client.WithURL(bad)); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
	for _, good := range []string{"unix:/tmp/x", "http://localhost:80", "http://127.0.0.1:80", "http://[::1]:80", "https://example.com"} {
		c, err := client.New(client.WithURL(good), client.WithToken("fct_x"))
		if err != nil {
			t.Errorf("%s: %v", good, err)
			continue
		}
		if c.Local() != (good == "unix:/tmp/x") {
			t.Errorf("%s: Local is %v", good, c.Local())
		}
	}
	c := connect(t, client.WithURL("https://example.com"), client.WithBinary(filepath.Join(t.TempDir(), "none")))
	if _, err := c.Cells.Create(t.Context(), client.CreateCell{ForkOf: "x"}); !client.HasCode(err, "usage") {
		t.Error(err)
	}
	if _, err := c.Cells.CreateFrom(t.Context(), ".", client.CreateCell{}); !client.HasCode(err, "no_local_binary") {
		t.Error(err)
	}
	if _, err := client.New(client.WithURL("https://example.com"), client.WithTokenFile("/does/not/exist")); err == nil {
		t.Error("a missing token file was ignored")
	}
}
