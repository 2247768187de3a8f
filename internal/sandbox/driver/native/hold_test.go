package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// standsStill returns the numbers of a template's processes, whose threads must all be
// stopped. A process that has ended, or is about to, cannot be stopped and does not count.
func (w warmTemplate) standsStill() (numbers []int) {
	w.Helper()
	list, err := w.Processes()
	if err != nil {
		w.Fatal(err)
	}
	for _, p := range list {
		if p.PID == 1 {
			continue
		}
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.HostPID))
		if err != nil {
			w.Fatal(err)
		}
		stopped := false
		for _, thread := range threads {
			data, err := os.ReadFile(thread)
			if err != nil {
				continue // it has ended
			}
			s, err := parseStat(p.HostPID, data)
			if err != nil || s.State != "T" && s.State != "Z" && s.State != "X" {
				w.Errorf("a thread of %.80q: %+v, %v", p.Args, s, err)
			}
			stopped = stopped || s.State == "T"
		}
		if stopped {
			numbers = append(numbers, p.PID)
		}
	}
	return numbers
}

// TestTemplateIsHeld: nothing runs in a template that is warm, but for the moments in
// which a copy is made, and then only the warm process.
func TestTemplateIsHeld(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"a loop": `
subprocess.Popen(["sh", "-c", "while :; do :; done"])
`,
		// The kernel shows the state of a process by its first thread.
		"a process without its first thread": `
subprocess.Popen([sys.executable, "-c", """
import ctypes, threading
def loop():
    while True:
        pass
threading.Thread(target=loop).start()
ctypes.CDLL(None).pthread_exit(None)
"""])
while "Z" not in [open("/proc/%s/stat" % n).read().rpartition(")")[2].split()[0] for n in os.listdir("/proc") if n.isdigit()]:
    pass
`,
		// The kernel sends the signal of a timer, or of input, also to a process that is
		// stopped.
		"a timer": `
event = struct.pack("<QiI48x", 0, signal.SIGCONT, 0)
if ctypes.CDLL(None).timer_create(time.CLOCK_MONOTONIC, event, ctypes.create_string_buffer(8)) == 0:
    sys.exit("a timer could let it go on")
`,
		"input": `
try:
    fcntl.fcntl(0, fcntl.F_SETSIG, signal.SIGCONT)
except PermissionError:
    fcntl.fcntl(0, fcntl.F_SETSIG, signal.SIGUSR1)
else:
    sys.exit("input could let it go on")
`,
		// It is in no list of processes for long.
		"chains of processes": `
for _ in range(4):
    if os.fork() == 0:
        while True:
            if os.fork():
                os._exit(0)
`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWarmTemplate(t, warmCommand("import ctypes, fcntl, signal, struct, subprocess, sys, time\n"+script+"serve()"))
			first := w.standsStill()
			for i := range 3 {
				w.branch(i)
			}
			if last := w.standsStill(); !slices.Equal(first, last) {
				t.Errorf("its processes were %v and are %v", first, last)
			}
		})
	}
}

// TestSignalsToATemplate: no signal to a command lets a template go on that is warm.
func TestSignalsToATemplate(t *testing.T) {
	t.Parallel()
	needsInterpreter(t)
	tmpl, err := New(Options{}).startTemplate(t.Context(), driver.Spec{ID: "template", Template: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tmpl.Close() })
	// Its child is in a group that has no other parent.
	parent := driver.Command{Workdir: "/", Env: []string{"PATH=/usr/bin"}, Args: []string{interpreter, "-c", `
import os, signal
if os.fork() == 0:
    os.setpgid(0, 0)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.write(1, b"begun")
while True:
    pass`}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun, signals, ended := make(chan struct{}), make(chan os.Signal), make(chan driver.Outcome)
	go func() {
		o, _ := tmpl.Exec(ctx, parent, driver.Stdio{Out: writerFunc(sync.OnceFunc(func() { close(begun) })), Signals: signals})
		ended <- o
	}()
	<-begun
	go func() { _, _ = tmpl.Exec(t.Context(), warmCommand("serve()"), driver.Stdio{}) }()
	if err := tmpl.AwaitWarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := warmTemplate{t, tmpl}
	signals <- unix.SIGCONT
	signals <- unix.SIGWINCH // the first one has been sent
	if f, err := tmpl.Open("/etc/passwd"); err == nil {
		_ = f.Close() // the first process has read what was sent before
	} else {
		t.Error(err)
	}
	if still := w.standsStill(); len(still) != 3 {
		t.Errorf("after SIGCONT: %v", still)
	}
	if all, err := tmpl.Terminate(time.Minute); all || err != nil {
		t.Error(all, err)
	}
	if still := w.standsStill(); len(still) != 3 {
		t.Errorf("after Terminate: %v", still)
	}
	cancel()
	if o := <-ended; !o.Killed {
		t.Errorf("%+v", o)
	}
	if still := w.standsStill(); len(still) != 2 {
		t.Errorf("after the end of a command: %v", still)
	}
	if c := w.branch(0); w.ask(c, "1 + 1") != "2" {
		t.Error("no branch can be made")
	}
}

// TestTemplateIsLost: a template whose warm process does not keep to the protocol is
// ended. Its branches live on, and nothing can be executed beside them.
func TestTemplateIsLost(t *testing.T) {
	t.Parallel()
	const forked, handles = `            line.send({"type": "forked"})`, `        if order["type"] == "fork":`
	for name, c := range map[string]struct {
		changes []string
		limit   time.Duration
	}{
		"silence":                    {[]string{forked, `            order["number"] and threading.Event().wait()` + "\n" + forked}, 5 * time.Second},
		"another message":            {[]string{forked, `            line.send({"type": "forked" if order["number"] == 0 else "warm"})`}, 0},
		"its end":                    {[]string{handles, `        order["number"] and os._exit(0)` + "\n" + handles}, 0},
		"a copy with another parent": {[]string{`        if os.fork() == 0:`, `        if os.fork() == 0 or order["number"] and threading.Event().wait():`, `        _, status = os.waitpid(middle, 0)`, `        status = 0 if order["number"] else os.waitpid(middle, 0)[1]`}, 0},
		"a half message":             {[]string{forked, `            order["number"] and (line.socket.sendall(b"\x09\x00\x00\x00{"), os._exit(0))` + "\n" + forked}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needsInterpreter(t)
			w := newWarmTemplateOf(t, New(Options{joinLimit: c.limit}), warmWith(changed(t, c.changes), "serve()"), nil)
			lives := w.branch(0)
			if _, err := w.try(1, nil); err == nil {
				t.Fatal("a copy was made")
			}
			if _, err := w.try(2, nil); !errors.Is(err, driver.ErrNotWarm) {
				t.Errorf("another copy: %v", err)
			}
			if _, err := w.Exec(t.Context(), driver.Command{Args: []string{"true"}, Workdir: "/"}, driver.Stdio{}); !errors.Is(err, driver.ErrHeld) {
				t.Errorf("a command: %v", err)
			}
			if list, err := w.Processes(); err != nil || len(list) != 1 {
				t.Errorf("%+v, %v", list, err)
			}
			if got := w.ask(lives, "1 + 1"); got != "2" {
				t.Errorf("1 + 1 is %s in a branch that was made before", got)
			}
		})
	}
}

// TestCancelledBranch: a caller who loses patience while a copy is made leaves the
// template to the others.
func TestCancelledBranch(t *testing.T) {
	t.Parallel()
	needsInterpreter(t)
	const forked = `            line.send({"type": "forked"})`
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	module := changed(t, []string{forked, `            order["number"] == 1 and os.write(2, b"forked")` + "\n" + forked})
	w := newWarmTemplateOf(t, New(Options{}), warmWith(module, "serve()"), writerFunc(cancel))
	b := driver.Branch{Number: 1, Spec: driver.Spec{ID: "branch", Command: driver.Command{Workdir: "/"}}}
	if c, err := w.Branch(ctx, b); err == nil {
		w.Cleanup(func() { _ = c.Close() }) // it was made before the caller noticed
	}
	c := w.branch(2)
	if got := w.ask(c, "1 + 1"); got != "2" {
		t.Errorf("1 + 1 is %s", got)
	}
}

// writerFunc is called at each write.
type writerFunc func()

func (f writerFunc) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

// TestHoldWhileBranching stops the template again and again while branches are made:
// a copy is either not released yet, or left alone.
func TestHoldWhileBranching(t *testing.T) {
	t.Parallel()
	w := newWarmTemplate(t, warmCommand("serve()"))
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			default:
			}
			w.mu.Lock()
			err := w.hold(context.Background())
			w.mu.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
		}
	}()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 6 {
				c, err := w.try(i, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	close(done)
	<-stopped
}

// TestNumberOfAnother: a process that has ended may have left its number to another
// one, which gets no signal and counts as itself.
func TestNumberOfAnother(t *testing.T) {
	t.Parallel()
	w := newWarmTemplate(t, warmCommand("serve()"))
	other := exec.Command("sleep", "1000")
	ended := exec.Command("true")
	if err := errors.Join(other.Start(), ended.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = other.Process.Kill(), other.Wait() }()
	gone, err := openProcess(ended.Process.Pid)
	if err := errors.Join(err, ended.Wait()); err != nil {
		t.Fatal(err)
	}
	start, err := startTime(other.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := signalStarted(other.Process.Pid, start+1, unix.SIGKILL); !errors.Is(err, unix.ESRCH) {
		t.Errorf("a signal to a process that started at another time: %v", err)
	}
	if err := signalStarted(other.Process.Pid, start, 0); err != nil {
		t.Errorf("the process itself: %v", err)
	}
	c := w.branch(1).(*child)
	c.copied.Store(&knownProcess{os.Getpid(), gone.file})
	if list, err := c.Processes(); err != nil || len(list) != 1 {
		t.Errorf("the branch has %+v, %v", list, err)
	}
	// The spawner has ended, and the warm process has its number.
	w.helper = &knownProcess{w.warm.pid, gone.file}
	list, err := w.Processes()
	if err != nil || !slices.ContainsFunc(list, func(p driver.Process) bool { return p.HostPID == w.warm.pid }) || w.exempt(w.warm.pid) {
		t.Errorf("the template has %+v, %v", list, err)
	}
	w.helper = w.spawner.self
}
