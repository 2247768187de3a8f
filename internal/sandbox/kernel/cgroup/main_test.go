package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if id := os.Getenv(envOwner); id != "" {
		os.Exit(own(id))
	}
	os.Exit(m.Run())
}

// envDelegated marks a run of these tests as an ordinary user, in a group that
// root gave away.
const envDelegated = "FORKCELL_TEST_DELEGATED"

const testUID = 65532

// variants are the ways in which this host can hold a cell.
func variants() map[string]Options {
	return map[string]Options{
		"as it is":   {},
		"without v2": {WithoutV2: true},
	}
}

// realHost detects the real host, which must be able to do what is needed.
func realHost(tb testing.TB, opt Options, need ...Control) *Host {
	tb.Helper()
	h, err := Detect(opt)
	if err != nil {
		tb.Fatal(err)
	}
	for _, c := range need {
		s := h.Can(c)
		if s.Status != Missing {
			continue
		}
		if os.Getenv(envDelegated) != "" {
			tb.Fatalf("in a delegated group: %+v", s)
		}
		tb.Skipf("%s (%s): root runs this test again as an ordinary user in a group of its own", s.Reason, s.Control)
	}
	return h
}

var serial atomic.Int64

// newGroup makes a group that is gone at the end of the test.
func newGroup(tb testing.TB, h *Host, l Limits) *Group {
	tb.Helper()
	g, err := h.Create(fmt.Sprintf("test-%d-%d", os.Getpid(), serial.Add(1)), l)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := errors.Join(g.Kill(), g.Remove()); err != nil {
			tb.Error(err)
		}
		for _, d := range g.Dirs() {
			if exists(d) {
				tb.Errorf("%s is still there", d)
			}
		}
	})
	return g
}

// process is a shell that waits for a line before it starts.
type process struct {
	*exec.Cmd
	in  io.WriteCloser
	out io.ReadCloser
}

// start runs a script in the group, from its first command on.
func start(tb testing.TB, g *Group, script string) *process {
	tb.Helper()
	cmd := exec.Command("/bin/sh", "-c", "read go\n"+script)
	cmd.Stderr = nil
	p := &process{Cmd: cmd}
	var err error
	if p.in, err = cmd.StdinPipe(); err != nil {
		tb.Fatal(err)
	}
	if p.out, err = cmd.StdoutPipe(); err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = g.Kill()
		_ = cmd.Wait()
	})
	if err := g.Add(cmd.Process.Pid); err != nil {
		tb.Fatal(err)
	}
	if _, err := io.WriteString(p.in, "go\n"); err != nil {
		tb.Fatal(err)
	}
	return p
}

// eventually waits until ok, for as long as a test may take.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := backoff(ctx, func() (bool, error) { return ok(), nil }); err != nil {
		tb.Fatalf("%s: %v", what, err)
	}
}

func usage(tb testing.TB, g *Group) Usage {
	tb.Helper()
	u, err := g.Usage()
	if err != nil {
		tb.Fatal(err)
	}
	return u
}

// watch gives the events of a group as they come, until the end of the test.
func watch(t *testing.T, g *Group) <-chan Event {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	events, done := make(chan Event, 1000), make(chan error, 1)
	go func() { done <- g.Watch(ctx, func(e Event) { events <- e }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("watch: %v", err)
		}
	})
	return events
}

// next waits for an event.
func next(t *testing.T, events <-chan Event) Event {
	t.Helper()
	select {
	case e := <-events:
		return e
	case <-time.After(30 * time.Second):
		t.Fatal("no event")
	}
	return Event{}
}
