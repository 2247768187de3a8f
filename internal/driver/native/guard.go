package native

import (
	"slices"

	"github.com/forkcell/forkcell/internal/cgroup"

	"github.com/forkcell/forkcell/internal/driver"
)

// groupLimits are the limits that a control group enforces.
func groupLimits(l driver.Limits) cgroup.Limits {
	return cgroup.Limits{Memory: l.Memory, CPUsMilli: l.CPUsMilli, PIDs: l.PIDs}
}

// liveControl names what the filter denies in a cell that writes to a directory
// of the host, for a receipt.
const liveControl = "no set-id files and no device nodes in the live directory"

// guardPlan is a Guard for the init.
type guardPlan struct {
	AllowSyscalls []string
	BestEffort    bool
	Notify        bool // of denied calls
	Connects      bool // are watched
	OpenFiles     int64
	Processes     int64
	// Live says that the cell writes to a directory of the host.
	Live bool
	// Writable are the directories in the cell that may be written to, besides
	// /dev and /proc.
	Writable [][]byte
}

// newGuardPlan returns what a specification asks of the init's last steps.
func newGuardPlan(s *driver.Spec) guardPlan {
	g := guardPlan{
		AllowSyscalls: s.Guard.AllowSyscalls, BestEffort: s.Guard.LandlockBestEffort || s.Guard.AllowDegraded,
		Notify: s.Guard.Denied != nil, Connects: s.Network != nil, OpenFiles: s.Limits.OpenFiles,
	}
	var writable []string
	for _, b := range s.Mounts.Binds {
		if !b.ReadOnly {
			writable = append(writable, b.Target)
		}
		g.Live = g.Live || b.Live
	}
	for _, o := range s.Mounts.Overlays {
		writable = append(writable, o.Target)
	}
	slices.Sort(writable)
	g.Writable = toBytes(slices.Compact(writable))
	return g
}
