package native

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/driver"
)

// start makes the fixture's cell without a command.
func (f *fixture) start() *Cell {
	f.t.Helper()
	f.clearWork()
	f.t.Cleanup(f.clearWork)
	c, err := f.native.start(f.t.Context(), f.spec)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			f.t.Error(err)
		}
	})
	return c
}

// command is a shell command as the fixture's cell runs it.
func (f *fixture) command(script string) driver.Command {
	c := f.spec.Command
	c.Args = []string{"sh", "-c", script}
	return c
}

func TestExecSharesTheCell(t *testing.T) {
	f := newFixture(t, Options{})
	c := f.start()
	var out bytes.Buffer
	for _, script := range []string{"echo kept > file; echo $$ > /tmp/pid", "cat file; test -s /tmp/pid; hostname"} {
		o, err := c.Exec(t.Context(), f.command(script), driver.Stdio{Out: &out})
		if err != nil || o.Code != 0 {
			t.Fatalf("%s: %+v, %v, %s", script, o, err, out.String())
		}
	}
	if got := out.String(); got != "kept\ntestcell\n" {
		t.Errorf("output %q", got)
	}
}

func TestExecManyAtOnce(t *testing.T) {
	f := newFixture(t, Options{})
	c := f.start()
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			var out bytes.Buffer
			in := strings.Repeat(fmt.Sprintf("line of %d\n", i), 5000)
			cmd := f.command(fmt.Sprintf("cat; exit %d", i))
			o, err := c.Exec(t.Context(), cmd, driver.Stdio{In: strings.NewReader(in), Out: &out})
			if err != nil || o.Code != i || out.String() != in {
				t.Errorf("%d: %+v, %v, %d bytes", i, o, err, out.Len())
			}
		})
	}
	wg.Wait()
}

func TestExecFailuresLeaveTheCellAlone(t *testing.T) {
	f := newFixture(t, Options{})
	c := f.start()
	cmd := f.command("")
	cmd.Args = []string{"no-such-program"}
	var se *driver.StartError
	if _, err := c.Exec(t.Context(), cmd, driver.Stdio{}); !errors.As(err, &se) || se.Cause != driver.CauseNotFound {
		t.Errorf("missing program: %v", err)
	}
	cmd = f.command("true")
	cmd.Workdir = "/no/such/directory"
	if _, err := c.Exec(t.Context(), cmd, driver.Stdio{}); !errors.As(err, &se) || se.Cause != driver.CauseWorkdir {
		t.Errorf("missing directory: %v", err)
	}
	if _, err := c.Exec(t.Context(), driver.Command{Workdir: "/"}, driver.Stdio{}); !errors.Is(err, driver.ErrSpec) {
		t.Errorf("no command: %v", err)
	}
	if o, err := c.Exec(t.Context(), f.command("exit 5"), driver.Stdio{}); err != nil || o.Code != 5 {
		t.Errorf("after failures: %+v, %v", o, err)
	}
}

// TestExecEnds kills one command, by its time-out and by its context; what runs
// beside it lives on.
func TestExecEnds(t *testing.T) {
	f := newFixture(t, Options{})
	c := f.start()
	beside := make(chan driver.Outcome, 1)
	in, feed := io.Pipe()
	go func() {
		o, err := c.Exec(context.WithoutCancel(t.Context()), f.command("read line; test $line = go"), driver.Stdio{In: in})
		if err != nil {
			t.Error(err)
		}
		beside <- o
	}()
	cmd := f.command("sleep 1000")
	cmd.Timeout = 20 * time.Millisecond
	if o, err := c.Exec(t.Context(), cmd, driver.Stdio{}); err != nil || o.Code != 124 || !o.TimedOut {
		t.Errorf("time-out: %+v, %v", o, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cmd = f.command("sleep 1000")
	cmd.Executed = func(int) { cancel() }
	if o, err := c.Exec(ctx, cmd, driver.Stdio{}); err != nil || o.Code != 137 || !o.Killed {
		t.Errorf("cancelled: %+v, %v", o, err)
	}
	_, _ = io.WriteString(feed, "go\n")
	if o := <-beside; o.Code != 0 {
		t.Errorf("the command beside them: %+v", o)
	}
}

func TestExecSignal(t *testing.T) {
	f := newFixture(t, Options{})
	c := f.start()
	signals := make(chan os.Signal, 1)
	cmd := f.command(`trap "echo caught; exit 9" USR1; echo ready; while :; do sleep 0.01; done`)
	ready := &trigger{text: "ready", do: func() { signals <- syscall.SIGUSR1 }}
	o, err := c.Exec(t.Context(), cmd, driver.Stdio{Out: ready, Signals: signals})
	if err != nil || o.Code != 9 || !strings.Contains(ready.seen.String(), "caught") {
		t.Errorf("%+v, %v, %q", o, err, ready.seen.String())
	}
}

// TestExecLeavesSomethingBehind: a process that holds the streams does not keep
// the command from ending, and lives on.
func TestExecLeavesSomethingBehind(t *testing.T) {
	f := newFixture(t, Options{})
	c := f.start()
	var out bytes.Buffer
	if o, err := c.Exec(t.Context(), f.command("sleep 1000 & echo $!"), driver.Stdio{Out: &out}); err != nil || o.Code != 0 {
		t.Fatalf("%+v, %v", o, err)
	}
	if o, err := c.Exec(t.Context(), f.command("kill -0 "+out.String()), driver.Stdio{}); err != nil || o.Code != 0 {
		t.Errorf("what was left behind is gone: %+v, %v", o, err)
	}
}

func TestExecTerminal(t *testing.T) {
	f := newFixture(t, Options{})
	c := f.start()
	cmd := f.command("tty; stty size; stty size < /dev/tty")
	cmd.TTY, cmd.Size = true, driver.WindowSize{Rows: 33, Cols: 101}
	for range 2 {
		var out bytes.Buffer
		o, err := c.Exec(t.Context(), cmd, driver.Stdio{Out: &out})
		// The kernel gives a number away again when it comes to it.
		rest, is := strings.CutPrefix(out.String(), "/dev/pts/")
		number, sizes, _ := strings.Cut(rest, "\r\n")
		if _, bad := strconv.Atoi(number); err != nil || o.Code != 0 || !is || bad != nil || sizes != "33 101\r\n33 101\r\n" {
			t.Fatalf("%+v, %v, %q", o, err, out.String())
		}
	}
}

func TestExecAfterTheEnd(t *testing.T) {
	f := newFixture(t, Options{})
	c := f.start()
	running := make(chan error, 1)
	cmd := f.command("sleep 1000")
	cmd.Executed = func(int) { go func() { _ = c.Close() }() }
	go func() {
		o, err := c.Exec(context.WithoutCancel(t.Context()), cmd, driver.Stdio{})
		if !o.Killed || o.Code != 137 {
			t.Errorf("outcome %+v", o)
		}
		running <- err
	}()
	if err := <-running; err != nil {
		t.Error(err)
	}
	<-c.Gone()
	if _, err := c.Exec(t.Context(), f.command("true"), driver.Stdio{}); err == nil {
		t.Error("a command ran in a cell that has ended")
	}
}

// TestWarm runs one cell with a first process that waited for it and one
// without; one that nobody takes goes.
func TestWarm(t *testing.T) {
	f := newFixture(t, Options{})
	cool := f.native.Warm()
	f.native.Warm()() // there is one already
	pids := []int{}
	s := f.spec
	s.Args = []string{"true"}
	s.Started = func(r driver.Record) error { pids = append(pids, recorded(t, r).PID); return nil }
	for range 2 {
		if o, err := f.run(t.Context(), s, driver.Stdio{}); err != nil || o.Code != 0 {
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
	f.clearWork()
	spec := f.spec
	spec.Network = &driver.Network{Serve: func(c driver.Captured) (driver.Service, error) {
		closeAll(c.Sockets)
		return driver.Service{}, errors.New("not today")
	}}
	if c, err := f.native.Start(t.Context(), spec); err == nil {
		t.Errorf("started: %v", c.Close())
	} else if start, ok := errors.AsType[*driver.StartError](err); !ok || start.Cause != driver.CauseNetwork {
		t.Errorf("%v", err)
	}
	if o, err := f.start().Exec(t.Context(), f.command("true"), driver.Stdio{}); err != nil || o.Code != 0 {
		t.Errorf("%+v, %v", o, err)
	}
}
