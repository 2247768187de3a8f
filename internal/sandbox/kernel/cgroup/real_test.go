package cgroup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	h := realHost(t, Options{}, Memory)
	g := newGroup(t, h, Limits{Memory: 32 << 20})
	events := watch(t, g)
	// tail keeps what it reads until the last line, which never comes.
	p := start(t, g, "exec tail /dev/zero")
	err := p.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("it ended with %v", err)
	}
	if e := next(t, events); e.Kind != OOMKill || e.New < 1 || e.Total != e.New {
		t.Errorf("event %+v", e)
	}
	u := usage(t, g)
	// Older kernels count a process twice that was chosen again while it died.
	if u.OOMKills < 1 || u.MemoryPeak < 16<<20 || u.MemoryPeak > 32<<20 {
		t.Errorf("usage %+v", u)
	}
	if u.PIDsHits != Unknown || u.Throttled != Unknown {
		t.Errorf("usage of limits that were not asked for: %+v", u)
	}
}

func TestPIDs(t *testing.T) {
	t.Parallel()
	h := realHost(t, Options{}, PIDs)
	g := newGroup(t, h, Limits{PIDs: 20})
	events := watch(t, g)
	// The shell gives up at the first process that it cannot start.
	p := start(t, g, "while :; do sleep 600 </dev/null >/dev/null 2>&1 & done")
	if err := p.Wait(); err == nil {
		t.Error("it ended well")
	}
	u := usage(t, g)
	if u.PIDsHits < 1 {
		t.Errorf("usage %+v", u)
	}
	pids, err := g.by[PIDs].pids()
	if err != nil || len(pids) < 10 || len(pids) > 20 {
		t.Errorf("%d processes, %v", len(pids), err)
	}
	total := int64(0)
	for total < u.PIDsHits {
		e := next(t, events)
		total += e.New
		if e.Kind != PIDsFull || e.Total != total {
			t.Fatalf("event %+v after %d", e, total)
		}
	}
}

func TestCPU(t *testing.T) {
	t.Parallel()
	h := realHost(t, Options{}, CPU)
	g := newGroup(t, h, Limits{CPUsMilli: 50})
	start(t, g, "while :; do :; done")
	eventually(t, "throttled", func() bool {
		u := usage(t, g)
		return u.Throttled >= 3 && u.ThrottledMicros > 0
	})
	if u := usage(t, g); u.CPUMicros == 0 {
		t.Errorf("usage %+v", u)
	}
}

// TestLimitStays tries to take the controller of processors away from a limited group, as
// a service manager does when none of its units needs it.
func TestLimitStays(t *testing.T) {
	t.Parallel()
	h := realHost(t, Options{}, CPU)
	g := newGroup(t, h, Limits{CPUsMilli: 50})
	d := g.by[CPU]
	if !d.v2 {
		t.Skip("version 1 takes no controller away")
	}
	start(t, g, "sleep 600")
	above := filepath.Dir(d.path)
	if err := os.WriteFile(above+"/cgroup.subtree_control", []byte("-cpu"), 0); !errors.Is(err, unix.EBUSY) {
		t.Errorf("the group above took it away: %v", err)
	}
	if text, err := d.read("cpu.max"); err != nil || text != "5000 100000\n" {
		t.Errorf("the limit is %q, %v", text, err)
	}
}

func TestFreeze(t *testing.T) {
	t.Parallel()
	for name, opt := range variants() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGroup(t, realHost(t, opt, Freezer), Limits{})
			p := start(t, g, "while :; do echo x; done & while :; do echo y; done")
			out := p.out.(*os.File)
			r := bufio.NewReaderSize(out, 1<<20)
			if _, err := r.ReadByte(); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if err := g.Freeze(t.Context()); err != nil {
					t.Fatal(err)
				}
				drain(t, out, r)
				// Nothing comes: a frozen process would have to move for that.
				_ = out.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
				if b, err := r.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatalf("a frozen process wrote %q, %v", b, err)
				}
				if err := g.Thaw(); err != nil {
					t.Fatal(err)
				}
				_ = out.SetReadDeadline(time.Now().Add(30 * time.Second))
				if _, err := r.ReadByte(); err != nil {
					t.Fatalf("after thaw: %v", err)
				}
			}
		})
	}
}

// drain reads what was written before.
func drain(t *testing.T, out *os.File, r *bufio.Reader) {
	t.Helper()
	raw, err := out.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = r.Discard(r.Buffered())
	buf := make([]byte, 1<<16)
	err = raw.Control(func(fd uintptr) {
		for {
			if n, err := unix.Read(int(fd), buf); n <= 0 || err != nil {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFreezeGivesUp(t *testing.T) {
	t.Parallel()
	g := newGroup(t, realHost(t, Options{}, Freezer), Limits{})
	p := start(t, g, "while :; do echo x; done")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	// The kernel may be faster than a context that has ended already.
	if err := g.Freeze(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	} else if err == nil {
		_ = g.Thaw()
	}
	if _, err := io.ReadFull(p.out, make([]byte, 1<<17)); err != nil {
		t.Errorf("it does not run on: %v", err)
	}
}

func TestKill(t *testing.T) {
	t.Parallel()
	for name, opt := range variants() {
		for _, frozen := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, frozen %v", name, frozen), func(t *testing.T) {
				t.Parallel()
				h := realHost(t, opt, Freezer, PIDs)
				g := newGroup(t, h, Limits{PIDs: 64})
				// Processes that leave their session and keep starting others.
				p := start(t, g, `trap "" TERM INT; for i in 1 2 3 4 5; do setsid sh -c 'echo up; while :; do sleep 0.01; done' & done; wait`)
				r := bufio.NewReader(p.out)
				for range 5 {
					if _, err := r.ReadString('\n'); err != nil {
						t.Fatal(err)
					}
				}
				if frozen {
					if err := g.Freeze(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if err := g.Kill(); err != nil {
					t.Fatal(err)
				}
				_ = p.Wait()
				for _, d := range g.dirs {
					if pids, err := d.pids(); err != nil || len(pids) != 0 {
						t.Errorf("%s: %v are left, %v", d.path, pids, err)
					}
				}
			})
		}
	}
}

// TestCreateAllOrNothing has the last file refuse its value.
func TestCreateAllOrNothing(t *testing.T) {
	t.Parallel()
	h := realHost(t, Options{}, Memory, CPU, PIDs)
	id := fmt.Sprintf("test-%d-nothing", os.Getpid())
	_, err := h.Create(id, Limits{Memory: 64 << 20, CPUsMilli: 500, PIDs: 1 << 40})
	if !errors.Is(err, unix.EINVAL) || !strings.Contains(err.Error(), id+"/pids.max") {
		t.Errorf("error %v", err)
	}
	for _, p := range h.places {
		if exists(p.base + "/" + prefix + id) {
			t.Errorf("%s: left behind", p.base)
		}
	}
}

func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	h := realHost(t, Options{}, PIDs, Freezer)
	a, b := newGroup(t, h, Limits{PIDs: 10}), newGroup(t, h, Limits{PIDs: 10})
	start(t, a, "while :; do :; done")
	pb := start(t, b, "while :; do echo x; done")
	if err := a.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(pb.out, make([]byte, 1<<17)); err != nil {
		t.Errorf("the other cell: %v", err)
	}
	if _, err := h.Create(b.ID(), Limits{PIDs: 1}); !errors.Is(err, errExists) {
		t.Errorf("the same id again: %v", err)
	}
	if pids, err := b.by[PIDs].pids(); err != nil || len(pids) == 0 {
		t.Errorf("the refused twin took the group along: %v, %v", pids, err)
	}
}

func TestManyLeaveNothing(t *testing.T) {
	h := realHost(t, Options{}, Memory, CPU, PIDs)
	count := func() (n int) {
		for _, p := range h.places {
			names, err := filepath.Glob(fmt.Sprintf("%s/%stest-%d-many*", p.base, prefix, os.Getpid()))
			if err != nil {
				t.Fatal(err)
			}
			n += len(names)
		}
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return n + len(fds)
	}
	before := count()
	for i := range 200 {
		g, err := h.Create(fmt.Sprintf("test-%d-many-%d", os.Getpid(), i), Limits{Memory: 64 << 20, CPUsMilli: 500, PIDs: 50})
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Remove(); err != nil {
			t.Fatal(err)
		}
	}
	if after := count(); after > before {
		t.Errorf("%d groups and descriptors before, %d after", before, after)
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	g := newGroup(t, realHost(t, Options{}, Freezer), Limits{})
	f, err := g.Open()
	if err != nil {
		t.Fatal(err)
	}
	if f == nil {
		t.Skip("this host has no version 2")
	}
	defer func() { _ = f.Close() }()
	cmd := exec.Command("/bin/cat", "/proc/self/cgroup")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd())}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), prefix+g.ID()) {
		t.Errorf("%s %v", out, err)
	}
	none := newGroup(t, realHost(t, Options{WithoutV2: true}, Freezer), Limits{})
	if f, err := none.Open(); f != nil || err != nil || none.Version() != "v1" {
		t.Errorf("version 1: %v %v %s", f, err, none.Version())
	}
}

func TestAddRefusesNobody(t *testing.T) {
	t.Parallel()
	g := newGroup(t, realHost(t, Options{}, Freezer), Limits{})
	for _, pid := range []int{0, -1} {
		if err := g.Add(pid); !errors.Is(err, unix.EINVAL) {
			t.Errorf("%d: %v", pid, err)
		}
	}
}
