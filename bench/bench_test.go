package main

import (
	"context"
	"errors"
	"flag"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func newSite(t *testing.T) (*site, reach) {
	t.Helper()
	s, err := serveHTTPS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.server.Close() })
	return s, reach{URL: "https://" + upstream, Dial: s.addr, CA: s.ca}
}

func TestClientMeasures(t *testing.T) {
	t.Parallel()
	s, where := newSite(t)
	if err := s.watch(func() (int, error) { return os.Getpid(), nil }); err != nil {
		t.Fatal(err)
	}
	r, err := where.measure(load{Kept: 20, Fresh: 3, Large: 3<<20 + 1, Bare: 3})
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != 20 || r.Bytes != 3<<20+1 || r.Kept <= 0 || r.Fresh <= 0 || r.Downloaded <= 0 || r.Bare <= 0 {
		t.Errorf("report %+v", r)
	}
	if used := s.between(); used.site <= 0 || used.watched <= 0 {
		t.Errorf("processor time between the marks: %+v", used)
	}
	if err := checkInspected(r); err == nil {
		t.Errorf("requests that nobody read count as inspected: issuer %q", r.Issuer)
	}
}

// A client that asks by address is what other proxies need.
func TestClientVerifiesAddress(t *testing.T) {
	t.Parallel()
	s, where := newSite(t)
	where.URL, where.Dial = "https://"+s.addr, ""
	if _, err := where.measure(load{Kept: 1}); err != nil {
		t.Error(err)
	}
	where.CA = ""
	if _, err := where.measure(load{Kept: 1}); err == nil {
		t.Error("the client trusts an upstream that nobody vouches for")
	}
}

func TestHeldConnections(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keepAlives bool
		held       int
	}{
		"kept open":                   {true, 50},
		"closed after the first time": {false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, where := newSite(t)
			s.server.SetKeepAlivesEnabled(c.keepAlives)
			r, err := where.measure(load{Held: 50})
			if err != nil {
				t.Fatal(err)
			}
			if r.Held.Asked != 50 || r.Held.Open != 50 || r.Held.Held != c.held {
				t.Errorf("%+v, want 50 asked, 50 open, %d held", r.Held, c.held)
			}
			if (r.Held.Problem == "") != c.keepAlives {
				t.Errorf("problem %q", r.Held.Problem)
			}
			if got := heldRow(r.Held, time.Second, time.Second).verdict; got != verdict(c.keepAlives) {
				t.Errorf("verdict %q", got)
			}
		})
	}
}

func TestSiteRefusesOtherPaths(t *testing.T) {
	t.Parallel()
	_, where := newSite(t)
	transport, err := where.transport()
	if err != nil {
		t.Fatal(err)
	}
	c := &session{client: &http.Client{Transport: transport}, url: where.URL}
	if _, _, err := c.get("x"); err == nil {
		t.Error("a path that is no number was answered")
	}
}

func TestArgumentsArrive(t *testing.T) {
	t.Parallel()
	wantLoad := load{Kept: 1, Fresh: 2, Large: 1 << 40, Held: 4}
	wantReach := reach{URL: "https://127.0.0.1:1", Dial: "127.0.0.1:2", CA: "/a b", Proxy: "env"}
	var gotLoad load
	var gotReach reach
	f := flag.NewFlagSet("", flag.ContinueOnError)
	gotLoad.define(f)
	gotReach.define(f)
	if err := f.Parse(append(wantLoad.args(), wantReach.args()...)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(wantLoad, gotLoad); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(wantReach, gotReach); d != "" {
		t.Error(d)
	}
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = in.Close()
		_ = cmd.Wait()
	}()
	list, err := children(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(list, cmd.Process.Pid) {
		t.Errorf("children %v, want %d among them", list, cmd.Process.Pid)
	}
	named, err := treeTime(os.Getpid(), os.Getpid(), cmd.Process.Pid)
	after, failed := treeTime(os.Getpid())
	if err := errors.Join(err, failed); err != nil || named <= 0 || named > after {
		t.Errorf("%v was spent if a process is named twice, and %v afterwards: %v", named, after, err)
	}
	// The kernel counts resident pages for each processor, and adds them up now and then.
	// Besides, this process grows while other tests run.
	const inexact = 16 << 20
	for _, pid := range []int{os.Getpid(), cmd.Process.Pid} {
		var m memory
		if err := m.add(pid); err != nil || m.hidden || m.proportional <= 0 || m.proportional > m.resident+inexact {
			t.Errorf("memory of %d: %+v, %v", pid, m, err)
		}
		if d, err := processorTime(pid); d <= 0 || err != nil {
			t.Errorf("processor time of %d: %v, %v", pid, d, err)
		}
	}
}

func TestReachableGivesUp(t *testing.T) {
	t.Parallel()
	addr, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := reachable(ctx, addr); err == nil {
		t.Error("nothing listens, and it is reachable")
	}
}

func TestShow(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0:                        "0 µs",
		250 * time.Microsecond:   "250 µs",
		-250 * time.Microsecond:  "-250 µs",
		-1500 * time.Microsecond: "-1.50 ms",
		1500 * time.Microsecond:  "1.50 ms",
		15 * time.Millisecond:    "15.0 ms",
		150 * time.Millisecond:   "150 ms",
		1500 * time.Millisecond:  "1.50 s",
	} {
		if got := show(d); got != want {
			t.Errorf("show(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	if got := median([]int64{5, -3, 1}); got != 1 {
		t.Errorf("of three: %d", got)
	}
	if got := median([]float64{4, 1, 2, 3}); got != 2.5 {
		t.Errorf("of four: %v", got)
	}
	if got := median[time.Duration](nil); got != 0 {
		t.Errorf("of none: %v", got)
	}
}
