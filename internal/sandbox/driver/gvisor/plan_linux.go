package gvisor

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/gvisor/minder"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"github.com/forkcell/forkcell/internal/storage/mount"
)

// Where the runtime finds itself and its state in the cell around a guest. The state is
// in memory and ends with the cell, unless there is a directory of the host for it.
const (
	runtimePath = "/.forkcell/gvisor"
	stateDir    = "/dev/shm/forkcell"
	// scratchPath is where Spec.Scratch is shown to the runtime. The guest has an empty
	// directory there.
	scratchPath = "/.forkcell/scratch"
)

// plan is a specification, divided between the native cell and the guest.
type plan struct {
	outer    driver.Spec
	runtime  driver.Command
	guest    protocol.Guest
	degraded []string
	// limits are those that commands get, if the cell around the guest has its own.
	limits driver.Limits
	// runtimeFile and programFile are the files of the runtime and of the guest's first
	// process.
	runtimeFile, programFile string
	// shape is the digest of what a saved guest must have in common with the one that
	// it is restored to.
	shape   string
	digests *digests
	// state is the runtime's directory in the cell.
	state string
	// connect hears where a guest without a network connects to; nil if no caller wants to
	// know.
	connect func(driver.Program, netip.AddrPort, bool)
}

// plan checks a specification. What the guest cannot enforce is refused.
func (d *Driver) plan(s driver.Spec) (*plan, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	switch {
	case len(s.Guard.AllowSyscalls) > 0:
		return nil, &driver.UnenforceableError{Control: "allow_syscalls", Reason: "the guest's kernel answers the system calls of commands, and has no list", Remedy: "leave it out of the policy; cells of --runtime native have it", Always: true}
	case len(s.Mounts.Absent) > 0:
		return nil, &driver.UnenforceableError{Control: "paths that stay absent", Reason: "a guest makes its own list of a directory, and can make what the host hides", Remedy: "use --runtime native", Always: true}
	case s.Network != nil && s.Network.Socket != "":
		return nil, &driver.UnenforceableError{Control: "an ssh agent", Reason: "a guest's programs reach no socket of the host", Remedy: "use --runtime native, or a policy without ssh", Always: true}
	case s.Packages != nil:
		return nil, &driver.UnenforceableError{Control: "package managers as the cell's root", Reason: "a guest's programs reach no socket of the host", Remedy: "use --runtime native", Always: true}
	case s.Template:
		return nil, &driver.UnenforceableError{Control: "a template", Reason: "the processes of a guest cannot be copied by forking", Remedy: "use --runtime native", Always: true}
	}
	p := &plan{outer: s, limits: s.Limits, digests: &d.digests}
	p.guest = protocol.Guest{ID: native.CallerIdentity(), OpenFiles: s.Limits.OpenFiles}
	p.guest.ID.Super = s.AsRoot
	if err := p.limit(&s); err != nil {
		return nil, err
	}
	if err := p.attribute(&s); err != nil {
		return nil, err
	}
	if err := p.landlock(&s); err != nil {
		return nil, err
	}
	runtime, err := d.runtime()
	if err != nil {
		return nil, err
	}
	program, err := d.program()
	if err != nil {
		return nil, fmt.Errorf("this program: %w", err)
	}
	p.runtimeFile, p.programFile = runtime, program
	p.outer.Guard.Denied, p.outer.AsRoot = nil, s.AsRoot
	p.outer.Limits.OpenFiles = 0
	p.outer.Mounts.Binds = append(slices.Clone(s.Mounts.Binds),
		mount.Bind{Target: runtimePath, Source: runtime, ReadOnly: true},
		mount.Bind{Target: minder.Path, Source: program, ReadOnly: true})
	p.state = stateDir
	if s.Scratch != "" {
		p.state = scratchPath
		p.outer.Mounts.Binds = append(p.outer.Mounts.Binds, mount.Bind{Target: scratchPath, Source: s.Scratch, Owned: true})
	}
	if s.Network != nil {
		p.outer.Network = unattributedNetwork(s.Network)
	}
	return p, p.command(&s)
}

// program is the file of the guest's first process: this one, unless the options say
// otherwise.
func (d *Driver) program() (string, error) {
	if d.opt.Native.Executable != "" {
		return d.opt.Native.Executable, nil
	}
	return os.Executable()
}

// limit refuses the limits that only a count of the guest's processes could enforce:
// on the host they are threads of one.
func (p *plan) limit(s *driver.Spec) error {
	if s.Limits.PIDs == 0 {
		return nil
	}
	const reason = "the guest's processes are not processes of the host, and gVisor does not limit their number"
	if !s.Guard.AllowDegraded {
		return &driver.UnenforceableError{Control: "limit pids", Reason: reason, Remedy: "leave the limit out; cells of --runtime native have it"}
	}
	p.degraded = append(p.degraded, driver.NotEnforced("pids", reason))
	p.outer.Limits.PIDs = 0
	return nil
}

// attribute refuses a network that depends on the programs that connect.
func (p *plan) attribute(s *driver.Spec) error {
	if s.Network == nil || !s.Network.Programs {
		return nil
	}
	const reason = "on the host, all connections of a guest are those of its runtime"
	if !s.Guard.AllowDegraded {
		return &driver.UnenforceableError{Control: "binaries in network policies", Reason: reason, Remedy: "allow any binary there (/**); cells of --runtime native know the programs"}
	}
	p.degraded = append(p.degraded, "connections that are allowed to some programs only are denied to all: "+reason)
	return nil
}

// landlock refuses a policy that requires Landlock in so many words.
func (p *plan) landlock(s *driver.Spec) error {
	if !s.Guard.LandlockRequired {
		return nil
	}
	const reason = "the guest's kernel has none, and mounts alone say which paths can be written"
	if !s.Guard.AllowDegraded {
		return &driver.UnenforceableError{
			Control: "landlock.compatibility: hard_requirement", Reason: reason,
			Remedy: "leave landlock out of the policy if mounts are enough; cells of --runtime native have it",
		}
	}
	p.degraded = append(p.degraded, "landlock is not enforced: "+reason)
	return nil
}

// command makes the runtime's, with the guest's specification.
func (p *plan) command(s *driver.Spec) error {
	c := p.container(s)
	spec, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("the guest's specification: %w", err)
	}
	if p.shape, err = c.shape(); err != nil {
		return fmt.Errorf("the guest's specification: %w", err)
	}
	order := "cell"
	if s.Network == nil && s.Attempts != nil {
		order, p.connect = "offline", s.Attempts.Connect
	}
	p.runtime = driver.Command{
		Args: []string{runtimePath, order, p.state, string(spec)}, Env: []string{"PATH=/nonexistent"}, Workdir: "/",
	}
	p.outer.Command = p.runtime
	return nil
}

// The guest's first process is its root until it has become the cell's user: these are
// what that takes, and what a command that is root in its cell keeps.
func guestCapabilities() []string {
	return []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID"}
}

// container is the specification of the guest. Its root is the cell's, read-only; what
// can be written is a mount, so that a restored guest can have others.
func (p *plan) container(s *driver.Spec) *container {
	caps := guestCapabilities()
	c := &container{
		Version: "1.1.0", Hostname: s.Hostname,
		Root: root{Path: "/", ReadOnly: true},
		Process: process{
			Args: []string{minder.Path}, Cwd: "/", Env: []string{},
			Capabilities: capabilities{Bounding: caps, Effective: caps, Permitted: caps, Inheritable: caps, Ambient: caps},
		},
		Mounts: []guestMount{
			{Destination: "/dev/shm", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "nodev", "mode=1777"}},
			// A restored guest would see there what it was restored from.
			{Destination: imagePath, Type: "tmpfs", Source: "tmpfs", Options: []string{"ro", "nosuid", "nodev", "mode=755"}},
			{Destination: scratchPath, Type: "tmpfs", Source: "tmpfs", Options: []string{"ro", "nosuid", "nodev", "mode=755"}},
		},
	}
	if c.Hostname == "" {
		c.Hostname = "cell"
	}
	for _, target := range writable(s.Mounts) {
		c.Mounts = append(c.Mounts, guestMount{Destination: target, Type: "bind", Source: target, Options: []string{"rbind", "rw", "nosuid", "nodev"}})
	}
	if id := p.guest.ID; !id.Root {
		c.Process.User = user{UID: id.UID, GID: id.GID}
		c.Linux.UIDMappings = []idMapping{{ContainerID: id.UID, HostID: id.UID, Size: 1}}
		c.Linux.GIDMappings = []idMapping{{ContainerID: id.GID, HostID: id.GID, Size: 1}}
		c.Linux.Namespaces = []namespace{{Type: "user"}}
	}
	return c
}

// writable are the paths of the cell that can be written, the outer ones first.
func writable(set mount.Set) (targets []string) {
	for _, b := range set.Binds {
		if !b.ReadOnly {
			targets = append(targets, b.Target)
		}
	}
	for _, o := range set.Overlays {
		targets = append(targets, o.Target)
	}
	slices.Sort(targets)
	return slices.Compact(targets)
}

// controls describe a cell, from those of the native cell around its guest.
func (p *plan) controls(c driver.Controls) driver.Controls {
	c.Runtime = "gvisor"
	c.Kernel = "gVisor (systrap) on " + c.Kernel
	c.Landlock = "none: mounts alone say which paths can be written"
	c.Seccomp = "the guest's kernel answers the calls of commands; the runtime has " + c.Seccomp
	c.Capabilities = "none"
	if p.guest.ID.Super {
		c.Capabilities = "CHOWN DAC_OVERRIDE FOWNER SETUID SETGID, in the guest"
	}
	// What the native driver says about the runtime's filter is no exception for
	// commands.
	c.Degraded = slices.DeleteFunc(slices.Clone(c.Degraded), func(s string) bool { return strings.HasPrefix(s, "seccomp: ") })
	c.Degraded = append(c.Degraded, p.degraded...)
	c.Limits = p.limits.Achieved(c.Degraded)
	return c
}

// unattributedNetwork is a network whose connections have no known program: on the host all
// of them are the runtime's.
func unattributedNetwork(n *driver.Network) *driver.Network {
	return &driver.Network{Files: n.Files, Serve: func(c driver.Captured) (func(), error) {
		c.Origin = guestOrigin{c.Origin}
		return n.Serve(c)
	}}
}
