package driver

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestProbeOverlay(t *testing.T) {
	t.Parallel()
	for _, legacy := range []bool{false, true} {
		dir := t.TempDir()
		if err := NewNative(Options{ForceLegacyMounts: legacy}).ProbeOverlay(t.Context(), dir); err != nil {
			t.Errorf("legacy %v: %v", legacy, err)
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) != 0 {
			t.Errorf("the probe left %v, %v", left, err)
		}
	}
	if err := NewNative(Options{}).ProbeOverlay(t.Context(), "/proc"); err == nil {
		t.Error("an overlay in /proc")
	}
}

func find(t *testing.T, checks []Check, name string) Check {
	t.Helper()
	for _, c := range checks {
		if strings.HasPrefix(c.Name, name) {
			return c
		}
	}
	t.Fatalf("no check %q in %v", name, checks)
	return Check{}
}

func TestDoctorHere(t *testing.T) {
	t.Parallel()
	checks := NewNative(Options{ProbeDir: t.TempDir()}).Doctor(t.Context())
	for _, name := range []string{"kernel", "namespaces", "pidfd", "id-mapped mounts", "overlay"} {
		if c := find(t, checks, name); c.Status != statusWorks {
			t.Errorf("%+v", c)
		}
	}
	for _, name := range []string{"landlock", "seccomp", "limits", "network egress"} {
		if c := find(t, checks, name); c.Status != statusMissing || c.Reason != "not part of this version" {
			t.Errorf("%+v", c)
		}
	}
}

// Each case takes one feature away and expects its cause to be named.
func TestDoctorCauses(t *testing.T) {
	t.Parallel()
	refused := func(step string) func(context.Context) error {
		return func(context.Context) error { return &StartError{Step: step, Err: unix.EPERM} }
	}
	file := func(path, text string) func(string) (string, error) {
		return func(p string) (string, error) {
			if p == path {
				return text, nil
			}
			return "", os.ErrNotExist
		}
	}
	no := func() bool { return false }
	yes := func() bool { return true }
	for name, c := range map[string]struct {
		probes         Probes
		check          string
		reason, remedy string
	}{
		"apparmor": {
			Probes{Root: no, Cell: refused("root"), File: file("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1")},
			"namespaces", "apparmor_restrict_unprivileged_userns is 1", "AppArmor profile",
		},
		"limit": {
			Probes{Cell: refused("namespaces"), File: file("/proc/sys/user/max_user_namespaces", "0")},
			"namespaces", "max_user_namespaces is 0", "sysctl -w user.max_user_namespaces",
		},
		"debian": {
			Probes{Root: no, Cell: refused("namespaces"), File: file("/proc/sys/kernel/unprivileged_userns_clone", "0")},
			"namespaces", "unprivileged_userns_clone is 0", "sysctl -w kernel.unprivileged_userns_clone=1",
		},
		"masked proc": {Probes{Cell: refused("proc")}, "namespaces", "/proc is partly hidden", "systempaths=unconfined"},
		"nested root": {
			Probes{Root: yes, Cell: refused("namespaces"), File: file("/proc/self/uid_map", "0 1000 1\n1 100000 65536")},
			"namespaces", "do not exist in this user namespace", "ordinary user",
		},
		"seccomp":    {Probes{Root: no, Cell: refused("namespaces")}, "namespaces", "is refused", "seccomp=unconfined"},
		"old kernel": {Probes{Kernel: func() string { return "5.15.0-91-generic" }}, "kernel", "older than 6.1", "Linux 6.1"},
		"odd kernel": {Probes{Kernel: func() string { return "odd" }}, "kernel", "not understood", ""},
		"no id maps": {Probes{Root: yes, IDMap: func(string) error { return unix.EINVAL }}, "id-mapped mounts", "invalid argument", "ext4"},
		"no pidfd":   {Probes{Pidfd: func() error { return unix.ENOSYS }}, "pidfd", "not implemented", "5.4"},
		"no overlay": {
			Probes{Overlay: func(context.Context, string) error { return errors.New("upper refused") }},
			"overlay", "upper refused", "clone backend",
		},
	} {
		// What a case leaves alone works, and at once.
		p := c.probes
		if p.Cell == nil {
			p.Cell = func(context.Context) error { return nil }
		}
		if p.Overlay == nil {
			p.Overlay = func(context.Context, string) error { return nil }
		}
		if p.IDMap == nil {
			p.IDMap = func(string) error { return nil }
		}
		if p.File == nil {
			p.File = file("", "")
		}
		got := find(t, NewNative(Options{Probes: p}).Doctor(t.Context()), c.check)
		if got.Status != statusMissing || !strings.Contains(got.Reason, c.reason) || !strings.Contains(got.Remedy, c.remedy) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	c, err := NewNative(Options{}).Resolve(Spec{Command: Command{Args: []string{"true"}, Workdir: "/"}})
	if err != nil || c.Runtime != "native" || !c.NoNewPrivs || c.Seccomp == "absent" || len(c.Namespaces) != 7 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestWaitGone(t *testing.T) {
	t.Parallel()
	self, err := StartTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := WaitGone(os.Getpid(), self, 1); !errors.Is(err, ErrStillRunning) {
		t.Errorf("this process: %v", err)
	}
	if err := WaitGone(os.Getpid(), self+1, 1); err != nil {
		t.Errorf("an earlier process of this pid: %v", err)
	}
}
