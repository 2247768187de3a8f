package driver

import (
	"errors"
	"fmt"

	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
)

// ErrSpec marks a Spec that no driver can run.
var ErrSpec = errors.New("bad specification")

// ErrEnded means that a cell does not exist any more: its first process was killed, or
// the cell was closed.
var ErrEnded = errors.New("the cell has ended")

// ErrStillRunning means that a process did not end in the time allowed.
var ErrStillRunning = errors.New("the process is still running")

// StartError names the step that kept a command from being executed. Package fault
// declares it for a cell's first process, which does not link this package.
type StartError = fault.StartError

// Cause is why a command was not executed, as far as callers treat it apart.
type Cause = fault.Cause

// The causes: see package fault.
const (
	CauseCell          = fault.CauseCell
	CauseNotFound      = fault.CauseNotFound
	CauseNotExecutable = fault.CauseNotExecutable
	CauseWorkdir       = fault.CauseWorkdir
	CauseNetwork       = fault.CauseNetwork
	CauseLandlock      = fault.CauseLandlock
	CauseProcesses     = fault.CauseProcesses
	CauseMemory        = fault.CauseMemory
)

// UnenforceableError means that a control that was asked for does not work here.
type UnenforceableError struct {
	Control, Reason, Remedy string
	// Always means that Guard.AllowDegraded changes nothing.
	Always bool
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
