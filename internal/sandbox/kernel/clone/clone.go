// Package clone starts processes that share the memory of this one until they
// execute another program, or end.
//
// An ordinary fork copies the page tables, and every page that the parent writes
// to afterwards is copied too: for a large Go program that takes longer than all
// the namespaces of a cell. Go's own library shares the memory, but not for a
// process in a new user namespace: such a process has to wait for its parent, may
// run no Go code, and blocks the thread that made it. Here it runs a [Script]
// instead, a list of system calls, and no thread waits.
//
// The package knows nothing of cells.
package clone

import (
	"fmt"
	"syscall"
)

// Script is a list of system calls that a process makes in order. The process ends
// with the first call that fails, and after the last one, which should execute a
// program or never return. A Script is for one process.
type Script struct {
	calls []call
	steps []string
	keep  []any   // memory that the calls use, so that it is not collected
	mask  *uint64 // signals that are blocked again before a program is executed
}

// Do adds a call. step names it in errors.
func (s *Script) Do(step string, number uintptr, args ...uintptr) {
	c := call{number: number}
	copy(c.args[:], args)
	s.calls, s.steps = append(s.calls, c), append(s.steps, step)
}

// Failure returns the error of the call that ended the process, if one failed. It
// is valid when the process has ended.
func (s *Script) Failure() error {
	for i := range s.calls {
		if errno := s.calls[i].errno; errno != 0 {
			return fmt.Errorf("%s: %w", s.steps[i], syscall.Errno(errno))
		}
	}
	return nil
}
