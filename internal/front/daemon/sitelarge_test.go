//go:build browser

package daemon_test

import (
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
)

// Limits of one page. The log has what was measured.
const (
	// slowPage is of the processor time of the test's process, which is both the daemon
	// and the reader. The target is 300 ms; the limit leaves room for a slow machine.
	slowPage = 3 * time.Second
	// stuckPage is of the time by the clock, for a page that waits and does not work. Other
	// load may make every page many times slower.
	stuckPage = time.Minute
)

// TestBrowserLarge: pages about a lot answer soon, and do not keep it in memory.
// FORKCELL_TEST_RUNS sets the number of runs; 10,000 take minutes.
func TestBrowserLarge(t *testing.T) {
	d := newDaemon(t)
	d.cell("demo")
	run := d.ran("demo", `mkdir many; seq 1 50000 | (cd many; split -l 1 -a 5 -d - file); head -c 200000000 /dev/zero | tr '\0' 'x' > large.txt; seq 1 2000000 > lines.txt`)
	d.want(http.StatusCreated, nil, "POST", "/v1/cells/demo/fork", api.ForkBody{Name: "many", N: 1000})
	d.want(http.StatusCreated, nil, "POST", "/v1/cells", api.CreateCell{Name: "busy", Source: &api.Source{Empty: true}})
	manyRuns(t, d)
	r := newReviewer(d)
	for _, at := range []string{
		"/ui/", "/ui/?q=many-99", "/ui/?first=600", "/ui/cells/demo", "/ui/cells/busy", "/ui/cells/busy?before=500", "/ui/runs/" + run, "/ui/runs/" + run + "?first=49900",
		"/ui/runs/" + run + "/file?path=large.txt", "/ui/runs/" + run + "/file?path=many%2Ffile00007", "/ui/runs/" + run + "/output", "/ui/runs/" + run + "/receipt",
		"/ui/cells/demo/files", "/ui/cells/demo/files?path=many", "/ui/cells/demo/files?path=many&first=49800", "/ui/cells/demo/files?path=large.txt&view=file", "/ui/cells/demo/history?path=large.txt",
		"/ui/events?action=denied", "/ui/events?class=http_activity", "/ui/events", "/ui/events?cell=busy", "/ui/compare?cell=demo", "/ui/compare?cell=demo&from=base", "/ui/receipts", "/ui/policy",
	} {
		var first time.Duration
		best, wall, before := time.Hour, time.Hour, heap()
		for i := range 3 {
			start, begin := time.Now(), processorTime(t)
			r.get(http.StatusOK, at)
			took := processorTime(t) - begin
			wall = min(wall, time.Since(start))
			if best = min(best, took); i == 0 {
				first = took
			}
		}
		grown := int64(heap()) - int64(before)
		t.Logf("%-70s first %8s best %8s clock %8s %7d KiB page, heap %+d KiB", at, first.Round(time.Millisecond), best.Round(time.Millisecond), wall.Round(time.Millisecond), len(r.page)>>10, grown>>10)
		if best > slowPage || wall > stuckPage {
			t.Errorf("%s takes %s of the processor, %s by the clock", at, best, wall)
		}
		if grown > 32<<20 {
			t.Errorf("%s keeps %d MiB", at, grown>>20)
		}
	}
}

// processorTime returns what the process has used so far: a loaded machine does not change it.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// heap returns the bytes that are in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// manyRuns gives a cell a long history.
func manyRuns(t *testing.T, d *testDaemon) {
	t.Helper()
	n := 300
	if text := os.Getenv("FORKCELL_TEST_RUNS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	var runs sync.WaitGroup
	next := make(chan int)
	for range 2 {
		runs.Go(func() {
			for i := range next {
				d.want(http.StatusOK, nil, "POST", "/v1/cells/busy/runs", api.RunBody{Command: []string{"sh", "-c", "echo " + strconv.Itoa(i) + " > file"}, RunSettings: api.RunSettings{Wait: "5m"}})
			}
		})
	}
	begin := time.Now()
	for i := range n {
		next <- i
	}
	close(next)
	runs.Wait()
	t.Log(fmt.Sprint(n), "runs took", time.Since(begin).Round(time.Second))
}
