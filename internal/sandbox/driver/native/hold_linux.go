package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
)

// stopLimit bounds the time until the processes of a template have stopped.
const stopLimit = 5 * time.Second

// The states of threads, as /proc shows them, after which a thread does nothing more
// unless it is told to.
const (
	stopped = "TZX"
	dead    = "ZX"
)

// listsChildren fails on a kernel that cannot tell which processes a template has.
func listsChildren() error {
	if _, err := os.Stat("/proc/thread-self/children"); err != nil {
		return &driver.UnenforceableError{
			Control: "template", Reason: "this kernel does not list the children of a process",
			Remedy: "use a kernel with CONFIG_PROC_CHILDREN",
		}
	}
	return nil
}

// hold stops every process of the template but the first one, the spawner and
// admitted copies, and returns when all have stopped. Signals do it, which every host
// has: no process is left in the template that could send another. The caller holds mu.
func (t *template) hold(ctx context.Context) error {
	tasks, err := t.signalAll(ctx, unix.SIGSTOP, stopped)
	t.still = tasks
	return fault.At("stop the template", err)
}

// killCommands ends the processes that hold stops.
func (t *template) killCommands(ctx context.Context) error {
	_, err := t.signalAll(ctx, unix.SIGKILL, dead)
	return fault.At("end the template", err)
}

// exempt reports whether a process below the first one does not belong to the template's
// commands.
func (t *template) exempt(pid int) bool { return t.helper.is(pid) || t.isCopy(pid) }

// signalAll sends a signal to the template's processes until each of their threads is
// in one of the states, and returns these threads.
func (t *template) signalAll(ctx context.Context, sig unix.Signal, until string) ([]task, error) {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		w := walk{template: t, signal: sig, until: until}
		if err := w.children(t.pid, nil); err != nil {
			return nil, err
		}
		if w.left == 0 && !w.changed {
			return w.tasks, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%d processes do not obey: %w", w.left, ctx.Err())
		case <-t.gone:
			return nil, errEnded
		case <-time.After(pause):
		}
	}
}

// walk is one look at the processes of a template, by the kernel's lists of children.
// They are not read in one moment, so a look at processes that run may miss some: one
// that forks and ends again and again is in no list for long. The look counts only if
// nothing has changed while it was made. Orphans go to a process above, whose list is
// read again after those below it.
type walk struct {
	template *template
	signal   unix.Signal
	until    string // the states of threads that need no signal
	left     int    // processes in other states
	changed  bool   // there may be processes that were not seen
	tasks    []task // what was seen
}

// children visits the processes below one, and calls after, if it is given, before it looks
// whether they have changed.
func (w *walk) children(pid int, after func(threads []string) error) error {
	f, ok, err := familyOf(pid)
	if err != nil {
		return err
	}
	for _, child := range f.children {
		if w.template.exempt(child) {
			continue
		}
		if err := w.visit(child, pid); err != nil {
			return err
		}
	}
	if after != nil {
		if err := after(f.threads); err != nil {
			return err
		}
	}
	again, still, err := familyOf(pid)
	if !ok || !still || f.text != again.text {
		w.changed = true
	}
	return err
}

// visit looks at a process that was in its parent's list, and at those below it.
func (w *walk) visit(pid, parent int) error {
	p, err := readStat(pid)
	if err != nil || p.parent != parent {
		w.changed = true // it has ended, or has another parent, or is another process
		return nil
	}
	return w.children(pid, func(threads []string) error {
		for _, thread := range threads {
			id, err := strconv.Atoi(thread)
			if err != nil {
				return err
			}
			w.tasks = append(w.tasks, task{id: id, pid: pid, ticks: p.ticks})
		}
		if w.reached(pid, threads) {
			return nil
		}
		w.left++
		err := signalStarted(pid, p.ticks, w.signal)
		if errors.Is(err, unix.ESRCH) {
			return nil
		}
		return err
	})
}

// reached reports whether every thread of a process is in one of the states.
func (w *walk) reached(pid int, threads []string) bool {
	for _, thread := range threads {
		data, err := readProc(fmt.Sprintf("/proc/%d/task/%s/stat", pid, thread))
		if err != nil {
			w.changed = true
			return true
		}
		p, err := parseStat(pid, data)
		if err != nil || !strings.Contains(w.until, p.State) {
			return false
		}
	}
	return true
}

// family is a process's threads and children.
type family struct {
	threads  []string
	children []int
	text     string // all of it
}

// familyOf reads the lists of a process; false means that it, or a thread of it, has
// ended meanwhile.
func familyOf(pid int) (f family, ok bool, err error) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return f, false, unlessEnded(err)
	}
	var text strings.Builder
	for _, e := range entries {
		data, err := readProc(dir + "/" + e.Name() + "/children")
		if err != nil {
			return f, false, unlessEnded(err)
		}
		f.threads = append(f.threads, e.Name())
		fmt.Fprintf(&text, "%s: %s\n", e.Name(), data)
		for _, number := range strings.Fields(string(data)) {
			child, err := strconv.Atoi(number)
			if err != nil {
				return f, false, err
			}
			f.children = append(f.children, child)
		}
	}
	f.text = text.String()
	return f, true, nil
}

// unlessEnded returns an error of /proc that does not mean that a process has ended.
func unlessEnded(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
