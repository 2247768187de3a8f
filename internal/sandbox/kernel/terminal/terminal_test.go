package terminal_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/terminal"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/terminal/terminaltest"
)

// master gives what a terminal's master could, one answer to each read.
type master []any

func (m *master) Read(p []byte) (int, error) {
	if len(*m) == 0 {
		return 0, errors.New("a read after the end")
	}
	next := (*m)[0]
	*m = (*m)[1:]
	if err, ok := next.(error); ok {
		return 0, err
	}
	return copy(p, next.(string)), nil
}

// TestOutput: one EIO is not the end if the next read returns something.
func TestOutput(t *testing.T) {
	t.Parallel()
	eio := &os.PathError{Op: "read", Path: "master", Err: unix.EIO}
	for name, c := range map[string]struct {
		from master
		want string
		err  error
	}{
		"nothing":         {from: master{eio, eio}},
		"output":          {from: master{"one ", "two", eio, eio}, want: "one two"},
		"last moment":     {from: master{"one ", eio, "two", eio, eio}, want: "one two"},
		"only that":       {from: master{eio, "two", eio, eio}, want: "two"},
		"opened again":    {from: master{eio, "two ", eio, "three", eio, eio}, want: "two three"},
		"limit":           {from: master{"one", os.ErrDeadlineExceeded}, want: "one", err: os.ErrDeadlineExceeded},
		"limit at an end": {from: master{"one", eio, os.ErrDeadlineExceeded}, want: "one", err: os.ErrDeadlineExceeded},
		"no terminal":     {from: master{"one", io.EOF}, want: "one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := io.ReadAll(terminal.Output(&c.from))
			if string(got) != c.want || !errors.Is(err, c.err) {
				t.Errorf("%q, %v; want %q, %v", got, err, c.want, c.err)
			}
			if len(c.from) != 0 {
				t.Errorf("not read: %v", c.from)
			}
		})
	}
}

// TestOutputWithData: a failure that comes with output does not hide it.
func TestOutputWithData(t *testing.T) {
	t.Parallel()
	got, err := io.ReadAll(terminal.Output(iotest.DataErrReader(strings.NewReader("all"))))
	if string(got) != "all" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestLastOutput reads what was written just before the last user closed a terminal. The
// early EIO is rare: TestOutput shows what happens then.
func TestLastOutput(t *testing.T) {
	t.Parallel()
	for i := range 2000 {
		master, slave, err := terminaltest.Open()
		if err != nil {
			t.Fatal(err)
		}
		written := make(chan error, 1)
		go func() {
			var failed error
			for _, c := range []byte("last") {
				_, err := slave.Write([]byte{c})
				failed = errors.Join(failed, err)
			}
			written <- errors.Join(failed, slave.Close())
		}()
		got, err := io.ReadAll(terminal.Output(master))
		if err := errors.Join(err, <-written, master.Close()); err != nil || string(got) != "last" {
			t.Fatalf("terminal %d: %q, %v", i, got, err)
		}
	}
}
