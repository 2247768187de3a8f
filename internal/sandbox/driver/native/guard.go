package native

import (
	"slices"

	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/cgroup"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// groupLimits are the limits that a control group enforces.
func groupLimits(l driver.Limits) cgroup.Limits {
	return cgroup.Limits{Memory: l.Memory, CPUsMilli: l.CPUsMilli, PIDs: l.PIDs}
}

// newGuardPlan returns what a specification asks of the init's last steps.
func newGuardPlan(s *driver.Spec) protocol.Guard {
	g := protocol.Guard{
		AllowSyscalls: s.Guard.AllowSyscalls, BestEffort: s.Guard.LandlockBestEffort || s.Guard.AllowDegraded,
		Notify: s.Guard.Denied != nil, Connects: s.Network != nil, Attempts: hears(s), OpenFiles: s.Limits.OpenFiles,
	}
	if s.Template {
		// A process can have one listener only, and a branch gets its own.
		g.Template, g.Notify, g.Connects, g.Attempts = true, false, false, false
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

// hears reports whether the host hears what a cell without a network tries to reach.
func hears(s *driver.Spec) bool { return s.Network == nil && s.Attempts != nil }

// guardRuntime changes what is asked of the init for a command that is a runtime with
// a kernel of its own. The calls of that kernel say nothing about the programs that it
// holds, so they are not reported, and its filter needs the one listener that a process
// can have. What it sends is seen as that of other commands: questions for names.
func guardRuntime(g *protocol.Guard) {
	g.Runtime, g.Notify, g.Connects = true, false, false
	g.AllowSyscalls = runtimeCalls()
}

// runtimeCalls are denied to commands, and a runtime needs them to put its processes
// into namespaces and roots of their own.
func runtimeCalls() []string {
	return []string{"chroot", "clone", "mount", "pivot_root", "setns", "umount2", "unshare"}
}
