package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/cellinit"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/landlock"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// Statuses of a Check.
const (
	statusWorks    = "works"
	statusDegraded = "degraded"
	statusMissing  = "missing"
)

// Probes examine the host. Each can be replaced, so that a test can remove a
// feature; nil ones are real.
type Probes struct {
	// Root reports whether the caller is root.
	Root func() bool
	// Kernel is the release, such as 6.12.3-generic.
	Kernel func() string
	// File returns the contents of a kernel setting; an error means that this
	// kernel does not have it.
	File func(path string) (string, error)
	// Pidfd opens a process by descriptor.
	Pidfd func() error
	// Cell builds a cell, on a directory below dir, and returns what its first
	// process found when it tried its controls.
	Cell func(ctx context.Context, dir string) ([]driver.Check, error)
	// Landlock is the kernel's ABI, 0 if it has none.
	Landlock func() int
	// Notices makes a denied call in a cell and waits for the report.
	Notices func(context.Context) error
	// IDMap makes an id-mapped mount of a directory.
	IDMap func(dir string) error
	// Held looks for files that a cell's processes hold without a name.
	Held func(context.Context) error
	// Egress builds a cell whose connections are captured. errBorrow means that the
	// programs that make them are not seen at once.
	Egress func(context.Context) error
	// Borrow tries to take a descriptor of another process.
	Borrow func(pid int) error
	// Overlay is Driver.ProbeOverlay.
	Overlay func(ctx context.Context, dir string) error
}

// probes returns the injected probes, and the real ones where there are none.
func (n *Driver) probes() Probes {
	p := n.opt.Probes
	p.Root = orElse(p.Root, func() bool { return callerIdentity().Root })
	p.Kernel = orElse(p.Kernel, kernelRelease)
	p.File = orElse(p.File, func(path string) (string, error) {
		b, err := os.ReadFile(path)
		return strings.TrimSpace(string(b)), err
	})
	p.Pidfd = orElse(p.Pidfd, probePidfd)
	p.Cell = orElse(p.Cell, n.examineCell)
	p.Landlock = orElse(p.Landlock, landlock.ABI)
	p.Notices = orElse(p.Notices, n.probeNotices)
	p.IDMap = orElse(p.IDMap, n.probeIDMap)
	p.Held = orElse(p.Held, n.probeHeld)
	p.Egress = orElse(p.Egress, n.probeEgress)
	p.Borrow = orElse(p.Borrow, probeBorrow)
	p.Overlay = orElse(p.Overlay, n.ProbeOverlay)
	return p
}

func orElse[F any](given, otherwise F) F {
	if reflect.ValueOf(given).IsNil() {
		return otherwise
	}
	return given
}

// Doctor reports which controls this host can enforce, by trying them in
// throw-away cells.
func (n *Driver) Doctor(ctx context.Context) []driver.Check {
	p := n.probes()
	dir := n.opt.ProbeDir
	if dir == "" {
		dir = os.TempDir()
	}
	// A home that was not made yet will be on the file system of its parent.
	for !isDir(dir) && dir != "/" {
		dir = filepath.Dir(dir)
	}
	found, err := p.Cell(ctx, dir)
	cells := err == nil
	list := []driver.Check{p.kernel(), p.namespaces(err)}
	list = append(list, p.controls(found)...)
	list = append(list,
		p.notices(ctx, cells),
		simple("pidfd", p.Pidfd(), "use Linux 5.4 or newer, and a seccomp profile that allows pidfd_open"),
		p.idMap(dir),
		p.hostOverlay(),
		p.overlay(ctx, dir, cells))
	list = append(list, n.limitChecks(ctx, cells)...)
	list = append(list, p.disk(ctx, cells))
	return append(list, p.egress(ctx, cells))
}

// disk is degraded at best: no kernel limit applies to one directory.
func (p Probes) disk(ctx context.Context, cells bool) driver.Check {
	c := driver.Check{
		Name: "limit disk", Status: statusDegraded, Reason: "the space that a run takes is looked at some times a second, not limited by the kernel",
		Remedy: "policies with limits.disk need --allow-degraded",
	}
	switch {
	case !cells:
		return driver.Check{Name: c.Name, Status: statusMissing, Reason: noCell}
	case p.Held(ctx) != nil:
		c.Reason += "; removed files that are open are not seen"
	}
	return c
}

// egress tries to capture the connections of a cell.
func (p Probes) egress(ctx context.Context, cells bool) driver.Check {
	const name = "network egress"
	if !cells {
		return driver.Check{Name: name, Status: statusMissing, Reason: noCell}
	}
	err := p.Egress(ctx)
	if errors.Is(err, errBorrow) {
		return driver.Check{
			Name: name, Status: statusDegraded, Reason: err.Error() + "; programs are looked for when a connection is accepted",
			Remedy: "boot with kernel.yama.ptrace_scope below 3, which cannot be lowered on a running system, or allow pidfd_getfd; rules without binaries work all the same",
		}
	}
	return simple(name, err, "use a kernel with nf_tables, and load its parts (as root: modprobe -a nft_tproxy nft_ct nft_chain_nat nft_nat nft_reject_inet); cells without a network work without")
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

const noCell = "no cell could be built: see namespaces"

// remedy returns a hint for a control that a cell lacks. A kernel that is new
// enough has all of them, so a setting disables it.
func remedy(name string) string {
	switch name {
	case protocol.HoldsLandlock:
		return "boot with landlock in the kernel's lsm= list, or run with --allow-degraded and landlock: {compatibility: best_effort} in the policy"
	case protocol.HoldsSeccomp:
		return "use a kernel with CONFIG_SECCOMP_FILTER"
	case protocol.HoldsInside:
		return "report it: a cell must not be able to make user namespaces"
	}
	return "update the kernel; if it is new enough, report it"
}

// controls returns the results of the first process of a cell, or reports that
// no cell could be built.
func (p Probes) controls(found []driver.Check) []driver.Check {
	var list []driver.Check
	for _, name := range examinedNames() {
		c := driver.Check{Name: name, Status: statusMissing, Reason: noCell}
		if i := slices.IndexFunc(found, func(c driver.Check) bool { return c.Name == name }); i >= 0 {
			c = found[i]
			if c.Status != statusWorks {
				c.Remedy = remedy(name)
			}
		}
		if name == protocol.HoldsLandlock {
			c = p.landlock(c)
		}
		list = append(list, c)
	}
	return list
}

func examinedNames() []string {
	_, names := protocol.Namespaces()
	list := make([]string, 0, len(names))
	for _, name := range names {
		list = append(list, name+" namespace")
	}
	return append(list, protocol.HoldsNoNewPrivs, protocol.HoldsCapabilities, protocol.HoldsHiddenInit, protocol.HoldsReadOnly, protocol.HoldsProc, protocol.HoldsDeadSockets,
		protocol.HoldsLandlock, protocol.HoldsSeccomp, protocol.HoldsInside)
}

// landlock adds what the kernel's Landlock can refuse to the result of a cell.
func (p Probes) landlock(c driver.Check) driver.Check {
	abi := p.Landlock()
	reason := fmt.Sprintf("ABI %d", abi)
	switch {
	case abi == 0:
		return driver.Check{Name: c.Name, Status: statusMissing, Reason: "this kernel has none, or it is switched off", Remedy: remedy(protocol.HoldsLandlock)}
	case abi < cellinit.LeastLandlock:
		return driver.Check{
			Name: c.Name, Status: statusMissing, Reason: fmt.Sprintf("%s; a hard requirement needs ABI %d", reason, cellinit.LeastLandlock),
			Remedy: fmt.Sprintf("use Linux %d.%d or newer, or run with --allow-degraded and landlock: {compatibility: best_effort} in the policy", minMajor, minMinor),
		}
	case c.Status != statusWorks:
		return c
	}
	// The controls that each ABI added.
	var gaps []string
	for _, g := range []struct {
		since int
		what  string
	}{{cellinit.FullLandlock, "truncation"}, {5, "ioctl on devices"}, {6, "signals and abstract sockets out of the cell"}} {
		if abi < g.since {
			gaps = append(gaps, g.what)
		}
	}
	if len(gaps) == 0 {
		return driver.Check{Name: c.Name, Status: statusWorks, Reason: reason + ", a hard requirement is met"}
	}
	return driver.Check{
		Name: c.Name, Status: statusDegraded, Reason: fmt.Sprintf("%s, a hard requirement is met; other controls alone refuse: %s", reason, strings.Join(gaps, "; ")),
		Remedy: "use Linux 6.12 or newer",
	}
}

func (p Probes) notices(ctx context.Context, cells bool) driver.Check {
	if !cells {
		return driver.Check{Name: protocol.HoldsNotices, Status: statusMissing, Reason: noCell}
	}
	c := simple(protocol.HoldsNotices, p.Notices(ctx), "denied calls are refused all the same, but give no events; use a kernel with seccomp user notification")
	if c.Status == statusMissing {
		c.Status = statusDegraded
	}
	return c
}

func (p Probes) overlay(ctx context.Context, dir string, cells bool) driver.Check {
	name := "overlay in " + dir
	if !cells {
		return driver.Check{Name: name, Status: statusMissing, Reason: noCell}
	}
	return simple(name, p.Overlay(ctx, dir),
		"keep the state directory on a local file system such as ext4, xfs or btrfs; elsewhere cells use the clone backend")
}

// simple turns the error of a probe into a check.
func simple(name string, err error, remedy string) driver.Check {
	if err != nil {
		return driver.Check{Name: name, Status: statusMissing, Reason: err.Error(), Remedy: remedy}
	}
	return driver.Check{Name: name, Status: statusWorks}
}

// The oldest kernel that is supported.
const minMajor, minMinor = 6, 1

func (p Probes) kernel() driver.Check {
	release := p.Kernel()
	c := driver.Check{Name: "kernel", Status: statusWorks, Reason: release}
	major, rest, _ := strings.Cut(release, ".")
	digits := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if digits >= 0 {
		rest = rest[:digits]
	}
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(rest)
	if errA != nil || errB != nil {
		return driver.Check{Name: c.Name, Status: statusMissing, Reason: fmt.Sprintf("release %q is not understood", release)}
	}
	if a < minMajor || a == minMajor && b < minMinor {
		c.Status = statusMissing
		c.Reason = fmt.Sprintf("%s is older than %d.%d", release, minMajor, minMinor)
		c.Remedy = fmt.Sprintf("use Linux %d.%d or newer", minMajor, minMinor)
	}
	return c
}

// namespaces reports whether a cell could be built. If that was refused, it
// looks for the setting that refused it.
func (p Probes) namespaces(err error) driver.Check {
	c := driver.Check{Name: "namespaces", Status: statusWorks}
	if err != nil {
		c.Status = statusMissing
		c.Reason, c.Remedy = p.whyNoNamespaces(err)
	}
	return c
}

func (p Probes) whyNoNamespaces(err error) (reason, remedy string) {
	is := func(path, value string) bool {
		got, readErr := p.File(path)
		return readErr == nil && got == value
	}
	var se *fault.StartError
	step := ""
	if errors.As(err, &se) {
		step = se.Step
	}
	switch {
	case is("/proc/sys/user/max_user_namespaces", "0"):
		return "user.max_user_namespaces is 0: the kernel makes no user namespaces",
			"as root: sysctl -w user.max_user_namespaces=15000 (and in /etc/sysctl.d to keep it)"
	case !p.Root() && is("/proc/sys/kernel/unprivileged_userns_clone", "0"):
		return "kernel.unprivileged_userns_clone is 0: only root may make user namespaces",
			"as root: sysctl -w kernel.unprivileged_userns_clone=1 (and in /etc/sysctl.d to keep it)"
	case !p.Root() && is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"):
		return "kernel.apparmor_restrict_unprivileged_userns is 1: AppArmor takes the rights of user namespaces away from programs without a profile",
			"sudo forkcell setup, which installs an AppArmor profile for this program"
	case step == "proc":
		return "the host's /proc is partly hidden, so a new one is refused: " + err.Error(),
			"in a container: run it with an unmasked /proc (docker: --security-opt systempaths=unconfined)"
	case p.Root() && p.missingRange():
		return fmt.Sprintf("the ids %d to %d do not exist in this user namespace", idBase, idBase+idCount-1),
			"run as an ordinary user, or outside the container"
	case errors.Is(err, unix.EPERM) && step == "namespaces":
		return "making namespaces is refused: " + err.Error(),
			"in a container: allow clone with new namespaces (docker: --security-opt seccomp=unconfined)"
	}
	return err.Error(), ""
}

// missingRange reports whether this user namespace lacks the ids of a root caller's
// cells.
func (p Probes) missingRange() bool {
	text, err := p.File("/proc/self/uid_map")
	if err != nil {
		return false
	}
	for line := range strings.Lines(text) {
		var inside, outside, count uint64
		if _, err := fmt.Sscan(line, &inside, &outside, &count); err == nil &&
			inside <= idBase && idBase+idCount <= inside+count {
			return false
		}
	}
	return true
}

func (p Probes) idMap(dir string) driver.Check {
	const name = "id-mapped mounts"
	if !p.Root() {
		return driver.Check{Name: name, Status: statusWorks, Reason: "not needed by an ordinary user"}
	}
	return simple(name, p.IDMap(dir), "keep the state directory on a file system with id-mapped mounts, such as ext4, xfs or btrfs, or run as an ordinary user")
}

// hostOverlay reports whether a cell can have the host's system as a writable
// overlay.
func (p Probes) hostOverlay() driver.Check {
	const name = "--root host-overlay"
	if !p.Root() {
		return driver.Check{Name: name, Status: statusMissing, Reason: driver.HostOverlayNeedsRoot, Remedy: driver.HostOverlayRemedy}
	}
	return simple(name, p.IDMap("/usr"), "the host's system must be on a file system with id-mapped mounts, such as ext4, xfs or btrfs; in a container it is not")
}

func (n *Driver) probeIDMap(dir string) error {
	ns, err := n.layers.get()
	if err != nil {
		return err
	}
	fd, err := mountfd.CloneTree(unix.AT_FDCWD, dir, mountfd.AttrHost, int(ns.Fd()))
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return unix.Close(fd)
}
