// Package fault has the error of a command that was not executed.
//
// It is a part of the contract of package driver, apart from it because a cell's
// first process reports this error and must start fast: it imports nothing whose
// initialisation takes time. The package must not know drivers or cells.
package fault

import (
	"errors"
	"fmt"
)

// StartError names the step that kept a command from being executed.
type StartError struct {
	// Step is the failing step in words, such as "namespaces", "overlay /src" or
	// "workdir". It is for people; programs look at Cause.
	Step  string
	Cause Cause
	Err   error
}

// Cause is why a command was not executed, as far as callers treat it apart.
type Cause int

const (
	// CauseCell is a failure of the cell itself.
	CauseCell Cause = iota
	// CauseNotFound means that the cell does not have the program.
	CauseNotFound
	// CauseNotExecutable means that the program cannot be executed.
	CauseNotExecutable
	// CauseWorkdir means that the cell does not have the working directory.
	CauseWorkdir
	// CauseNetwork means that the cell's connections cannot be captured.
	CauseNetwork
	// CauseLandlock means that the kernel's Landlock is not enough.
	CauseLandlock
	// CauseProcesses means that the cell may have no more processes.
	CauseProcesses
	// CauseMemory means that the cell has less memory than its start needs.
	CauseMemory
)

func (e *StartError) Error() string { return fmt.Sprintf("%s: %v", e.Step, e.Err) }

func (e *StartError) Unwrap() error { return e.Err }

// At marks err as the failure of a step; nil stays nil.
func At(step string, err error) error { return Wrap(step, CauseCell, err) }

// Wrap is At for failures that callers treat apart.
func Wrap(step string, cause Cause, err error) error {
	if err == nil {
		return nil
	}
	if _, known := errors.AsType[*StartError](err); known {
		return err
	}
	return &StartError{Step: step, Cause: cause, Err: err}
}
