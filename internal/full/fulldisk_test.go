package full_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
)

// smallDisk is set in a process that has a small file system at this path.
const smallDisk = "FORKCELL_TEST_DISK"

// onSmallDisk runs a test with a daemon whose home is on a small file system. The test
// of an ordinary user runs in another process, in a user namespace in which it was
// mounted.
func onSmallDisk(t *testing.T, test func(d *daemon)) {
	t.Helper()
	dir, err := os.MkdirTemp("", "fc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	at := os.Getenv(smallDisk)
	if at == "" {
		at = filepath.Join(dir, "disk")
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() != 0 {
			asUserOnDisk(t, at)
			return
		}
		if err := unix.Mount("tmpfs", at, "tmpfs", 0, "size=96m"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	}
	d := &daemon{TB: t, home: filepath.Join(at, "home"), source: filepath.Join(dir, "src")}
	d.write("hello.txt", "hello\n")
	d.start(api.ServeOptions{})
	test(d)
}

// asUserOnDisk runs the present test again in a process with a small file system.
func asUserOnDisk(t *testing.T, at string) {
	t.Helper()
	const script = `mount -t tmpfs -o size=96m,mode=700 disk "$0" && exec setpriv --ambient-caps -all --inh-caps -all "$@"`
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--map-current-user", "--mount", "--keep-caps", "sh", "-c", script, at,
		self, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), smallDisk+"="+at)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out)
	}
}

// filler leaves no room on the disk of the home until it is removed.
func (d *daemon) filler() (remove func()) {
	d.Helper()
	f, err := os.Create(filepath.Join(filepath.Dir(d.home), "filler"))
	if err != nil {
		d.Fatal(err)
	}
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, unix.ENOSPC) {
			size /= 2
		} else if err != nil {
			d.Fatal(err)
		}
	}
	return func() {
		if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
			d.Fatal(err)
		}
	}
}

// TestFullDisk fills the disk while runs go. They are refused with 507, readers go on,
// and what was answered before and after is there.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	onSmallDisk(t, func(d *daemon) {
		const cells = 3
		var callers sync.WaitGroup
		var phase atomic.Int32 // 0: room, 1: full, 2: room again
		ran, refused, again := make(chan int, cells), make(chan int, cells), make(chan int, cells)
		answered := make([][]string, cells)
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
		remove := d.filler()
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
			if got := strings.Fields(out.Stdout); strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("c%d has %v, and %v were answered", i, got, want)
			}
		}
		d.verified()
		if left, err := os.ReadDir(filepath.Join(d.home, "pending")); err != nil || len(left) > 0 {
			t.Errorf("left over: %v, %v", left, err)
		}
	})
}

// runsUntil runs in a cell until a run succeeds after the disk was full, and returns
// the numbers of those that were answered as succeeded.
func (d *daemon) runsUntil(i int, phase *atomic.Int32, ran, refused, again chan<- int) (done []string) {
	told := map[int32]bool{}
	for n := 0; n < 10_000; n++ {
		at, number := phase.Load(), fmt.Sprint(n)
		var out api.RunAnswer
		r := d.send("POST", fmt.Sprintf("/v1/cells/c%d/runs", i), api.RunBody{Command: []string{"sh", "-c", "echo " + number + " >> done"}, RestoreOnFail: true})
		switch {
		case r.status == 200 && decodeInto(d, r.body, &out).Outcome == "succeeded":
			done = append(done, number)
			if at == 0 && !told[0] {
				ran <- i
			}
			if at == 2 {
				again <- i
				return done
			}
			told[0] = told[0] || at == 0
		case r.status == 507 && strings.Contains(string(r.body), string(api.CodeDiskFull)):
			if at == 1 && !told[1] {
				told[1] = true
				refused <- i
			}
		case r.status != 200: // a command that finds no room fails
			d.Errorf("c%d: %d %s", i, r.status, r.body)
			return done
		}
	}
	d.Errorf("c%d: no end", i)
	return done
}
