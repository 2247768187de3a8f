package driver

import (
	"errors"
	"fmt"
)

// ErrSpec marks a Spec that no driver can run.
var ErrSpec = errors.New("bad specification")

// ErrStillRunning means that a process did not end in the time allowed.
var ErrStillRunning = errors.New("the process is still running")

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
)

func (e *StartError) Error() string { return fmt.Sprintf("%s: %v", e.Step, e.Err) }

func (e *StartError) Unwrap() error { return e.Err }

// UnenforceableError means that a control that was asked for does not work here.
type UnenforceableError struct {
	Control, Reason, Remedy string
}

func (e *UnenforceableError) Error() string {
	return fmt.Sprintf("%s cannot be enforced here: %s", e.Control, e.Reason)
}

// Why an ordinary user's cell cannot have the host's system to write to, and what
// to do. Subordinate ids would give the cell users, but the files of the host's
// root would be nobody's, and an overlay cannot copy up what belongs to nobody.
const (
	HostOverlayNeedsRoot = "only root can map the owners of the system's files into a cell (an id-mapped mount, else EPERM); with subordinate ids they are nobody's there, and nothing of the system can be changed"
	HostOverlayRemedy    = "run it as root: the cell's users are still nobody on the host"
)
