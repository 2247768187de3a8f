package daemon_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/testkit/disktest"
)

// onSmallDisk runs a test with a daemon whose home is on a small file system.
func onSmallDisk(t *testing.T, test func(d *testDaemon)) {
	t.Helper()
	dir, err := os.MkdirTemp("", "fc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	at := disktest.Mount(t, dir)
	if at == "" {
		return
	}
	d := &testDaemon{TB: t, home: filepath.Join(at, "home"), source: filepath.Join(dir, "src")}
	d.write("hello.txt", "hello\n")
	d.start(api.ServeOptions{})
	test(d)
}

// TestFullDisk fills the disk while runs go. They are refused with 507, readers go on,
// and what was answered before and after is there.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	onSmallDisk(t, func(d *testDaemon) {
		const cells = 3
		var callers sync.WaitGroup
		var phase atomic.Int32 // 0: room, 1: full, 2: room again
		ran, refused, again := make(chan int, cells), make(chan int, cells), make(chan int, cells)
		answered := make([]answers, cells)
		for i := range cells {
			d.cell(fmt.Sprintf("c%d", i))
		}
		for i := range cells {
			callers.Go(func() { answered[i] = d.runsUntil(i, &phase, ran, refused, again) })
		}
		all := func(c chan int) {
			for range cells {
				select {
				case <-c:
				case <-time.After(2 * time.Minute):
					t.Error("no answer")
				}
			}
		}
		all(ran)
		remove := disktest.Fill(d, filepath.Dir(d.home))
		phase.Store(1)
		all(refused)
		for _, path := range []string{"/v1/cells", "/v1/cells/c0", "/v1/runs", "/v1/events?cell=c0", "/healthz"} {
			d.want(200, nil, "GET", path, nil)
		}
		remove()
		phase.Store(2)
		all(again)
		callers.Wait()
		for i, want := range answered {
			var out api.RunAnswer
			d.want(200, &out, "POST", fmt.Sprintf("/v1/cells/c%d/runs", i), api.RunBody{Command: []string{"cat", "done"}})
			got := strings.Fields(out.Stdout)
			lost := slices.DeleteFunc(slices.Clone(want.done), func(n string) bool { return slices.Contains(got, n) })
			unknown := slices.DeleteFunc(slices.Clone(got), func(n string) bool {
				return slices.Contains(want.done, n) || slices.Contains(want.full, n)
			})
			if len(lost)+len(unknown) > 0 {
				t.Errorf("c%d has %v; answered were %+v", i, got, want)
			}
		}
		d.verified()
		if left, err := os.ReadDir(filepath.Join(d.home, "pending")); err != nil || len(left) > 0 {
			t.Errorf("left over: %v, %v", left, err)
		}
	})
}

// answers are the numbers of runs: done were answered as succeeded, full with a full
// disk. One of the latter may have succeeded when only its record found no room; the
// next command on the cell finishes it.
type answers struct{ done, full []string }

// runsUntil runs in a cell until a run succeeds after the disk was full.
func (d *testDaemon) runsUntil(i int, phase *atomic.Int32, ran, refused, again chan<- int) (a answers) {
	told := map[int32]bool{}
	for n := 0; n < 10_000; n++ {
		at, number := phase.Load(), fmt.Sprint(n)
		var out api.RunAnswer
		r := d.send("POST", fmt.Sprintf("/v1/cells/c%d/runs", i), api.RunBody{Command: []string{"sh", "-c", "echo " + number + " >> done"}, RestoreOnFail: true})
		switch {
		case r.status == 200 && decodeInto(d, r.body, &out).Outcome == "succeeded":
			a.done = append(a.done, number)
			if at == 0 && !told[0] {
				ran <- i
			}
			if at == 2 {
				again <- i
				return a
			}
			told[0] = told[0] || at == 0
		case r.status == 507 && strings.Contains(string(r.body), string(api.CodeDiskFull)):
			a.full = append(a.full, number)
			if at == 1 && !told[1] {
				told[1] = true
				refused <- i
			}
		case r.status != 200: // a command that finds no room fails
			d.Errorf("c%d: %d %s", i, r.status, r.body)
			return a
		}
	}
	d.Errorf("c%d: no end", i)
	return a
}
