// Package cgroup limits what the processes of one cell may use together, and
// freezes and kills them as one.
//
// [Detect] finds out which control groups this process can make, of version 1,
// version 2 or both, and says for each control whether it works, why not, and
// what to do. [Host.Create] makes one group for one cell with its limits set
// before any process is in it. The caller adds the cell's first process before
// that process runs anything; whatever it starts is in the group too.
//
// The files of the kernel are read and written as they are. The package knows
// nothing of cells, policies, events or receipts: it takes numbers and an id,
// and reports numbers.
package cgroup

import (
	"errors"
	"fmt"
)

// Control is something that a group can do for a cell.
type Control string

// The controls. The first three are limits, Freezer stops and resumes.
const (
	Memory  Control = "memory"
	CPU     Control = "cpu"
	PIDs    Control = "pids"
	Freezer Control = "freezer"
)

// Controls lists every control in the order in which they are reported.
func Controls() []Control { return []Control{Memory, CPU, PIDs, Freezer} }

// Limits bounds what a cell may use. 0 means no limit.
type Limits struct {
	// Memory is in bytes and counts swap: a cell cannot move its excess there.
	Memory int64
	// CPUsMilli is processor time in thousandths of one processor.
	CPUsMilli int64
	// PIDs counts threads, the cell's own first process included.
	PIDs int64
}

// minCPUsMilli is the least that the kernel accepts: a quota of one millisecond
// in a period of a tenth of a second.
const minCPUsMilli = 10

// neededControls lists the controls that l needs.
func (l Limits) neededControls() []Control {
	var list []Control
	if l.Memory != 0 {
		list = append(list, Memory)
	}
	if l.CPUsMilli != 0 {
		list = append(list, CPU)
	}
	if l.PIDs != 0 {
		list = append(list, PIDs)
	}
	return list
}

func (l Limits) check() error {
	switch {
	case l.Memory < 0:
		return fmt.Errorf("%w: memory %d", errLimit, l.Memory)
	case l.CPUsMilli < 0:
		return fmt.Errorf("%w: cpus %d/1000", errLimit, l.CPUsMilli)
	case l.CPUsMilli > 0 && l.CPUsMilli < minCPUsMilli:
		return fmt.Errorf("%w: cpus %d/1000: the least is %d/1000", errLimit, l.CPUsMilli, minCPUsMilli)
	case l.PIDs < 0:
		return fmt.Errorf("%w: pids %d", errLimit, l.PIDs)
	}
	return nil
}

var (
	// errLimit marks a limit that no host could set.
	errLimit = errors.New("impossible limit")
	// errID marks an id that cannot be part of a group's name.
	errID = errors.New("bad group id")
	// errExists says that a group of this id exists already.
	errExists = errors.New("group exists")
	// errUnsupported is in the chain of every UnsupportedError.
	errUnsupported = errors.New("control not available")
)

// UnsupportedError means that this host cannot do what was asked.
type UnsupportedError struct {
	Control        Control
	Reason, Remedy string
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("cgroup: %s cannot be enforced: %s", e.Control, e.Reason)
}

// Unwrap makes errors.Is(err, errUnsupported) true.
func (e *UnsupportedError) Unwrap() error { return errUnsupported }

// Status is one word about a control.
type Status string

// The words are those of the command line's doctor.
const (
	Works    Status = "works"
	Degraded Status = "degraded"
	Missing  Status = "missing"
)

// Support says whether this host can enforce one control.
type Support struct {
	Control Control
	Status  Status
	// Version is "v1" or "v2", empty when the control is missing.
	Version string
	// Reason and Remedy are empty when the control works.
	Reason, Remedy string
}

// prefix starts the name of every group that this package makes.
const prefix = "forkcell-"

const maxID = 128

// checkID accepts what is safe as a part of a file name and of a line.
func checkID(id string) error {
	if id == "" || len(id) > maxID {
		return fmt.Errorf("%w: %d bytes long", errID, len(id))
	}
	for i := range len(id) {
		c := id[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		case c == '.' && i > 0:
		default:
			return fmt.Errorf("%w: %q", errID, id)
		}
	}
	return nil
}
