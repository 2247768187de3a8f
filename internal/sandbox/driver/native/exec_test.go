package native

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// TestWarm runs one cell with a first process that waited for it and one
// without; one that nobody takes goes.
func TestWarm(t *testing.T) {
	f := newFixture(t, Options{})
	cool := f.native.Warm()
	f.native.Warm()() // there is one already
	pids := []int{}
	s := f.Spec
	s.Args = []string{"true"}
	s.Started = func(r driver.Record) error { pids = append(pids, recorded(t, r).PID); return nil }
	for range 2 {
		if o, err := f.Run(t.Context(), s, driver.Stdio{}); err != nil || o.Code != 0 {
			t.Fatalf("%+v, %v", o, err)
		}
	}
	cool()
	if len(pids) != 2 || pids[0] == pids[1] {
		t.Errorf("first processes %v", pids)
	}
	f.native.Warm()()
}

// TestStartAgain: a cell whose network could not be served leaves nothing mounted
// that would keep another from being started on the same directories.
func TestStartAgain(t *testing.T) {
	f := newFixture(t, Options{})
	f.ClearWork()
	spec := f.Spec
	spec.Network = &driver.Network{Serve: func(c driver.Captured) (func(), error) {
		c.Close()
		return nil, errors.New("not today")
	}}
	if c, err := f.native.Start(t.Context(), spec); err == nil {
		t.Errorf("started: %v", c.Close())
	} else if start, ok := errors.AsType[*driver.StartError](err); !ok || start.Cause != driver.CauseNetwork {
		t.Errorf("%v", err)
	}
	if o, err := f.Start().Exec(t.Context(), f.Command("true"), driver.Stdio{}); err != nil || o.Code != 0 {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestPool: each cell has a first process of its own that was started before it, also
// when some of those that wait were killed, and the others go at the end.
func TestPool(t *testing.T) {
	f := newFixture(t, Options{})
	const size = 3
	end, err := f.native.Keep(size)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	s := f.Spec
	s.Args = []string{"true"}
	s.Started = func(r driver.Record) error { seen[recorded(t, r).PID] = true; return nil }
	run := func() {
		t.Helper()
		if o, err := f.Run(t.Context(), s, driver.Stdio{}); err != nil || o.Code != 0 {
			t.Fatalf("%+v, %v", o, err)
		}
	}
	first := waiting(t, f.native)
	for range size {
		run()
	}
	for _, p := range first {
		if !seen[p.pid] {
			t.Errorf("process %d waited, and no cell took it", p.pid)
		}
	}
	f.native.pool.refill()
	for _, p := range waiting(t, f.native) {
		p.kill()
		<-p.gone
	}
	run()
	if len(seen) != size+1 {
		t.Errorf("%d processes for %d cells", len(seen), size+1)
	}
	f.native.pool.refill()
	last := waiting(t, f.native)
	if ready, kept := f.native.Ready(); ready != size || kept != size {
		t.Errorf("%d of %d are ready", ready, kept)
	}
	end()
	for _, p := range last {
		if err := unix.Kill(p.pid, 0); !errors.Is(err, unix.ESRCH) {
			t.Errorf("process %d is left: %v", p.pid, err)
		}
	}
	run()
}

// waiting returns the processes of the pool when they have started.
func waiting(t *testing.T, n *Driver) (list []*process) {
	t.Helper()
	n.pool.mu.Lock()
	defer n.pool.mu.Unlock()
	for _, w := range n.pool.waiting {
		s := <-w
		if s.err != nil {
			t.Fatal(s.err)
		}
		list = append(list, s.proc)
		w <- s
	}
	return list
}

// TestPoolFollowsMounts: processes that waited while the mounts of the host changed
// have the old ones, and no cell gets them.
func TestPoolFollowsMounts(t *testing.T) {
	const alone = "FORKCELL_TEST_MOUNTS"
	if os.Getenv(alone) == "" {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestPoolFollowsMounts$")
		cmd.Env = append(os.Environ(), alone+"=yes")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	var started atomic.Int32
	p := &pool{start: func() (*process, error) {
		started.Add(1)
		return nil, errors.New("started")
	}}
	end, err := p.keep(2)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	settled := func() []chan spawned {
		for _, w := range p.waiting {
			w <- <-w
		}
		return slices.Clone(p.waiting)
	}
	first := settled()
	if next := p.next(); next != first[0] {
		t.Error("nothing changed, and the first process was not taken")
	}
	p.refill()
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, 0) })
	if next := p.next(); next != nil {
		t.Error("the mounts changed, and a process that had waited was taken")
	}
	settled()
	if n := started.Load(); n != 5 {
		t.Errorf("%d processes were started, want 2, one more, and 2 again", n)
	}
	if next := p.next(); next == nil {
		t.Error("no process was started for the new mounts")
	}
}
