package gvisor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/drivertest"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/cgroup"
)

// TestRefusals: what a guest cannot enforce is refused before anything is started.
func TestRefusals(t *testing.T) {
	t.Parallel()
	d := New(Options{Runtime: "/bin/true"})
	command := driver.Command{Args: []string{"true"}, Workdir: "/"}
	for name, s := range map[string]driver.Spec{
		"allow_syscalls": {Guard: driver.Guard{AllowSyscalls: []string{"mount"}}, Command: command},
		"limit pids":     {Limits: driver.Limits{PIDs: 10}, Command: command},
		"a template":     {Template: true, Command: command},
		"an ssh agent":   {Network: &driver.Network{Socket: "/.forkcell/ssh-agent"}, Command: command},

		"landlock.compatibility: hard_requirement": {Guard: driver.Guard{LandlockRequired: true}, Command: command},

		"binaries in network policies": {Network: &driver.Network{Serve: func(driver.Captured) (func(), error) { return func() {}, nil }, Programs: true}, Command: command},
	} {
		_, err := d.Run(t.Context(), s, driver.Stdio{})
		no, ok := errors.AsType[*driver.UnenforceableError](err)
		if !ok || no.Control != name || no.Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := d.Resolve(s); !errors.As(err, new(*driver.UnenforceableError)) {
			t.Errorf("%s: resolve: %v", name, err)
		}
	}
	s := driver.Spec{Limits: driver.Limits{PIDs: 10, OpenFiles: 40}, Guard: driver.Guard{AllowDegraded: true, LandlockRequired: true}, Command: command}
	c, err := d.Resolve(s)
	for _, control := range []string{"limit pids", "landlock"} {
		if err != nil || !slices.ContainsFunc(c.Degraded, func(s string) bool { return strings.HasPrefix(s, control+" is not enforced: ") }) {
			t.Errorf("%s, allowed to be degraded: %+v, %v", control, c, err)
		}
	}
	if c.Limits != "open files 40" {
		t.Errorf("limits %q are claimed", c.Limits)
	}
	if c.Runtime != "gvisor" || !strings.Contains(c.Kernel, "gVisor") || !strings.HasPrefix(c.Landlock, "none") {
		t.Errorf("controls %+v", c)
	}
}

// TestNoRuntime: a host without the runtime is told what to do.
func TestNoRuntime(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	d := New(Options{})
	_, err := d.Run(t.Context(), driver.Spec{Command: driver.Command{Args: []string{"true"}, Workdir: "/"}}, driver.Stdio{})
	no, ok := errors.AsType[*driver.UnenforceableError](err)
	if !ok || !strings.Contains(no.Remedy, "make gvisor") {
		t.Error(err)
	}
	if checks := d.Doctor(t.Context()); len(checks) != 1 || checks[0].Status != "missing" || checks[0].Remedy != no.Remedy {
		t.Errorf("%+v", checks)
	}
}

// TestBrokenRuntime: what the runtime says on its way out is the reason.
func TestBrokenRuntime(t *testing.T) {
	t.Parallel()
	d := New(Options{Runtime: "/bin/ls"})
	_, err := d.Run(t.Context(), driver.Spec{Command: driver.Command{Args: []string{"true"}, Workdir: "/"}}, driver.Stdio{})
	se, ok := errors.AsType[*driver.StartError](err)
	if !ok || se.Step != "gvisor" || !strings.Contains(err.Error(), "cannot access 'cell'") {
		t.Error(err)
	}
}

// TestDoctor tries a guest. The row says what the suite does not claim for it.
func TestDoctor(t *testing.T) {
	needRuntime(t)
	t.Parallel()
	s := suite()
	rows := s.New().Doctor(t.Context())
	if len(rows) != 1 || rows[0].Status != "works" {
		t.Fatalf("%+v", rows)
	}
	for claim, words := range map[drivertest.Claim]string{
		drivertest.Absence: "paths that stay absent", drivertest.Programs: "rules for the program that connects", drivertest.Sockets: "sockets of the host",
		drivertest.Limits: "limits of processes", drivertest.Reports: "events of denied calls", drivertest.Locks: "locks shared with the host",
		drivertest.Mounts: "mounts", drivertest.Isolation: "isolation", drivertest.Network: "network",
	} {
		if slices.Contains(s.Claims, claim) == strings.Contains(rows[0].Reason, words) {
			t.Errorf("%s: the row is %q", claim, rows[0].Reason)
		}
	}
}

// TestMemoryLimit: the guest's memory is that of its cell.
func TestMemoryLimit(t *testing.T) {
	needRuntime(t)
	host, err := cgroup.Detect(cgroup.Options{})
	if err != nil || host.Can(cgroup.Memory).Status != cgroup.Works {
		t.Skip("no control group limits memory here")
	}
	f := suite().Fixture(t)
	f.Spec.ID, f.Spec.Limits.Memory = fmt.Sprintf("gvisor-memory-%d", os.Getpid()), 256<<20
	s := f.Spec
	s.Args = []string{"sh", "-c", "head -c 1000000000 /dev/zero | tail >/dev/null"}
	var said bytes.Buffer
	out, err := f.Run(t.Context(), s, driver.Stdio{Err: &said})
	if err != nil || out.Code == 0 || out.Usage.OOMKills == 0 {
		t.Errorf("%+v, %v, %s", out, err, said.String())
	}
}
