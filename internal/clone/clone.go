// Package clone starts processes that share the memory of this one until they
// execute a program of their own, or end.
//
// An ordinary fork copies the page tables, and every page that the parent writes
// to afterwards is copied too: for a Go program of some size that takes longer
// than all the namespaces of a cell. Go's own library shares the memory, but not
// for a process in a new user namespace, which has to wait for its parent: no Go
// code may run in it, and the thread that made it stands still. Here it runs a
// [Script] instead, system calls one after the other, and no thread waits.
//
// The package knows nothing of cells.
package clone

import (
	"fmt"
	"syscall"
)

// Script is what a process does: the calls in their order. The first one that
// fails ends it, and so does the last one, which therefore should execute a
// program or never return. A Script is for one process.
type Script struct {
	calls []call
	steps []string
	keep  []any   // what the calls point to, so that it is not collected
	mask  *uint64 // signals that are blocked again before a program is executed
}

// Do adds a call. The step is for messages.
func (s *Script) Do(step string, number uintptr, args ...uintptr) {
	c := call{number: number}
	copy(c.args[:], args)
	s.calls, s.steps = append(s.calls, c), append(s.steps, step)
}

// Failure is why the process ended, if it was for a call that failed. It is known
// when the process has ended.
func (s *Script) Failure() error {
	for i := range s.calls {
		if errno := s.calls[i].errno; errno != 0 {
			return fmt.Errorf("%s: %w", s.steps[i], syscall.Errno(errno))
		}
	}
	return nil
}
