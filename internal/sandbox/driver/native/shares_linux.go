package native

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// What kcmp(2) compares of two tasks.
const (
	kcmpVM      = 1
	kcmpFiles   = 2
	kcmpFS      = 3
	kcmpSighand = 4
)

// sharable are the things that clone(2) lets a process have in common with another one,
// and that say nothing of it in /proc. Signal handlers are shared by those only that share
// memory. Two more are no matter: a list of semaphore operations to undo is left behind
// when a process joins another ipc namespace, and what CLONE_IO shares orders the work of
// a disk and has no data.
var sharable = []struct {
	kind int
	what string
}{
	{kcmpVM, "memory"},
	{kcmpFiles, "its table of descriptors"},
	{kcmpFS, "its root and working directory"},
	{kcmpSighand, "its signal handlers"},
}

// sameOf reports whether two tasks of the host have one thing of a kind.
func sameOf(a, b, kind int) (bool, error) {
	order, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), uintptr(kind), 0, 0, 0)
	if errno != 0 {
		return false, fmt.Errorf("kcmp: %w", errno)
	}
	return order == 0, nil
}

// comparesProcesses fails where the kernel does not tell what a copy shares.
func (n *Driver) comparesProcesses() error {
	self := unix.Getpid()
	same, err := n.opt.sameOf(self, self, kcmpVM)
	switch {
	case err == nil && same:
		return nil
	case err == nil:
		err = errors.New("kcmp gives a wrong answer")
	case errors.Is(err, unix.ENOSYS):
		err = errors.New("this kernel has no kcmp, which tells what two processes share")
	}
	return &driver.UnenforceableError{
		Control: "template", Reason: err.Error(),
		Remedy: "use a kernel with CONFIG_KCMP (before 5.12: CONFIG_CHECKPOINT_RESTORE), and a container that allows the call kcmp, or start the cell without --warm",
	}
}

// errShares is the error of a copy that is not alone: it shares something with another
// process, or its cell has one that the template put there.
var errShares = errors.New("it is not alone")

// checkAlone checks that the copy shares nothing with any other process of the template or
// with another copy, and that none of them is in its cell. The template must stand
// still: what a copy does not share now it never will, since only a process that has a
// thing can give it to others, by a clone.
func (k *copyCheck) checkAlone() error {
	t := k.child.template
	for _, o := range slices.Concat(t.still, t.copiesNow()) {
		if o.id == k.pid {
			continue
		}
		if err := k.checkApart(o); err != nil && (errors.Is(err, errShares) || !o.hasEnded()) {
			return err
		}
	}
	return nil
}

// checkApart checks the copy against another task.
func (k *copyCheck) checkApart(o task) error {
	for _, s := range sharable {
		same, err := k.child.template.driver.opt.sameOf(k.pid, o.id, s.kind)
		if err != nil {
			return fmt.Errorf("what it shares is unknown: %w", err)
		}
		if same {
			return fmt.Errorf("%w: it shares %s with %s", errShares, s.what, o)
		}
	}
	if o.copied != nil {
		return nil // it was in no cell but its own, and can enter no other one
	}
	var own, cell unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/ns/user", o.id), &own); err != nil {
		return fmt.Errorf("whether the cell is its own is unknown: %w", err)
	}
	if err := unix.Fstat(k.child.namespaces[0], &cell); err != nil {
		return fmt.Errorf("user namespace: %w", err)
	}
	if own.Ino == cell.Ino && own.Dev == cell.Dev {
		return fmt.Errorf("%w: %s is in its user namespace", errShares, o)
	}
	return nil
}

// task is a thread of a template's process, or a copy that was admitted: that was
// checked itself, and counts with its first thread.
type task struct {
	id     int           // on the host
	pid    int           // of its process
	ticks  uint64        // when the process started
	copied *knownProcess // nil for one of the template's
}

// hasEnded reports whether the task has ended. Its number may be another's then.
func (o task) hasEnded() bool {
	if o.copied != nil {
		return !o.copied.isAlive()
	}
	if ticks, err := startTime(o.pid); err != nil || ticks != o.ticks {
		return true
	}
	_, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", o.pid, o.id))
	return errors.Is(err, os.ErrNotExist)
}

func (o task) String() string {
	if o.copied != nil {
		return "another branch"
	}
	return "another process of the template"
}

// copiesNow returns the copies that were admitted.
func (c *Cell) copiesNow() (list []task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.copies {
		list = append(list, task{id: k.pid, copied: k.knownProcess})
	}
	return list
}
