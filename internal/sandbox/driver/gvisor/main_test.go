package gvisor

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
	"github.com/forkcell/forkcell/internal/sandbox/driver/drivertest"
	"github.com/forkcell/forkcell/internal/sandbox/driver/gvisor/minder"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/cellinit"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/cgroup"
)

// envRuntime names the runtime. make test-gvisor builds it.
const envRuntime = "FORKCELL_TEST_GVISOR"

// The test binary is also the first process of cells and of guests.
func init() {
	if minder.IsMinder() {
		minder.Main()
	}
	if cellinit.IsInit() {
		cellinit.Main()
	}
}

func TestMain(m *testing.M) {
	suite().Main()
	os.Exit(m.Run())
}

// needRuntime skips a test where the runtime was not built.
func needRuntime(t *testing.T) {
	t.Helper()
	if os.Getenv(envRuntime) == "" {
		t.Skip("make test-gvisor builds the runtime and runs this test")
	}
}

func suite() drivertest.Suite {
	return drivertest.Suite{
		New:        func() driver.Driver { return New(Options{Runtime: os.Getenv(envRuntime)}) },
		Claims:     []drivertest.Claim{drivertest.Mounts, drivertest.Isolation, drivertest.Network},
		Controls:   controlsShown(),
		UserOnHost: native.HostUser(), RootOnDisk: native.CallerIdentity().UID,
		OwnKernel:   true,
		Supervisor:  []string{"/proc/self/exe"},
		Environment: []string{envRuntime + "=" + os.Getenv(envRuntime)},
	}
}

// controlsShown are those that a guest has as a native cell has them.
func controlsShown() []control.Name {
	return []control.Name{
		control.Capabilities, control.CgroupNS, control.DeadSockets, control.Descriptors,
		control.Detached, control.Environment, control.Fixed, control.HiddenInit, control.IDs, control.IPCNS,
		control.LiveCalls, control.Masks, control.NetNS,
		control.NoSUID, control.OwnEtc, control.PIDNS, control.Plain,
		control.ProcMasks, control.PublicView, control.ReadOnly, control.ReadOnlyProc,
		control.Signals, control.UserNS, control.UTSNS, control.Workdir,
	}
}

// TestContract runs the suite.
func TestContract(t *testing.T) {
	needRuntime(t)
	t.Parallel()
	s := suite()
	host, err := cgroup.Detect(cgroup.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if host.Can(cgroup.Freezer).Status == cgroup.Works {
		s.Claims = append(s.Claims, drivertest.Freezer)
	}
	s.Table = &drivertest.Table{File: "../../../../docs/reference/runtimes.md", Column: "gvisor"}
	s.Run(t)
}

// ordinary is a user without rights.
const ordinary = 65533

// TestAsOrdinaryUser runs every other test of the package again without root.
func TestAsOrdinaryUser(t *testing.T) {
	needRuntime(t)
	if os.Geteuid() != 0 {
		t.Skip("the other tests are running as an ordinary user already")
	}
	t.Parallel()
	// Not t.TempDir: its parents may be closed to other users.
	dir, err := os.MkdirTemp("/tmp", "forkcell-gvisor-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chown(dir, ordinary, ordinary); err != nil {
		t.Fatal(err)
	}
	self, runtime := filepath.Join(dir, "gvisor.test"), filepath.Join(dir, "runtime") // not beside it, where it would be found
	copyProgram(t, "/proc/self/exe", self)
	copyProgram(t, os.Getenv(envRuntime), runtime)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^Test", "-test.timeout=5m")
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=" + cellinit.DefaultPath, envRuntime + "=" + runtime}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
	cmd.WaitDelay = time.Minute // for what holds its output when it has ended
	out, err := cmd.CombinedOutput()
	if err != nil || testing.Verbose() {
		t.Logf("as uid %d:\n%s", ordinary, out)
	}
	if err != nil {
		t.Fatalf("as uid %d: %v", ordinary, err)
	}
}

// copyProgram copies a program to where other users can execute it.
func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
}
