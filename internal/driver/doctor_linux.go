package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/mount"
)

// Statuses of a Check.
const (
	statusWorks   = "works"
	statusMissing = "missing"
)

// Probes ask the host. Each can be replaced, so that a test can take a feature
// away; nil ones are real.
type Probes struct {
	// Root says whether the caller is root.
	Root func() bool
	// Kernel is the release, such as 6.12.3-generic.
	Kernel func() string
	// File returns the contents of a kernel setting; an error means that this
	// kernel does not have it.
	File func(path string) (string, error)
	// Pidfd opens a process by descriptor.
	Pidfd func() error
	// Cell builds an empty cell.
	Cell func(context.Context) error
	// IDMap makes an id-mapped mount of a directory.
	IDMap func(dir string) error
	// Overlay is Native.ProbeOverlay.
	Overlay func(ctx context.Context, dir string) error
}

// probes returns the injected probes, and the real ones where there are none.
func (n *Native) probes() Probes {
	p := n.opt.Probes
	if p.Root == nil {
		p.Root = func() bool { return callerIdentity().Root }
	}
	if p.Kernel == nil {
		p.Kernel = kernelRelease
	}
	if p.File == nil {
		p.File = func(path string) (string, error) {
			b, err := os.ReadFile(path)
			return strings.TrimSpace(string(b)), err
		}
	}
	if p.Pidfd == nil {
		p.Pidfd = func() error {
			fd, err := unix.PidfdOpen(os.Getpid(), 0)
			if err != nil {
				return fmt.Errorf("pidfd_open: %w", err)
			}
			return unix.Close(fd)
		}
	}
	if p.Cell == nil {
		p.Cell = func(ctx context.Context) error { return n.probe(ctx, mount.Set{}, "") }
	}
	if p.IDMap == nil {
		p.IDMap = n.probeIDMap
	}
	if p.Overlay == nil {
		p.Overlay = n.ProbeOverlay
	}
	return p
}

// Doctor says what this host can enforce, control by control.
func (n *Native) Doctor(ctx context.Context) []Check {
	p := n.probes()
	dir := n.opt.ProbeDir
	if dir == "" {
		dir = os.TempDir()
	}
	checks := []Check{
		p.kernel(),
		p.namespaces(ctx),
		simple("pidfd", p.Pidfd(), "Linux 5.4 or newer is needed, and a seccomp profile that allows pidfd_open"),
		p.idMap(dir),
		simple("overlay in "+dir, p.Overlay(ctx, dir),
			"keep the state directory on a local file system such as ext4, xfs or btrfs; elsewhere cells use the clone backend"),
	}
	for _, name := range []string{"landlock", "seccomp", "limits (cgroup)", "network egress"} {
		checks = append(checks, Check{Name: name, Status: statusMissing, Reason: "not part of this version"})
	}
	return checks
}

// simple turns the error of a probe into a check.
func simple(name string, err error, remedy string) Check {
	if err != nil {
		return Check{Name: name, Status: statusMissing, Reason: err.Error(), Remedy: remedy}
	}
	return Check{Name: name, Status: statusWorks}
}

// The oldest kernel that is supported.
const minMajor, minMinor = 6, 1

func (p Probes) kernel() Check {
	release := p.Kernel()
	c := Check{Name: "kernel", Status: statusWorks, Reason: release}
	major, rest, _ := strings.Cut(release, ".")
	digits := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if digits >= 0 {
		rest = rest[:digits]
	}
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(rest)
	if errA != nil || errB != nil {
		return Check{Name: c.Name, Status: statusMissing, Reason: fmt.Sprintf("release %q is not understood", release)}
	}
	if a < minMajor || a == minMajor && b < minMinor {
		c.Status = statusMissing
		c.Reason = fmt.Sprintf("%s is older than %d.%d", release, minMajor, minMinor)
		c.Remedy = fmt.Sprintf("use Linux %d.%d or newer", minMajor, minMinor)
	}
	return c
}

// namespaces builds an empty cell and, if that is refused, looks for the rule
// that refuses it.
func (p Probes) namespaces(ctx context.Context) Check {
	c := Check{Name: "namespaces", Status: statusWorks}
	err := p.Cell(ctx)
	if err == nil {
		return c
	}
	c.Status = statusMissing
	c.Reason, c.Remedy = p.whyNoNamespaces(err)
	return c
}

func (p Probes) whyNoNamespaces(err error) (reason, remedy string) {
	is := func(path, value string) bool {
		got, readErr := p.File(path)
		return readErr == nil && got == value
	}
	var se *StartError
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
			"as root: install an AppArmor profile that grants userns to the forkcell binary, or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
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

// missingRange says whether this user namespace lacks the ids of a root caller's
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

func (p Probes) idMap(dir string) Check {
	const name = "id-mapped mounts"
	if !p.Root() {
		return Check{Name: name, Status: statusWorks, Reason: "not needed by an ordinary user"}
	}
	return simple(name, p.IDMap(dir), "keep the state directory on a file system with id-mapped mounts, such as ext4, xfs or btrfs, or run as an ordinary user")
}

func (n *Native) probeIDMap(dir string) error {
	ns, err := n.layers.get()
	if err != nil {
		return err
	}
	fd, err := cloneTree(unix.AT_FDCWD, dir, attrHost, int(ns.Fd()))
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return unix.Close(fd)
}
