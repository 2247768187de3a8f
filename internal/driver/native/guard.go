package native

import (
	"slices"

	"github.com/forkcell/forkcell/internal/cgroup"
	"github.com/forkcell/forkcell/internal/driver/native/protocol"

	"github.com/forkcell/forkcell/internal/driver"
)

// groupLimits are the limits that a control group enforces.
func groupLimits(l driver.Limits) cgroup.Limits {
	return cgroup.Limits{Memory: l.Memory, CPUsMilli: l.CPUsMilli, PIDs: l.PIDs}
}

// newGuardPlan returns what a specification asks of the init's last steps.
func newGuardPlan(s *driver.Spec) protocol.Guard {
	g := protocol.Guard{
		AllowSyscalls: s.Guard.AllowSyscalls, BestEffort: s.Guard.LandlockBestEffort || s.Guard.AllowDegraded,
		Notify: s.Guard.Denied != nil, Connects: s.Network != nil, OpenFiles: s.Limits.OpenFiles,
	}
	if s.Template {
		// A process can have one listener only, and a branch gets its own.
		g.Template, g.Notify, g.Connects = true, false, false
		g.AllowSyscalls = append(slices.Clone(g.AllowSyscalls), "setns")
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
	g.Writable = protocol.Bytes(slices.Compact(writable))
	return g
}
