package native

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/native/cellinit"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/cgroup"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

func TestProbeOverlay(t *testing.T) {
	t.Parallel()
	for _, legacy := range []bool{false, true} {
		dir := t.TempDir()
		if err := New(Options{ForceLegacyMounts: legacy}).ProbeOverlay(t.Context(), dir); err != nil {
			t.Errorf("legacy %v: %v", legacy, err)
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) != 0 {
			t.Errorf("the probe left %v, %v", left, err)
		}
	}
	if err := New(Options{}).ProbeOverlay(t.Context(), "/proc"); err == nil {
		t.Error("an overlay in /proc")
	}
}

func find(t *testing.T, checks []driver.Check, name string) driver.Check {
	t.Helper()
	for _, c := range checks {
		if strings.HasPrefix(c.Name, name) {
			return c
		}
	}
	t.Fatalf("no check %q in %v", name, checks)
	return driver.Check{}
}

// worksHere are the controls that every host that tests run on has.
func worksHere() []string {
	return append(examinedNames(), "kernel", "namespaces", protocol.HoldsNotices, "pidfd", "id-mapped mounts", "overlay in ")
}

// hasNetfilter reports whether this kernel can be told about packets at all: it may
// lack the module, and then nothing can be captured.
func hasNetfilter() bool {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)
	_ = unix.Close(fd)
	return !errors.Is(err, unix.EPROTONOSUPPORT)
}

func TestDoctorHere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	checks := New(Options{ProbeDir: dir}).Doctor(t.Context())
	seen := map[string]bool{}
	for _, c := range checks {
		if seen[c.Name] || !slices.Contains([]string{statusWorks, statusDegraded, statusMissing}, c.Status) {
			t.Errorf("%+v", c)
		}
		seen[c.Name] = true
		if c.Status != statusWorks && c.Reason == "" {
			t.Errorf("no reason: %+v", c)
		}
	}
	for _, name := range worksHere() {
		// An older kernel's Landlock may do less.
		if c := find(t, checks, name); c.Status == statusMissing {
			t.Errorf("%+v", c)
		}
	}
	if c := find(t, checks, "network egress"); c.Status != statusWorks && (hasNetfilter() || c.Remedy == "") {
		t.Errorf("%+v", c)
	}
	if c := find(t, checks, "limit disk"); c.Status != statusDegraded || strings.Contains(c.Reason, "not seen") {
		t.Errorf("%+v", c)
	}
	if c := find(t, checks, "--root host-overlay"); os.Geteuid() != 0 && !strings.Contains(c.Reason, "subordinate ids") || c.Status == statusMissing && c.Remedy == "" {
		t.Errorf("%+v", c)
	}
	for _, name := range []string{"limit memory", "limit cpu", "limit pids", "freezer"} {
		c := find(t, checks, name)
		if c.Status == statusMissing && c.Remedy == "" {
			t.Errorf("no remedy: %+v", c)
		}
		if os.Geteuid() != 0 && c.Status == statusMissing && !strings.Contains(c.Remedy, "run as root") {
			t.Errorf("an ordinary user is told %+v", c)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Each case takes a control group away and expects it to be named.
func TestDoctorLimits(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]cgroup.Options{
		"limit memory": {Without: []cgroup.Control{cgroup.Memory}},
		"limit cpu":    {Without: []cgroup.Control{cgroup.CPU}},
		"limit pids":   {Without: []cgroup.Control{cgroup.PIDs}},
		"freezer":      {Without: []cgroup.Control{cgroup.Freezer}},
	} {
		c := find(t, New(Options{Cgroups: opt}).limitChecks(t.Context(), false), name)
		if c.Status != statusMissing || !strings.Contains(c.Reason, "taken away") {
			t.Errorf("%s: %+v", name, c)
		}
		if instead := strings.Contains(c.Reason, "RLIMIT_NPROC"); instead != (name == "limit pids") {
			t.Errorf("%s: %+v", name, c)
		}
	}
	for _, c := range New(Options{Cgroups: cgroup.Options{WithoutV1: true, WithoutV2: true}}).limitChecks(t.Context(), true) {
		if c.Status != statusMissing || !strings.Contains(c.Remedy, "control groups") {
			t.Errorf("none: %+v", c)
		}
	}
	broken := cgroup.Options{Proc: t.TempDir()}
	for _, c := range New(Options{Cgroups: broken}).limitChecks(t.Context(), true) {
		if c.Status != statusMissing || c.Reason == "" {
			t.Errorf("unreadable: %+v", c)
		}
	}
}

// Each case takes one feature of the host away and expects its cause to be named.
func TestDoctorCauses(t *testing.T) {
	t.Parallel()
	refused := func(step string) func(context.Context, string) ([]driver.Check, error) {
		return func(context.Context, string) ([]driver.Check, error) {
			return nil, &driver.StartError{Step: step, Err: unix.EPERM}
		}
	}
	file := func(path, text string) func(string) (string, error) {
		return func(p string) (string, error) {
			if p == path {
				return text, nil
			}
			return "", os.ErrNotExist
		}
	}
	abi := func(n int) func() int { return func() int { return n } }
	no := func() bool { return false }
	yes := func() bool { return true }
	for name, c := range map[string]struct {
		probes         Probes
		check, status  string
		reason, remedy string
	}{
		"apparmor": {
			probes: Probes{Root: no, Cell: refused("root"), File: file("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1")},
			check:  "namespaces", reason: "apparmor_restrict_unprivileged_userns is 1", remedy: "sudo forkcell setup",
		},
		"limit": {
			probes: Probes{Cell: refused("namespaces"), File: file("/proc/sys/user/max_user_namespaces", "0")},
			check:  "namespaces", reason: "max_user_namespaces is 0", remedy: "sysctl -w user.max_user_namespaces",
		},
		"debian": {
			probes: Probes{Root: no, Cell: refused("namespaces"), File: file("/proc/sys/kernel/unprivileged_userns_clone", "0")},
			check:  "namespaces", reason: "unprivileged_userns_clone is 0", remedy: "sysctl -w kernel.unprivileged_userns_clone=1",
		},
		"masked proc": {
			probes: Probes{Cell: refused("proc")},
			check:  "namespaces", reason: "/proc is partly hidden", remedy: "systempaths=unconfined",
		},
		"nested root": {
			probes: Probes{Root: yes, Cell: refused("namespaces"), File: file("/proc/self/uid_map", "0 1000 1\n1 100000 65536")},
			check:  "namespaces", reason: "do not exist in this user namespace", remedy: "ordinary user",
		},
		"container": {
			probes: Probes{Root: no, Cell: refused("namespaces")},
			check:  "namespaces", reason: "is refused", remedy: "seccomp=unconfined",
		},
		"what needs a cell": {probes: Probes{Root: no, Cell: refused("namespaces")}, check: protocol.HoldsSeccomp, reason: noCell},
		"a user's system":   {probes: Probes{Root: no}, check: "--root host-overlay", reason: driver.HostOverlayNeedsRoot},
		"reports":           {probes: Probes{Root: no, Cell: refused("namespaces")}, check: protocol.HoldsNotices, reason: noCell},
		"overlay":           {probes: Probes{Root: no, Cell: refused("namespaces")}, check: "overlay", reason: noCell},
		"old kernel":        {probes: Probes{Kernel: func() string { return "5.15.0-91-generic" }}, check: "kernel", reason: "older than 6.1", remedy: "Linux 6.1"},
		"odd kernel":        {probes: Probes{Kernel: func() string { return "odd" }}, check: "kernel", reason: "not understood"},
		"no id maps": {
			probes: Probes{Root: yes, IDMap: func(string) error { return unix.EINVAL }},
			check:  "id-mapped mounts", reason: "invalid argument", remedy: "ext4",
		},
		"no pidfd": {probes: Probes{Pidfd: func() error { return unix.ENOSYS }}, check: "pidfd", reason: "not implemented", remedy: "5.4"},
		"no overlay": {
			probes: Probes{Overlay: func(context.Context, string) error { return errors.New("upper refused") }},
			check:  "overlay", reason: "upper refused", remedy: "clone backend",
		},
		"no landlock":  {probes: Probes{Landlock: abi(0)}, check: protocol.HoldsLandlock, reason: "has none", remedy: "lsm="},
		"old landlock": {probes: Probes{Landlock: abi(cellinit.LeastLandlock - 1)}, check: protocol.HoldsLandlock, reason: "a hard requirement needs ABI", remedy: "best_effort"},
		"landlock without truncation": {
			probes: Probes{Landlock: abi(2)}, check: protocol.HoldsLandlock, status: statusDegraded, reason: "truncation; ioctl on devices; signals", remedy: "6.12",
		},
		"landlock without devices": {
			probes: Probes{Landlock: abi(4)}, check: protocol.HoldsLandlock, status: statusDegraded, reason: "refuse: ioctl on devices; signals", remedy: "6.12",
		},
		"landlock without scopes": {
			probes: Probes{Landlock: abi(5)}, check: protocol.HoldsLandlock, status: statusDegraded, reason: "refuse: signals", remedy: "6.12",
		},
		"no borrowing": {
			probes: Probes{Egress: func(context.Context) error { return errBorrow }},
			check:  "network egress", status: statusDegraded, reason: "ptrace_scope=3", remedy: "below 3",
		},
		"no reports": {
			probes: Probes{Notices: func(context.Context) error { return unix.EINVAL }},
			check:  protocol.HoldsNotices, status: statusDegraded, reason: "invalid argument", remedy: "no events",
		},
	} {
		got := find(t, New(Options{Probes: otherwiseFine(c.probes)}).Doctor(t.Context()), c.check)
		status := cmp.Or(c.status, statusMissing)
		if got.Status != status || !strings.Contains(got.Reason, c.reason) || !strings.Contains(got.Remedy, c.remedy) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// otherwiseFine makes what a case leaves alone work, and at once.
func otherwiseFine(p Probes) Probes {
	fine := func(context.Context, string) ([]driver.Check, error) {
		var list []driver.Check
		for _, name := range examinedNames() {
			list = append(list, driver.Check{Name: name, Status: statusWorks})
		}
		return list, nil
	}
	p.Cell = orElse(p.Cell, fine)
	p.Landlock = orElse(p.Landlock, func() int { return 6 })
	p.Notices = orElse(p.Notices, func(context.Context) error { return nil })
	p.Overlay = orElse(p.Overlay, func(context.Context, string) error { return nil })
	p.IDMap = orElse(p.IDMap, func(string) error { return nil })
	p.File = orElse(p.File, func(string) (string, error) { return "", os.ErrNotExist })
	return p
}

func TestResolve(t *testing.T) {
	t.Parallel()
	c, err := New(Options{}).Resolve(driver.Spec{Command: driver.Command{Args: []string{"true"}, Workdir: "/"}})
	if err != nil || c.Runtime != "native" || !c.NoNewPrivs || c.Seccomp == "absent" || len(c.Namespaces) != 7 {
		t.Errorf("%+v, %v", c, err)
	}
	if c.Network != "loopback only" {
		t.Errorf("without a network: %q", c.Network)
	}
	c, err = New(Options{}).Resolve(driver.Spec{Command: driver.Command{Args: []string{"true"}, Workdir: "/"}, Network: &driver.Network{}})
	if err != nil || c.Network != describeNetwork {
		t.Errorf("with a network: %q, %v", c.Network, err)
	}
}

func TestWaitGone(t *testing.T) {
	t.Parallel()
	self, err := startTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := awaitProcess(os.Getpid(), self, 1); !errors.Is(err, driver.ErrStillRunning) {
		t.Errorf("this process: %v", err)
	}
	if err := awaitProcess(os.Getpid(), self+1, 1); err != nil {
		t.Errorf("an earlier process of this pid: %v", err)
	}
}
