package landlock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// onThread runs f on a separate thread, with no_new_privs, and destroys the
// thread afterwards, as only the thread of f is to be restricted.
func onThread(t testing.TB, f func() error) {
	t.Helper()
	err := <-startThread(func() error {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("no_new_privs: %w", err)
		}
		return f()
	})
	if err != nil {
		t.Error(err)
	}
}

func startThread(f func() error) <-chan error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			// The main thread would stay. It is held until another was found.
			defer runtime.UnlockOSThread()
			done <- <-startThread(f)
			return
		}
		done <- f() // never unlocked: the thread ends with the goroutine
	}()
	return done
}

// place is a directory with a writable and another side.
type place struct {
	t       testing.TB
	rw, out string
}

func newPlace(t testing.TB) place {
	t.Helper()
	if ABI() == 0 {
		t.Skip("this kernel has no Landlock")
	}
	dir := t.TempDir()
	p := place{t: t, rw: filepath.Join(dir, "rw"), out: filepath.Join(dir, "out")}
	for _, side := range []string{p.rw, p.out} {
		for _, sub := range []string{"a", "b"} {
			if err := os.MkdirAll(filepath.Join(side, sub), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(side, sub, "file"), []byte("text"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return p
}

// open returns a descriptor that stands for a path until the test ends.
func (p place) open(path string) int {
	p.t.Helper()
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		p.t.Fatalf("%s: %v", path, err)
	}
	p.t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// rules are those of a cell: all readable, one side writable, proc and dev.
func (p place) rules() Ruleset {
	return Ruleset{
		ReadOnly: []int{p.open("/")}, ReadWrite: []int{p.open(p.rw)},
		Existing: []int{p.open("/proc")}, Devices: []int{p.open("/dev")}, Scope: true,
	}
}

// step is one thing that a restricted program tries.
type step struct {
	what string
	do   func() error
	want error // nil: must succeed
}

func try(steps ...step) error {
	var wrong []error
	for _, s := range steps {
		if err := s.do(); !errors.Is(err, s.want) {
			wrong = append(wrong, fmt.Errorf("%s: %v, want %v", s.what, err, s.want)) //nolint:errorlint // text for people
		}
	}
	return errors.Join(wrong...)
}

func open(path string, flags int) func() error {
	return func() error {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o644)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	}
}
