package native

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/terminal"
)

// slowCaller takes the first piece of output only after a while, and counts.
type slowCaller struct {
	wait time.Duration
	got  int
}

func (s *slowCaller) Write(p []byte) (int, error) {
	<-time.After(s.wait)
	s.wait = 0
	s.got += bytes.Count(p, []byte("x")) // a terminal also shows what is typed
	return len(p), nil
}

// TestSlowCaller: what a command wrote before it ended is not lost when the caller takes
// it after the limit for processes that hold its streams.
func TestSlowCaller(t *testing.T) {
	t.Parallel()
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	master, slave, err := terminal.Open()
	if err != nil {
		t.Fatal(err)
	}
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		fds  []int
		left int // the end that stays open
		size int
		tty  bool
	}{
		"pipe":     {[]int{pipe[0], null}, pipe[1], 60_000, false},
		"terminal": {[]int{master}, slave, 6000, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Cleanup(func() { _ = unix.Close(c.left) })
			if n, err := unix.Write(c.left, bytes.Repeat([]byte("x"), c.size)); n != c.size || err != nil {
				t.Fatal(n, err)
			}
			caller := &slowCaller{wait: 100 * time.Millisecond}
			connect(c.fds, driver.Stdio{Out: caller}, c.tty).finish(time.Millisecond)
			if caller.got != c.size {
				t.Errorf("%d bytes of %d", caller.got, c.size)
			}
		})
	}
}

// TestWritesOn: output has an end although a process that was left behind writes on.
func TestWritesOn(t *testing.T) {
	t.Parallel()
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := unix.Write(pipe[1], make([]byte, 4096)); err != nil {
				ended <- err
				return
			}
		}
	}()
	connect([]int{pipe[0], null}, driver.Stdio{}, false).finish(time.Millisecond)
	if err := <-ended; !errors.Is(err, unix.EPIPE) {
		t.Error(err)
	}
	_ = unix.Close(pipe[1])
}
