package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

func testExecSharesTheCell(t *testing.T, f *Fixture) {
	c := f.Start()
	var out bytes.Buffer
	for _, script := range []string{"echo kept > file; echo $$ > " + f.SharedInside + "/pid", "cat file; test -s " + f.SharedInside + "/pid"} {
		o, err := c.Exec(t.Context(), f.Command(script), driver.Stdio{Out: &out})
		if err != nil || o.Code != 0 {
			t.Fatalf("%s: %+v, %v, %s", script, o, err, out.String())
		}
	}
	if got := out.String(); got != "kept\n" {
		t.Errorf("output %q", got)
	}
}

func testExecManyAtOnce(t *testing.T, f *Fixture) {
	c := f.Start()
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			var out bytes.Buffer
			in := strings.Repeat(fmt.Sprintf("line of %d\n", i), 5000)
			cmd := f.Command(fmt.Sprintf("cat; exit %d", i))
			o, err := c.Exec(t.Context(), cmd, driver.Stdio{In: strings.NewReader(in), Out: &out})
			if err != nil || o.Code != i || out.String() != in {
				t.Errorf("%d: %+v, %v, %d bytes", i, o, err, out.Len())
			}
		})
	}
	wg.Wait()
}

func testExecFailuresLeaveTheCellAlone(t *testing.T, f *Fixture) {
	c := f.Start()
	cmd := f.Command("")
	cmd.Args = []string{"no-such-program"}
	var se *driver.StartError
	if _, err := c.Exec(t.Context(), cmd, driver.Stdio{}); !errors.As(err, &se) || se.Cause != driver.CauseNotFound {
		t.Errorf("missing program: %v", err)
	}
	cmd = f.Command("true")
	cmd.Workdir = "/no/such/directory"
	if _, err := c.Exec(t.Context(), cmd, driver.Stdio{}); !errors.As(err, &se) || se.Cause != driver.CauseWorkdir {
		t.Errorf("missing directory: %v", err)
	}
	if _, err := c.Exec(t.Context(), driver.Command{Workdir: "/"}, driver.Stdio{}); !errors.Is(err, driver.ErrSpec) {
		t.Errorf("no command: %v", err)
	}
	if o, err := c.Exec(t.Context(), f.Command("exit 5"), driver.Stdio{}); err != nil || o.Code != 5 {
		t.Errorf("after failures: %+v, %v", o, err)
	}
}

// testExecEnds kills one command, by its time-out and by its context; what runs
// beside it lives on.
func testExecEnds(t *testing.T, f *Fixture) {
	c := f.Start()
	beside := make(chan driver.Outcome, 1)
	in, feed := io.Pipe()
	go func() {
		o, err := c.Exec(context.WithoutCancel(t.Context()), f.Command("read line; test $line = go"), driver.Stdio{In: in})
		if err != nil {
			t.Error(err)
		}
		beside <- o
	}()
	cmd := f.Command("sleep 1000")
	cmd.Timeout = 20 * time.Millisecond
	if o, err := c.Exec(t.Context(), cmd, driver.Stdio{}); err != nil || o.Code != 124 || !o.TimedOut {
		t.Errorf("time-out: %+v, %v", o, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cmd = f.Command("sleep 1000")
	cmd.Executed = func(int) { cancel() }
	if o, err := c.Exec(ctx, cmd, driver.Stdio{}); err != nil || o.Code != 137 || !o.Killed {
		t.Errorf("cancelled: %+v, %v", o, err)
	}
	_, _ = io.WriteString(feed, "go\n")
	if o := <-beside; o.Code != 0 {
		t.Errorf("the command beside them: %+v", o)
	}
}

func testExecSignal(t *testing.T, f *Fixture) {
	c := f.Start()
	signals := make(chan os.Signal, 1)
	cmd := f.Command(`trap "echo caught; exit 9" USR1; echo ready; while :; do sleep 0.01; done`)
	ready := &trigger{text: "ready", do: func() { signals <- syscall.SIGUSR1 }}
	o, err := c.Exec(t.Context(), cmd, driver.Stdio{Out: ready, Signals: signals})
	if err != nil || o.Code != 9 || !strings.Contains(ready.seen.String(), "caught") {
		t.Errorf("%+v, %v, %q", o, err, ready.seen.String())
	}
}

// testExecLeavesSomethingBehind: a process that holds the streams does not keep
// the command from ending, and lives on.
func testExecLeavesSomethingBehind(t *testing.T, f *Fixture) {
	c := f.Start()
	var out bytes.Buffer
	if o, err := c.Exec(t.Context(), f.Command("sleep 1000 & echo $!"), driver.Stdio{Out: &out}); err != nil || o.Code != 0 {
		t.Fatalf("%+v, %v", o, err)
	}
	if o, err := c.Exec(t.Context(), f.Command("kill -0 "+out.String()), driver.Stdio{}); err != nil || o.Code != 0 {
		t.Errorf("what was left behind is gone: %+v, %v", o, err)
	}
}

// slowCaller takes the first piece of output only after a while, and counts.
type slowCaller struct {
	wait time.Duration
	got  int
}

func (s *slowCaller) Write(p []byte) (int, error) {
	<-time.After(s.wait)
	s.wait = 0
	s.got += len(p)
	return len(p), nil
}

// testExecSlowCaller: what a command wrote before it ended is not lost when the caller
// takes it late, also while a process that was left behind holds the streams.
func testExecSlowCaller(t *testing.T, f *Fixture) {
	c := f.Start()
	for _, size := range []int{60_000, 300_000} {
		for _, left := range []string{"", "sleep 1000 & "} {
			out := &slowCaller{wait: time.Second}
			o, err := c.Exec(t.Context(), f.Command(fmt.Sprintf("%shead -c %d /dev/zero", left, size)), driver.Stdio{Out: out})
			if err != nil || o.Code != 0 || out.got != size {
				t.Errorf("%q: %+v, %v, %d bytes of %d", left, o, err, out.got, size)
			}
		}
	}
}

func testExecAfterTheEnd(t *testing.T, f *Fixture) {
	c := f.Start()
	running := make(chan error, 1)
	cmd := f.Command("sleep 1000")
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
	if _, err := c.Exec(t.Context(), f.Command("true"), driver.Stdio{}); !errors.Is(err, driver.ErrEnded) {
		t.Errorf("a command in a cell that has ended: %v", err)
	}
}

func testProcesses(t *testing.T, f *Fixture) {
	c := f.Start()
	var out bytes.Buffer
	if _, err := c.Exec(t.Context(), f.Command("echo $$; (sleep 1000 >/dev/null 2>&1 &)"), driver.Stdio{Out: &out}); err != nil {
		t.Fatal(err)
	}
	find := func() (p driver.Process) {
		list, err := c.Processes()
		i := slices.IndexFunc(list, func(p driver.Process) bool { return strings.Join(p.Args, " ") == "sleep 1000" })
		if err != nil || i < 0 {
			t.Fatalf("%+v, %v", list, err)
		}
		return list[i]
	}
	p := find()
	// What a program that has just been executed uses is counted a little later.
	for deadline := time.Now().Add(20 * time.Second); p.RSS == 0 && time.Now().Before(deadline); {
		p = find()
	}
	if fmt.Sprint(p.SID) != strings.TrimSpace(out.String()) || p.UID != f.Driver.User() {
		t.Errorf("%+v, session %s", p, out.String())
	}
	if age := time.Since(p.Started); age < -time.Second || age > time.Minute || p.RSS <= 0 || p.State == "" {
		t.Errorf("%+v", p)
	}
}

// testTerminate asks all, also those that no command waits for, and waits for
// those that answer.
func testTerminate(t *testing.T, f *Fixture) {
	c := f.Start()
	script := "(sleep 1000 >/dev/null 2>&1 &); (sh -c 'kill -STOP $$; :' >/dev/null 2>&1 &)"
	if _, err := c.Exec(t.Context(), f.Command(script), driver.Stdio{}); err != nil {
		t.Fatal(err)
	}
	if all, err := c.Terminate(time.Minute); err != nil || !all {
		t.Fatal(all, err)
	}
	// One that has ended may wait to be reaped for a moment.
	list, err := c.Processes()
	list = slices.DeleteFunc(list, func(p driver.Process) bool { return p.State == "Z" || !slices.Contains(p.Args, "sleep") })
	if err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	deaf := &trigger{text: "ready", do: func() {}}
	ended := make(chan driver.Outcome, 1)
	ready := make(chan struct{})
	deaf.do = func() { close(ready) }
	go func() {
		o, err := c.Exec(context.WithoutCancel(t.Context()), f.Command("trap '' TERM; echo ready; while :; do sleep 1000; done"), driver.Stdio{Out: deaf})
		if err != nil {
			t.Error(err)
		}
		ended <- o
	}()
	<-ready
	if all, err := c.Terminate(20 * time.Millisecond); err != nil || all {
		t.Errorf("the deaf one ended: %v, %v", all, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if o := <-ended; !o.Killed {
		t.Errorf("%+v", o)
	}
}

func testFreezeOfACellThatCannotBe(t *testing.T, f *Fixture) {
	if err := f.Start().Freeze(t.Context()); !errors.As(err, new(*driver.UnenforceableError)) {
		t.Error(err)
	}
}

// testFreeze: a frozen cell stands still as a whole, and goes on afterwards.
func testFreeze(t *testing.T, f *Fixture) {
	f.Spec.ID, f.Spec.Freezable = fmt.Sprintf("freeze-%d", os.Getpid()), true
	c := f.Start()
	if err := c.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := c.Exec(context.WithoutCancel(t.Context()), f.Command("true"), driver.Stdio{})
		done <- err
	}()
	if err := c.Thaw(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
