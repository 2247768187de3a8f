package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// together makes the copies of branches between one start of the template and one stop.
func (w warmTemplate) together(list []driver.Branch) (children []*child, errs []error) {
	w.Helper()
	plans := make([]*hostPlan, len(list))
	children, errs = make([]*child, len(list)), make([]error, len(list))
	for i, b := range list {
		var err error
		if children[i], plans[i], err = w.newChild(w.Context(), b); err != nil {
			w.Fatal(err)
		}
		w.Cleanup(func() { _ = children[i].Close() })
	}
	w.mu.RLock() // the template cannot run
	var all sync.WaitGroup
	for i, b := range list {
		all.Go(func() { errs[i] = children[i].join(w.Context(), b, plans[i]) })
	}
	limit, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	for w.waiting() < len(list) && limit.Err() == nil {
		<-time.After(time.Millisecond)
	}
	w.mu.RUnlock()
	all.Wait()
	return children, errs
}

// waiting returns how many copies wait for the template.
func (w warmTemplate) waiting() int {
	w.orders.mu.Lock()
	defer w.orders.mu.Unlock()
	return len(w.orders.list)
}

func branchAt(number int, workdir string) driver.Branch {
	return driver.Branch{Number: number, Spec: driver.Spec{ID: fmt.Sprint("branch-", number), Command: driver.Command{Workdir: workdir}}}
}

// TestCopiesOfOneStop: copies that wait at the same time are made while the template
// runs once. One that cannot be made does not concern the others.
func TestCopiesOfOneStop(t *testing.T) {
	t.Parallel()
	w := newWarmTemplate(t, warmCommand(`
import signal
runs, at_fork = [], []
signal.signal(signal.SIGCONT, lambda *_: runs.append(1))
os.register_at_fork(before=lambda: at_fork.append(len(runs)))
serve()`))
	const missing = 2
	list := []driver.Branch{branchAt(0, "/"), branchAt(1, "/"), branchAt(missing, "/no/such/directory"), branchAt(3, "/"), branchAt(4, "/")}
	children, errs := w.together(list)
	var runs []string
	for i, c := range children {
		if i == missing {
			if errs[i] == nil {
				t.Error("a branch has a working directory that does not exist")
			}
			continue
		}
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		runs = append(runs, w.ask(c, "at_fork[-1]"))
	}
	if len(slices.Compact(slices.Clone(runs))) != 1 {
		t.Errorf("the template ran between copies: %v", runs)
	}
	if still := w.standsStill(); len(still) != 1 {
		t.Errorf("processes of the template: %v", still)
	}
	if next := w.branch(5); w.ask(next, "at_fork[-1]") == runs[0] {
		t.Error("the template was not stopped")
	}
}

// TestTemplateIsLostAmongCopies: a warm process that breaks the protocol leaves no copy
// that it has made since it was let run.
func TestTemplateIsLostAmongCopies(t *testing.T) {
	t.Parallel()
	needsInterpreter(t)
	const handles = `        if order["type"] == "fork":`
	module := changed(t, []string{handles, `        order["number"] == 2 and os._exit(0)` + "\n" + handles})
	w := newWarmTemplateOf(t, New(Options{}), warmWith(module, "serve()"), nil)
	lives := w.branch(0)
	_, errs := w.together([]driver.Branch{branchAt(1, "/"), branchAt(2, "/"), branchAt(1, "/")})
	for _, err := range errs {
		if err == nil {
			t.Error("a copy was made")
		}
	}
	if _, err := w.try(3, nil); !errors.Is(err, driver.ErrNotWarm) {
		t.Errorf("another copy: %v", err)
	}
	list, err := w.Processes()
	list = slices.DeleteFunc(list, func(p driver.Process) bool { return p.PID == 1 || p.State == "Z" })
	if err != nil || len(list) > 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if got := w.ask(lives, "1 + 1"); got != "2" {
		t.Errorf("1 + 1 is %s in a branch that was made before", got)
	}
}

// TestReadyProcesses: first processes wait for branches to come, none of them exists
// while the template runs, and none is left when it has ended.
func TestReadyProcesses(t *testing.T) {
	t.Parallel()
	// The numbers of the template's processes, and of those below it, as it sees them.
	w := newWarmTemplate(t, warmCommand(`
seen = []
def state(number):
    try:
        return open("/proc/%s/stat" % number).read().rpartition(")")[2].split()[0]
    except OSError:
        return "X"
def look():
    seen.append([n for n in os.listdir("/proc") if n.isdigit() and state(n) not in "ZX"])
os.register_at_fork(before=look)
serve()`))
	var ready []*process
	for i := range 3 {
		ready = w.awaitReady(2)
		// Its first process, the spawner and the warm one; two of each branch.
		c, want := w.branch(i), fmt.Sprint(3+2*i+1)
		if got := w.ask(c, "len(seen[-2])"); got != want {
			t.Errorf("the template saw %s processes instead of %s when it ran: %s", got, want, w.ask(c, "seen[-2]"))
		}
		for _, p := range ready {
			if p.pid != c.(*child).pid && p.isAlive() {
				t.Error("a process that waits lives on while the template runs")
			}
		}
	}
	ready = w.awaitReady(1)
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	for _, p := range ready {
		if p.isAlive() {
			t.Error("a process waits for a branch of a template that has ended")
		}
	}
}

// awaitReady waits until so many first processes wait for branches.
func (w warmTemplate) awaitReady(count int) []*process {
	w.Helper()
	limit, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	for limit.Err() == nil {
		w.ready.mu.Lock()
		w.ready.fill(count)
		list := slices.Clone(w.ready.waiting)
		w.ready.mu.Unlock()
		var ready []*process
		for _, next := range list {
			s := <-next
			next <- s
			if s.err == nil {
				ready = append(ready, s.proc)
			}
		}
		if len(ready) == count {
			return ready
		}
		<-time.After(time.Millisecond)
	}
	w.Fatal("no process waits for a branch")
	return nil
}

// TestReadyProcessesOfChangedHost: a process that was started before the host's mounts
// have changed is not used.
func TestReadyProcessesOfChangedHost(t *testing.T) {
	t.Parallel()
	w := newWarmTemplate(t, warmCommand("serve()"))
	ready := w.awaitReady(1)
	w.ready.mu.Lock()
	w.ready.changed = func() bool { return true }
	w.ready.mu.Unlock()
	c := w.branch(0)
	for _, p := range ready {
		if p.pid == c.(*child).pid || p.isAlive() {
			t.Error("a process with the mounts of before is used")
		}
	}
}

// TestAbandonedProcess: a first process that cannot be watched has ended before the
// template may run.
func TestAbandonedProcess(t *testing.T) {
	t.Parallel()
	w := newWarmTemplate(t, warmCommand("serve()"))
	for range 5 {
		p, err := w.spawner.start()
		if err != nil {
			t.Fatal(err)
		}
		p.abandon()
		if s, err := readStat(p.pid); err == nil && !strings.Contains(dead, s.State) {
			t.Errorf("it lives: %s", s.State)
		}
	}
}

// TestTemplateProgram: the first processes of a template and of its branches can execute
// another program than those of other cells.
func TestTemplateProgram(t *testing.T) {
	t.Parallel()
	needsInterpreter(t)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.MemfdCreate("forkcell-test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "program")
	defer f.Close()
	if _, err := f.Write(self); err != nil {
		t.Fatal(err)
	}
	// A process that is started gets other files as the first few.
	high, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 16)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(high)
	program := fmt.Sprintf("/proc/self/fd/%d", high)
	w := newWarmTemplateOf(t, New(Options{TemplateProgram: func() (string, error) { return program, nil }}), warmCommand("serve()"), nil)
	for _, pid := range []int{w.pid, w.branch(1).(*child).pid} {
		if path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || !strings.HasPrefix(path, "/memfd:forkcell-test") {
			t.Errorf("the program is %s, %v", path, err)
		}
	}
	broken := New(Options{TemplateProgram: func() (string, error) { return "", unix.EIO }})
	if _, err := startCommand(t.Context(), broken, warmCommand("serve()"), nil); !errors.Is(err, unix.EIO) {
		t.Errorf("without its program: %v", err)
	}
}
