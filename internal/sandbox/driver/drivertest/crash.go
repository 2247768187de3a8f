package drivertest

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// hold is a script whose background process keeps a lock that the host can see for
// as long as it lives, whatever signals it gets. Where locks are not shared, it writes
// to the file over and over.
func (f *Fixture) hold() string {
	if !f.suite.claims(Locks) {
		return "(setsid sh -c 'trap \"\" TERM HUP; echo >" + f.SharedInside + "/held; echo ready; while :; do echo >>" + f.SharedInside + "/held; done' &); exec sleep 1000"
	}
	return "(setsid flock -x " + f.SharedInside + "/held sh -c 'trap \"\" TERM HUP; echo ready; exec sleep 1000' &); exec sleep 1000"
}

// isHeld reports whether a process of the cell still keeps the lock, or still writes.
func (f *Fixture) isHeld() bool {
	f.t.Helper()
	if !f.suite.claims(Locks) {
		return f.grows()
	}
	file, err := os.Open(filepath.Join(f.Shared, "held"))
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
		f.t.Fatal(err)
	}
	return err != nil
}

// grows reports whether the file is written to. One that is not is looked at for some
// seconds, in which a process that lives writes thousands of times.
func (f *Fixture) grows() bool {
	f.t.Helper()
	size := func() int64 {
		info, err := os.Stat(filepath.Join(f.Shared, "held"))
		if err != nil {
			f.t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		if size() != before {
			return true
		}
		<-time.After(10 * time.Millisecond)
	}
	return false
}

// supervised names the directory of a supervisor's cell.
const supervised = "FORKCELL_TEST_SUPERVISED"

// supervise runs a cell until this process is killed. It prints the cell's record.
func (s Suite) supervise(dir string) {
	f, d := Fixture{Shared: dir, SharedInside: dir, suite: s}, s.New()
	spec := driver.Spec{ID: "supervised", Command: driver.Command{
		Args: []string{"/bin/sh", "-c", f.hold()}, Env: []string{"PATH=" + defaultPath}, Workdir: "/",
	}}
	spec.Guard.AllowDegraded = true
	if inside := os.Getenv(supervised + "_INSIDE"); inside != "" {
		f.SharedInside = inside
		spec.Args[2] = f.hold()
		spec.Mounts.Binds = sharedBind(f.SharedInside, dir)
	}
	spec.Started = func(r driver.Record) error {
		_, err := fmt.Println(base64.StdEncoding.EncodeToString(r))
		return err
	}
	_, err := d.Run(context.Background(), spec, driver.Stdio{Out: os.Stdout, Err: os.Stderr})
	fmt.Println("error", err)
	os.Exit(1)
}

// testKilled: a cell dies with the process that made it, and Reap returns when it
// is gone.
func testKilled(t *testing.T, f *Fixture) {
	cmd := exec.CommandContext(t.Context(), f.suite.Supervisor[0], f.suite.Supervisor[1:]...)
	cmd.Env = append(f.suite.Environment, supervised+"="+f.Shared)
	if f.SharedInside != f.Shared {
		cmd.Env = append(cmd.Env, supervised+"_INSIDE="+f.SharedInside)
	}
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(pipe)
	next := func() string { lines.Scan(); return strings.TrimSpace(lines.Text()) }
	record, err := base64.StdEncoding.DecodeString(next())
	if ready := next(); err != nil || ready != "ready" {
		t.Fatalf("the supervisor said %q: %v", ready, err)
	}
	if err := f.Driver.Reap("supervised", record, time.Millisecond); !errors.Is(err, driver.ErrStillRunning) {
		t.Errorf("a cell that lives: %v", err)
	}
	if !f.isHeld() {
		t.Error("the cell does not live")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if err := f.Driver.Reap("supervised", record, time.Minute); err != nil {
		t.Fatal(err)
	}
	if f.isHeld() {
		t.Error("a process of the cell outlived it")
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), f.Shared) {
		t.Errorf("the cell left a mount behind: %v", err)
	}
	for what, r := range map[string]driver.Record{"again": record, "no record": nil, "a torn record": record[:len(record)/2]} {
		if err := f.Driver.Reap("supervised", r, time.Minute); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n, err := f.Driver.HeldSpace(record, time.Time{}); n != 0 || err != nil {
		t.Errorf("a cell that is gone holds %d bytes, %v", n, err)
	}
}

// testHeld: files without a name count while a process keeps them.
func testHeld(t *testing.T, f *Fixture) {
	var record driver.Record
	f.Spec.Started = func(r driver.Record) error { record = r; return nil }
	since := time.Now().Add(-time.Minute)
	c := f.Start()
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer feed.Close()
	looked := make(chan int64, 1)
	ready := &trigger{text: "ready", do: func() {
		n, err := f.Driver.HeldSpace(record, since)
		if err != nil {
			t.Error(err)
		}
		looked <- n
		_ = feed.Close()
	}}
	script := "exec 3>file; rm file; head -c 1000000 /dev/zero >&3; echo ready; cat >/dev/null"
	if o, err := c.Exec(t.Context(), f.Command(script), driver.Stdio{In: in, Out: ready}); err != nil || o.Code != 0 {
		t.Fatalf("%+v, %v", o, err)
	}
	if n := <-looked; n < 1_000_000 {
		t.Errorf("%d bytes are held", n)
	}
	if n, err := f.Driver.HeldSpace(record, since); err != nil || n != 0 {
		t.Errorf("%d bytes are held by nobody, %v", n, err)
	}
}
