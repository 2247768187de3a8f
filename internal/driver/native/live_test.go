package native

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/cgroup"

	"github.com/forkcell/forkcell/internal/driver"
)

func TestProcessesOfACell(t *testing.T) {
	f := newFixture(t, Options{})
	c := f.start()
	var out bytes.Buffer
	if _, err := c.Exec(t.Context(), f.command("echo $$; (sleep 1000 >/dev/null 2>&1 &)"), driver.Stdio{Out: &out}); err != nil {
		t.Fatal(err)
	}
	list, err := c.Processes()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].PID != 1 || list[0].PPID != 0 || list[0].HostPID != c.PID() {
		t.Fatalf("%+v", list)
	}
	p := list[1]
	// What a program that has just been executed uses is counted a little later.
	for deadline := time.Now().Add(20 * time.Second); p.RSS == 0 && time.Now().Before(deadline); {
		if list, err = c.Processes(); err != nil || len(list) != 2 {
			t.Fatalf("%+v, %v", list, err)
		}
		p = list[1]
	}
	if p.PPID != 1 || fmt.Sprint(p.SID) != strings.TrimSpace(out.String()) || p.UID != f.native.User() || strings.Join(p.Args, " ") != "sleep 1000" {
		t.Errorf("%+v, session %s", p, out.String())
	}
	if age := time.Since(p.Started); age < -time.Second || age > time.Minute || p.RSS <= 0 || p.State == "" {
		t.Errorf("%+v", p)
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	const fields = " S 7 1 1 0 -1 4194560 1 2 3 4 150 50 5 6 20 0 1 0 4711 8192 3"
	p, err := parseStat(9, []byte("9 (a) b) (c)"+fields))
	if err != nil {
		t.Fatal(err)
	}
	if p.parent != 7 || p.ticks != 4711 || p.CPU != 2*time.Second || p.RSS != 3*int64(os.Getpagesize()) || p.Args[0] != "[a) b) (c]" {
		t.Errorf("%+v", p)
	}
	for _, bad := range []string{"", "9", "9 (x", "9 (x)", ")(", "9 (x) S 1"} {
		if p, err := parseStat(9, []byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, p)
		}
	}
}

// TestTerminate asks all, also those that no command waits for, and waits for
// those that answer.
func TestTerminate(t *testing.T) {
	f := newFixture(t, Options{})
	c := f.start()
	script := "(sleep 1000 >/dev/null 2>&1 &); (sh -c 'kill -STOP $$; :' >/dev/null 2>&1 &)"
	if _, err := c.Exec(t.Context(), f.command(script), driver.Stdio{}); err != nil {
		t.Fatal(err)
	}
	if all, err := c.Terminate(time.Minute); err != nil || !all {
		t.Fatal(all, err)
	}
	// One that has ended may wait to be buried for a moment.
	list, err := c.Processes()
	list = slices.DeleteFunc(list, func(p driver.Process) bool { return p.State == "Z" })
	if err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	deaf := &trigger{text: "ready", do: func() {}}
	ended := make(chan driver.Outcome, 1)
	ready := make(chan struct{})
	deaf.do = func() { close(ready) }
	go func() {
		o, err := c.Exec(context.WithoutCancel(t.Context()), f.command("trap '' TERM; echo ready; while :; do sleep 1000; done"), driver.Stdio{Out: deaf})
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

func TestFreezeOfACellThatCannotBe(t *testing.T) {
	f := newFixture(t, Options{})
	if err := f.start().Freeze(t.Context()); !errors.As(err, new(*driver.UnenforceableError)) {
		t.Error(err)
	}
}

// TestFreeze: a frozen cell stands still as a whole, and goes on afterwards.
func TestFreeze(t *testing.T) {
	f := newFixture(t, Options{})
	f.spec.ID, f.spec.Freezable = fmt.Sprintf("freeze-%d", os.Getpid()), true
	c := f.start()
	host, err := cgroup.Detect(cgroup.Options{})
	if err != nil {
		t.Fatal(err)
	}
	can := host.Can(cgroup.Freezer)
	err = c.Freeze(t.Context())
	if can.Status != cgroup.Works {
		var no *driver.UnenforceableError
		if !errors.As(err, &no) || no.Reason != can.Reason {
			t.Errorf("without a freezer (%s): %v", can.Reason, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if frozen, err := c.limits.group.Frozen(); err != nil || !frozen {
		t.Errorf("frozen: %v, %v", frozen, err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := c.Exec(context.WithoutCancel(t.Context()), f.command("true"), driver.Stdio{})
		done <- err
	}()
	if err := c.Thaw(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
