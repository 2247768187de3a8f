package clone_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/clone"
)

// program is a script that executes a program whose output is w.
func program(t *testing.T, w *os.File, args, env []string) *clone.Script {
	t.Helper()
	s := &clone.Script{}
	s.Do("output", unix.SYS_DUP3, w.Fd(), 1, 0)
	if err := s.Exec(args[0], args, env); err != nil {
		t.Fatal(err)
	}
	return s
}

// wait starts a script and returns how its process ended. The process is a child
// of the thread.
func wait(s *clone.Script, flags uint64) (unix.WaitStatus, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, pidfd, err := s.Start(flags)
	if err != nil {
		return 0, err
	}
	defer unix.Close(pidfd)
	return reap(pid)
}

func reap(pid int) (unix.WaitStatus, error) {
	var status unix.WaitStatus
	for {
		if _, err := unix.Wait4(pid, &status, unix.WALL, nil); !errors.Is(err, unix.EINTR) {
			return status, err
		}
	}
}

// shell runs a shell command and returns what it wrote and its exit code.
func shell(t *testing.T, command string, env ...string) (string, int) {
	t.Helper()
	return output(t, []string{"/bin/sh", "-c", command}, env)
}

func output(t *testing.T, args, env []string) (string, int) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s := program(t, w, args, env)
	status, err := wait(s, 0)
	_ = w.Close()
	if err != nil || s.Failure() != nil {
		t.Fatal(err, s.Failure())
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), status.ExitStatus()
}

func TestExec(t *testing.T) {
	t.Parallel()
	if got, code := shell(t, `echo "$A"; exit 3`, "A=some value"); got != "some value\n" || code != 3 {
		t.Errorf("%q, exit code %d", got, code)
	}
}

// The program gets the signals that its parent had, and the defaults for those
// that Go handles.
func TestSignals(t *testing.T) {
	t.Parallel()
	// Without a shell, which would clear its mask.
	got, _ := output(t, []string{"/bin/cat", "/proc/self/status"}, nil)
	for _, want := range []string{"SigBlk:\t0000000000000000\n", "SigCgt:\t0000000000000000\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}

func TestFailure(t *testing.T) {
	t.Parallel()
	s := &clone.Script{}
	nowhere, err := s.Bytes("/no/such/directory")
	if err != nil {
		t.Fatal(err)
	}
	s.Do("first", unix.SYS_GETPID)
	s.Do("go nowhere", unix.SYS_CHDIR, nowhere)
	if err := s.Exec("/bin/true", []string{"true"}, nil); err != nil {
		t.Fatal(err)
	}
	status, err := wait(s, 0)
	if err != nil || status.ExitStatus() != 127 {
		t.Errorf("%v, exit code %d", err, status.ExitStatus())
	}
	if err := s.Failure(); !errors.Is(err, unix.ENOENT) || !strings.HasPrefix(err.Error(), "go nowhere:") {
		t.Errorf("%v", err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	s := &clone.Script{}
	s.Do("nothing", unix.SYS_GETPID)
	// A new user namespace cannot share its parent's directories.
	if _, _, err := s.Start(unix.CLONE_NEWUSER | unix.CLONE_FS); !errors.Is(err, unix.EINVAL) {
		t.Errorf("%v", err)
	}
	if err := s.Exec("a\x00b", nil, nil); err == nil {
		t.Error("a name with a zero byte was taken")
	}
}

// A process in a new user namespace waits until its parent has given it a map.
func TestWaitsForItsMap(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	gate, open, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	s := &clone.Script{}
	s.Do("wait", unix.SYS_READ, gate.Fd(), clone.Point(s, [1]byte{}), 1)
	s.Do("output", unix.SYS_DUP3, w.Fd(), 1, 0)
	if err := s.Exec("/bin/sh", []string{"sh", "-c", "id -u"}, []string{"PATH=/usr/bin:/bin"}); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, pidfd, err := s.Start(unix.CLONE_NEWUSER)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	_ = w.Close()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/uid_map", pid), fmt.Appendf(nil, "77 %d 1", os.Geteuid()), 0); err != nil {
		t.Error(err)
	}
	if _, err := open.Write([]byte{1}); err != nil {
		t.Error(err)
	}
	_ = open.Close()
	if _, err := reap(pid); err != nil || s.Failure() != nil {
		t.Error(err, s.Failure())
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != "77\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// What the scripts point to outlives collections and the growth of stacks, and
// the processes disturb neither each other nor their parent.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 8 {
				want := fmt.Sprintf("%d-%d\n", i, j)
				if got, code := shell(t, `echo "$V"`, "V="+strings.TrimSpace(want)); got != want || code != 0 {
					t.Errorf("%q, %d; want %q", got, code, want)
				}
				grow(j * 100)
				runtime.GC()
			}
		})
	}
	wg.Wait()
}

func grow(depth int) int {
	var page [256]byte
	if depth == 0 {
		return 0
	}
	return grow(depth-1) + int(page[depth%256])
}
