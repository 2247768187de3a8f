package cellinit

import (
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

// The steps of the first process, in their order: begin, prepare, build, weaken, and
// within that weakenThread. The comment of each step says why it comes at this place, and
// what shows that it is needed: a probe of package drivertest that succeeds while the
// step's control is left off, a probe or a test that fails without the step, or why there
// is none. TestSteps compares the comments with the code, the probes and the tests.

// step is one step of the first process.
type step struct {
	name string
	do   func() error
}

// take takes steps until one fails.
func take(steps []step) error {
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fault.At(s.name, err)
		}
	}
	return nil
}

// take also keeps the times of the steps.
func (r *rootfs) take(steps []step) error {
	for i, s := range steps {
		if err := take(steps[i : i+1]); err != nil {
			return err
		}
		r.stepTimes.add(s.name)
	}
	return nil
}

// begin comes before everything else.
func (r *rootfs) begin() error {
	return r.take([]step{
		// First: a parent that dies from now on takes this process along.
		// No probe shows it: the end of the control socket ends this process too.
		{"parent's death", dieWithParent},
		// Before the first file is made: in a namespace without users it would have no owner.
		// TestContract/Workspace fails without it.
		{"ids", r.awaitMaps},
	})
}

// prepare makes what every cell has, whatever its plan. A process that was started
// before its cell is known does so while it waits.
func (r *rootfs) prepare() error {
	unix.Umask(0)
	return r.take([]step{
		// Before the steps open anything: what is open now is the caller's.
		// Probe "inherited: a file" succeeds without it.
		{"descriptors", r.descriptors},
		// Before the plan, of which it needs nothing.
		// Probe "allowed: a server and a client" fails without it.
		{"loopback", r.loopback},
		// While /proc is the host's: the stage covers it.
		// TestMountsBelow fails without it.
		{"mounts", r.readMounts},
		// Before all that is attached in the cell's root, which is in it.
		// TestContract/Workspace fails without it.
		{"root", r.makeStage},
		// On the new root, and before the plan: its covers are half of the work.
		// Probe "/proc/keys" succeeds without it, and so does probe "user namespace".
		{"proc", r.makeProc},
		// While the host's /dev is there, whose devices it shows: none can be made.
		// Probe "make a file in /dev/" succeeds without it.
		{"dev", r.dev},
	})
}

// build makes the rest, as the plan says.
func (r *rootfs) build() error {
	defer unix.Umask(0o022)
	return r.take([]step{
		// After the plan: the parent has put this process into its group by then.
		// Probe "its control group's place" succeeds without it.
		{"control group namespace", r.ownCgroups},
		// With the plan, and before commands exist: no connection may escape it.
		// TestContract/Network fails without it.
		{"network", r.network},
		// With the plan, which has the name.
		// Probe "the host's name" succeeds without it.
		{"host name", r.hostname},
		// Before the steps that take the system's files from there.
		// TestSystemRoot fails without it.
		{"system root", r.findHost},
		// Before the overlays, which have these files in what is writable below /etc.
		// Probe "the host's accounts" succeeds without it.
		{"etc", r.etc},
		// Before the binds and overlays, which may be inside of them.
		// TestContract/PathSearch fails without it.
		{"system directories", r.system},
		// After the cell's namespaces are made, of which it forbids more, and the settings.
		// Probe "set net/ipv4/ip_forward" succeeds without it.
		{"settings", r.finishProc},
		// As late as possible: the parent makes them during the steps before.
		// TestForeignOwners fails without it.
		{"mounts of the parent", r.receiveMounts},
		// Before the overlays, which may be in one.
		// Probe "shown: connect to a daemon" succeeds without it.
		{"binds", r.binds},
		// In the upper directory that a bind shows, before the overlay covers it.
		// Probe "make an absent path" succeeds without it.
		{"absent paths", r.absent},
		// After the binds, which they may be in.
		// TestContract/Workspace fails without it.
		{"overlays", r.overlays},
		// After the cell's own directories, which hide what was at their place before.
		// TestListedLinks fails without it.
		{"links", r.linksInState},
		// After the overlays, which have the paths.
		// Probe "write to a read-only path" succeeds without it.
		{"read-only paths", r.fixPaths},
		// After all that is attached at a path: nothing may come over a mask.
		// Probe "a masked file" succeeds without it, and TestPins fails.
		{"masks", r.masks},
		// After the mounts, in which its directory may be, and before they are read-only.
		// TestContract/Socket fails without it.
		{"socket", r.localSocket},
		// For the same reasons.
		// TestPackages fails without it.
		{"package managers", r.packageSocket},
		// Last: the steps before need the host's root, which it leaves.
		// Probe "absent: a file of the host" succeeds without it.
		{"pivot", r.enter},
	})
}

// weaken takes from this thread everything that commands must not have.
func (r *rootfs) weaken() (g describeGuards, err error) {
	p := r.plan
	err = r.take([]step{
		// Before this process is hidden, which then cannot open its own files.
		// TestBranches fails without it.
		{"namespaces", r.keepNamespaces},
		// For the same reason.
		// Probe "inherited: protection from the killer" succeeds without it.
		{"oom score", func() error { return plainOOM(p.Without) }},
		// Before this process is hidden: the change of another thread's user takes that back.
		// TestPackages fails without it.
		{"thread of package managers", r.startBroker},
		// After the last step that needs rights over the cell.
		// Probe "init: end it by a signal" succeeds without it.
		{"sandbox user", func() error { return becomeSandbox(p.ID, p.Guard.Runtime && p.ID.Root, p.Without) }},
		// As the sandbox user, to whom it is counted, and before the filter refuses it.
		// Probe "inherited: a key" succeeds without it.
		{"session keyring", r.ownKeyring},
		// Without capabilities: a limit that the caller has lowered for good stays low.
		// Probe "inherited: core dumps" succeeds without it.
		{"limits and priority", func() error { return plainProcess(p.Guard, p.Without) }},
		// Last: they refuse what the steps before do.
		// Probe "a device for /tmp" succeeds without it, and so do probe "open_tree" and probe "live: open".
		{"landlock and seccomp", func() (err error) {
			g, err = guard(p.Guard, p.Without)
			return err
		}},
	})
	return g, err
}

// weakenThread is the part of becomeSandbox that is about the thread.
func weakenThread(id protocol.Identity, privileged bool, w protocol.Without) error {
	return take([]step{
		// Any place before the first command would do.
		// Probe "inherited: blocked signals" succeeds without it.
		{"signal mask", func() error { return unblockSignals(w) }},
		// After the steps of this process that need capabilities.
		// Probe "the bounding set" succeeds without it, and so does probe "kernel: set kernel/panic".
		{"capabilities", func() error { return dropPrivileges(id, privileged, w) }},
		// Before Landlock and seccomp, which need it in a process without capabilities.
		// Probe "a setuid program" succeeds without it.
		{"no_new_privs", func() error { return noNewPrivs(w) }},
		// After the change of credentials, which sets this to what the host has chosen.
		// Probe "init: mem" succeeds without it.
		{"hide the init", func() error { return hideInit(w) }},
		// After the change of credentials, which disarms it.
		// No probe shows it: the end of the control socket ends this process too.
		{"parent's death", dieWithParent},
	})
}
