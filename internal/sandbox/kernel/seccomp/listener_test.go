package seccomp

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/syscalls"
)

// served is what a listener has seen by the time its filter has no process left.
type served struct {
	notices []Notice
	err     error
}

// serve answers in the background until the last process is gone.
func serve(fd int) <-chan served {
	done := make(chan served, 1)
	l, err := NewListener(fd)
	if err != nil {
		done <- served{err: err}
		return done
	}
	go func() {
		var s served
		s.err = l.Serve(func(n Notice) { s.notices = append(s.notices, n) })
		s.err = errors.Join(s.err, l.Close())
		done <- s
	}()
	return done
}

// TestNotices attempts every denied call with a listener: the answers are those
// of the plain filter, and the listener sees the rare ones, in order, no others.
func TestNotices(t *testing.T) {
	t.Parallel()
	arch := native(t)
	f := build(t, arch, Options{Notify: Denials})
	var done <-chan served
	var want []Notice
	onThread(t, func() error {
		fd, err := f.Install(0)
		if err != nil || fd < 0 {
			return fmt.Errorf("install: %d, %w", fd, err)
		}
		done = serve(fd)
		var wrong []error
		tid := unix.Gettid()
		for _, r := range syscalls.Rules() {
			if _, exists := syscalls.Number(arch, r.Name); !exists {
				continue
			}
			for _, args := range tries(r) {
				if r.Rare {
					want = append(want, Notice{PID: tid, Name: r.Name, Args: args, Denied: errno(r.Action)})
				}
				if got := attempt(arch, r.Name, args); got != errno(r.Action) {
					wrong = append(wrong, fmt.Errorf("%s(%#x): %w, want %s", r.Name, args, got, r.Action))
				}
			}
		}
		return errors.Join(wrong...)
	})
	got := wait(t, done)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
}

func wait(t *testing.T, done <-chan served) []Notice {
	t.Helper()
	select {
	case s := <-done:
		if s.err != nil {
			t.Error(s.err)
		}
		return s.notices
	case <-time.After(20 * time.Second):
		t.Fatal("the listener has not ended")
		return nil
	}
}

// TestNoticesOfPrograms: children inherit the filter, and their calls are seen.
func TestNoticesOfPrograms(t *testing.T) {
	t.Parallel()
	f := build(t, native(t), Options{Notify: Denials})
	var done <-chan served
	onThread(t, func() error {
		fd, err := f.Install(0)
		if err != nil || fd < 0 {
			return fmt.Errorf("install: %d, %w", fd, err)
		}
		done = serve(fd)
		var out bytes.Buffer
		cmd := exec.Command("/bin/sh", "-c", "unshare -U true; mount -t tmpfs x /; true")
		cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
		cmd.Stderr = &out
		if err := cmd.Run(); err != nil {
			return err
		}
		if n := strings.Count(out.String(), "not permitted"); n == 0 {
			return fmt.Errorf("the programs said %q", out.String())
		}
		return nil
	})
	seen := map[string]bool{}
	for _, n := range wait(t, done) {
		seen[n.Name] = true
		if n.PID == 0 || n.Denied != unix.EPERM {
			t.Errorf("notice %+v", n)
		}
	}
	if !seen["unshare"] {
		t.Errorf("seen: %v", seen)
	}
}

// TestCallerDies: a process that is killed while its call waits does not disturb
// the listener.
func TestCallerDies(t *testing.T) {
	t.Parallel()
	arch := native(t)
	f := build(t, arch, Options{Notify: Denials})
	var killed bool
	var names []string
	done := make(chan error, 1)
	onThread(t, func() error {
		fd, err := f.Install(0)
		if err != nil || fd < 0 {
			return fmt.Errorf("install: %d, %w", fd, err)
		}
		l, err := NewListener(fd)
		if err != nil {
			return err
		}
		own := unix.Gettid()
		go func() {
			err := l.Serve(func(n Notice) {
				names = append(names, n.Name)
				if n.PID != own {
					killed = unix.Kill(n.PID, unix.SIGKILL) == nil
					waitDead(n.PID)
				}
			})
			done <- errors.Join(err, l.Close())
		}()
		cmd := exec.Command("unshare", "-U", "true")
		err = cmd.Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Exited() {
			return fmt.Errorf("a killed process ended with %w", err)
		}
		if got := attempt(arch, "acct", [6]uint64{}); got != unix.EPERM {
			return fmt.Errorf("acct afterwards: %w", got)
		}
		return nil
	})
	select {
	case err := <-done:
		if err != nil || !killed {
			t.Errorf("killed %v, error %v", killed, err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the listener has not ended")
	}
	if diff := cmp.Diff([]string{"unshare", "acct"}, names); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
}

// waitDead waits until a process has ended, by a descriptor of it.
func waitDead(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
}

// TestClosedListener: without a listener the calls are still denied.
func TestClosedListener(t *testing.T) {
	t.Parallel()
	arch := native(t)
	f := build(t, arch, Options{Notify: Denials})
	onThread(t, func() error {
		fd, err := f.Install(0)
		if err != nil || fd < 0 {
			return fmt.Errorf("install: %d, %w", fd, err)
		}
		l, err := NewListener(fd)
		if err != nil {
			return err
		}
		done := make(chan error)
		go func() { done <- l.Serve(func(Notice) {}) }()
		if got := attempt(arch, "acct", [6]uint64{}); got != unix.EPERM {
			return fmt.Errorf("acct: %w", got)
		}
		if err := l.Close(); err != nil {
			return err
		}
		if err := <-done; err != nil {
			return fmt.Errorf("after Close: %w", err)
		}
		if got := attempt(arch, "acct", [6]uint64{}); got != unix.ENOSYS {
			return fmt.Errorf("acct without a listener: %w", got)
		}
		return nil
	})
}

// TestNoSecondListener: the kernel gives one listener to a thread; the second
// filter answers by itself.
func TestNoSecondListener(t *testing.T) {
	t.Parallel()
	arch := native(t)
	f := build(t, arch, Options{Notify: Denials})
	var done <-chan served
	onThread(t, func() error {
		fd, err := f.Install(0)
		if err != nil || fd < 0 {
			return fmt.Errorf("install: %d, %w", fd, err)
		}
		done = serve(fd)
		if fd, err := f.Install(0); err != nil || fd != -1 {
			return fmt.Errorf("second install: %d, %w", fd, err)
		}
		if got := attempt(arch, "acct", [6]uint64{}); got != unix.EPERM {
			return fmt.Errorf("acct: %w", got)
		}
		return nil
	})
	if got := wait(t, done); len(got) != 0 {
		t.Errorf("the first listener saw %v", got)
	}
}

func TestNewListenerRefusesOthers(t *testing.T) {
	t.Parallel()
	if _, err := NewListener(-1); err == nil {
		t.Error("no descriptor is taken for a listener")
	}
	file, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := NewListener(fd)
	if err != nil {
		return
	}
	if err := l.Serve(func(Notice) { t.Error("a notice from /dev/null") }); err == nil {
		t.Error("/dev/null is served")
	}
	_ = l.Close()
}

func FuzzHandedOver(f *testing.F) {
	f.Add(uint32(auditAMD64), int32(165))
	f.Add(uint32(auditARM64), int32(-1))
	f.Fuzz(func(t *testing.T, audit uint32, number int32) {
		name, denied := handedOver(audit, int(number))
		if name == "" || (denied != unix.EPERM && denied != unix.ENOSYS && (denied != 0 || name != watchedCall)) {
			t.Errorf("%#x %d: %q, %v", audit, number, name, denied)
		}
	})
}
