package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/native/cellinit"
	"github.com/forkcell/forkcell/internal/storage/mount"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

const (
	envRunner = "FORKCELL_TEST_RUNNER"
	// envRuns is for whoever wants more runs than a test has time for.
	envRuns     = "FORKCELL_TEST_RUNS"
	defaultRuns = 300
	raceRuns    = 10
)

// traces is what runs could leave behind.
type traces struct {
	Mounts, Descriptors, Children, Groups, Files []string
	Goroutines, Threads                          int
}

// hasMore reports whether there is something that was not there before.
func (tr traces) hasMore(before traces) bool {
	return tr.Threads > before.Threads || tr.Goroutines > before.Goroutines || len(tr.Mounts) > len(before.Mounts) ||
		len(tr.Descriptors) > len(before.Descriptors) || len(tr.Children) > len(before.Children) || len(tr.Groups) > len(before.Groups) || len(tr.Files) > len(before.Files)
}

func look(dir string) (tr traces, err error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return tr, err
	}
	tr.Mounts = strings.Split(string(mounts), "\n")
	for _, d := range []struct {
		dir string
		to  *[]string
	}{{"/proc/self/fd", &tr.Descriptors}, {dir, &tr.Files}} {
		err := filepath.WalkDir(d.dir, func(path string, _ os.DirEntry, err error) error {
			*d.to = append(*d.to, path)
			return err
		})
		if err != nil && d.dir == dir {
			return tr, err
		}
	}
	children, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		return tr, err
	}
	tr.Threads = len(children)
	for _, c := range children {
		text, _ := os.ReadFile(c)
		tr.Children = append(tr.Children, strings.Fields(string(text))...)
	}
	for _, pattern := range []string{"/sys/fs/cgroup/forkcell-", "/sys/fs/cgroup/*/forkcell-", "/sys/fs/cgroup/*/*/forkcell-", "/sys/fs/cgroup/*/*/*/forkcell-"} {
		found, _ := filepath.Glob(pattern + leftoverID() + "*")
		tr.Groups = append(tr.Groups, found...)
	}
	tr.Goroutines = runtime.NumGoroutine()
	return tr, nil
}

func leftoverID() string { return fmt.Sprintf("leftover-%d-", os.Getpid()) }

// manyRuns prints what there was before and after many runs.
func manyRuns(dir string) {
	err := func() error {
		runs, err := strconv.Atoi(os.Getenv(envRuns))
		if err != nil {
			return err
		}
		n := New(Options{})
		defer n.Warm()()
		const first = 5
		if err := runTrue(n, dir, first); err != nil {
			return err
		}
		before, err := look(dir)
		if err != nil {
			return err
		}
		if err := runTrue(n, dir, runs); err != nil {
			return err
		}
		// Threads and goroutines end a moment after what they did.
		after, err := look(dir)
		for limit := time.Now().Add(10 * time.Second); err == nil && after.hasMore(before) && time.Now().Before(limit); <-time.After(10 * time.Millisecond) {
			after, err = look(dir)
		}
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode([]traces{before, after})
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runTrue(n *Driver, dir string, times int) error {
	for i := range times {
		at := func(name string) string { return filepath.Join(dir, name) }
		for _, d := range []string{"base", "upper", "work", "tmp"} {
			if err := os.MkdirAll(at(d), 0o755); err != nil {
				return err
			}
		}
		s := driver.Spec{
			ID: leftoverID() + strconv.Itoa(i), Freezable: i%2 == 0, ReadOnly: []string{at("base")},
			Command: driver.Command{Args: []string{"true"}, Env: []string{"PATH=" + cellinit.DefaultPath}, Workdir: "/ws"},
			Mounts: mount.Set{
				Binds:    []mount.Bind{{Target: "/tmp", Source: at("tmp"), Owned: true}},
				Overlays: []mount.Overlay{{Target: "/ws", Lower: []string{at("base")}, Upper: at("upper"), Work: at("work")}},
			},
			Guard: driver.Guard{AllowDegraded: true, Denied: func(driver.Denial) {}},
		}
		if err := runOne(n, s, i%3 == 2); err != nil {
			return fmt.Errorf("run %d: %w", i, err)
		}
		// The kernel's own scratch directory is the workspace's to clear away.
		if err := removeWork(at("work")); err != nil {
			return err
		}
	}
	return nil
}

func runOne(n *Driver, s driver.Spec, cancelled bool) error {
	ctx := context.Background()
	begun := filepath.Join(s.Mounts.Overlays[0].Upper, "begun")
	if cancelled {
		ended := &endedContext{Context: ctx, file: begun}
		s.Args, s.Started, ctx = []string{"touch", "begun"}, ended.start, ended
	}
	out, err := n.Run(ctx, s, driver.Stdio{})
	switch {
	case cancelled && errors.Is(err, context.Canceled):
		return os.Remove(begun)
	case err == nil && out.Code != 0:
		err = fmt.Errorf("%+v", out)
	}
	return err
}

// endedContext is cancelled after the driver has looked at it once since the cell
// started. Nobody learns it before a file exists.
type endedContext struct {
	context.Context
	file    string
	started atomic.Bool
	looks   atomic.Int32
}

func (c *endedContext) start(driver.Record) error {
	c.started.Store(true)
	return nil
}

func (c *endedContext) Err() error {
	if !c.started.Load() || c.looks.Add(1) == 1 {
		return nil
	}
	for {
		if _, err := os.Stat(c.file); err == nil {
			return context.Canceled
		}
		runtime.Gosched()
	}
}

// TestLeavesNothing looks for what hundreds of runs in one process leave behind.
func TestLeavesNothing(t *testing.T) {
	t.Parallel()
	runs := os.Getenv(envRuns)
	if runs == "" {
		runs = strconv.Itoa(defaultRuns)
		if raceDetector {
			runs = strconv.Itoa(raceRuns)
		}
	}
	dir := t.TempDir()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{envRunner + "=" + dir, envRuns + "=" + runs}
	if os.Geteuid() == 0 {
		// Other tests mount and unmount meanwhile.
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var seen []traces
	if err := json.Unmarshal(out, &seen); err != nil || len(seen) != 2 {
		t.Fatalf("%v: %s", err, out)
	}
	before, after := seen[0], seen[1]
	// A busy machine makes Go start some more. What each run left would be hundreds.
	if diff := cmp.Diff(before.Threads, after.Threads); after.Threads > before.Threads+8 {
		t.Errorf("threads: %s", diff)
	}
	before.Threads, after.Threads = 0, 0
	if os.Geteuid() != 0 {
		before.Mounts, after.Mounts = nil, nil // an ordinary user cannot mount where others see it
	}
	for _, list := range []*[]string{&before.Mounts, &after.Mounts, &before.Children, &after.Children} {
		slices.Sort(*list)
	}
	if after.hasMore(before) {
		t.Errorf("after %s runs: %s", runs, cmp.Diff(before, after))
	}
	if len(after.Groups) > 0 || len(after.Children) > 0 {
		t.Errorf("left: groups %v, processes %v", after.Groups, after.Children)
	}
	if _, err := os.Stat(filepath.Join(dir, "base")); err != nil {
		t.Error(err)
	}
}

// A cell's first process shares our memory for a moment, in which it becomes
// another user. What the kernel does to the memory of such a process does not
// stay: who could debug us can still.
func TestMemoryStaysDumpable(t *testing.T) {
	t.Parallel()
	// In a process of its own: Go's library does the same to this one whenever a
	// test starts a program as somebody else, and leaves it so.
	const alone = "FORKCELL_TEST_DUMPABLE"
	if os.Getenv(alone) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMemoryStaysDumpable$")
		cmd.Env = append(os.Environ(), alone+"=yes")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	native := New(Options{})
	var runs sync.WaitGroup
	for range 8 {
		runs.Go(func() {
			_, err := native.Run(t.Context(), driver.Spec{Command: driver.Command{Args: []string{"/bin/true"}, Workdir: "/"}}, driver.Stdio{})
			if err != nil {
				t.Error(err)
			}
		})
	}
	runs.Wait()
	if got, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || got != 1 {
		t.Errorf("dumpable is %d, %v", got, err)
	}
}

// A process whose memory cannot be dumped, because it has served a network, starts
// further cells.
func TestHiddenProcessStartsCells(t *testing.T) {
	t.Parallel()
	const alone = "FORKCELL_TEST_HIDDEN"
	if os.Getenv(alone) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHiddenProcessStartsCells$")
		cmd.Env = append(os.Environ(), alone+"=yes")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	native := New(Options{})
	var runs sync.WaitGroup
	for range 4 {
		runs.Go(func() {
			for range 50 {
				got, err := native.Run(t.Context(), driver.Spec{Command: driver.Command{Args: []string{"/bin/sh", "-c", "exit 3"}, Workdir: "/"}}, driver.Stdio{})
				if err != nil || got.Code != 3 {
					t.Errorf("%+v, %v", got, err)
				}
			}
		})
	}
	runs.Wait()
	if got, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || got != 0 {
		t.Errorf("dumpable is %d, %v", got, err)
	}
}
