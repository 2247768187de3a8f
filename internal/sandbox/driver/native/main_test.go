package native

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/driver/control"
	"github.com/forkcell/forkcell/internal/sandbox/driver/drivertest"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/cellinit"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/shim"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/cgroup"
)

// The test binary plays many parts: the tests, the cells' first processes, those of
// package drivertest, and a process that runs one cell after the other.
const (
	envUser = "FORKCELL_TEST_USER"
	testUID = 65533
)

// Only before main is the goroutine certain to be on the process's first thread,
// whose credentials and restrictions are the ones that /proc/1 shows.
func init() {
	if cellinit.IsInit() {
		cellinit.Main()
	}
}

func TestMain(m *testing.M) {
	if manager, is := shim.Manager(os.Args); is {
		os.Exit(shim.Main(manager, os.Args[1:]))
	}
	suite().Main()
	if dir := os.Getenv(envRunner); dir != "" {
		manyRuns(dir)
	}
	os.Exit(m.Run())
}

// TestAsOrdinaryUser runs every other test of the package again without root.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the other tests are running as an ordinary user already")
	}
	t.Parallel()
	// Not t.TempDir: its parents may be closed to other users.
	dir, err := os.MkdirTemp("/tmp", "forkcell-driver-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chown(dir, testUID, testUID); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^Test", "-test.timeout=5m")
	if testing.Verbose() {
		cmd.Args = append(cmd.Args, "-test.v")
	}
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=" + cellinit.DefaultPath, envUser + "=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testUID, Gid: testUID}}
	cmd.WaitDelay = time.Minute // for what holds its output when it has ended
	out, err := cmd.CombinedOutput()
	if err != nil || testing.Verbose() {
		t.Logf("as uid %d:\n%s", testUID, out)
	}
	if err != nil {
		t.Fatalf("as uid %d: %v", testUID, err)
	}
}

// fixture is a cell of the native driver.
type fixture struct {
	*drivertest.Fixture
	native *Driver
}

func newFixture(t *testing.T, opt Options) *fixture {
	t.Helper()
	n := New(opt)
	s := suite()
	s.New = func() driver.Driver { return n }
	return &fixture{s.Fixture(t), n}
}

// suite is the one that every driver passes, with what this one claims everywhere.
func suite() drivertest.Suite {
	return drivertest.Suite{
		New: func() driver.Driver {
			if os.Getenv(envWarm) != "" {
				return warmDriver{New(Options{})}
			}
			return New(Options{})
		},
		Claims:     []drivertest.Claim{drivertest.Mounts, drivertest.Absence, drivertest.Isolation, drivertest.Reports, drivertest.Programs, drivertest.Locks},
		Controls:   controlsShown(),
		Without:    leavingOff(),
		UserOnHost: idBase + sandboxID, RootOnDisk: sandboxID,
		Supervisor: []string{"/proc/self/exe"},
	}
}

// controlsShown are all controls but InRoot: see TestPlantedLinks.
func controlsShown() []control.Name {
	return []control.Name{
		control.Capabilities, control.CgroupNS, control.DeadSockets, control.Descriptors,
		control.Detached, control.Environment, control.Fixed, control.HiddenInit, control.IDs, control.IPCNS,
		control.Absent, control.Keyring, control.Landlock, control.LiveCalls, control.Masks, control.NetNS,
		control.NoNewPrivs, control.NoSUID, control.OwnEtc, control.PIDNS, control.Plain,
		control.ProcMasks, control.PublicView, control.ReadOnly, control.ReadOnlyProc,
		control.Seccomp, control.Signals, control.UserNS, control.UserNSLimit, control.UTSNS,
		control.Workdir,
	}
}

// TestContract runs the suite.
func TestContract(t *testing.T) {
	t.Parallel()
	s := suite()
	s.Without = nil // TestProbes leaves controls off
	s.Claims = append(s.Claims, hostClaims(t)...)
	s.Table = &drivertest.Table{File: "../../../../docs/reference/runtimes.md", Column: "native"}
	s.Run(t)
}

// hostClaims are what this host lets the driver claim.
func hostClaims(t *testing.T) (list []drivertest.Claim) {
	t.Helper()
	host, err := cgroup.Detect(cgroup.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if hasNetfilter() {
		list = append(list, drivertest.Network, drivertest.Sockets)
	}
	if host.Can(cgroup.PIDs).Status == cgroup.Works {
		list = append(list, drivertest.Limits)
	}
	if host.Can(cgroup.Freezer).Status == cgroup.Works {
		list = append(list, drivertest.Freezer)
	}
	return list
}

// recorded reads the record of a cell's start.
func recorded(t *testing.T, r driver.Record) firstProcessRecord {
	t.Helper()
	rec, ok := parseRecord(r)
	if !ok {
		t.Errorf("the record %q cannot be read", r)
	}
	return rec
}

func exists(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil
}
