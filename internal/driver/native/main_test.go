package native

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/mount"

	"github.com/forkcell/forkcell/internal/driver"
)

// The test binary plays many parts: the tests, the cells' first processes, a
// supervisor that a test kills, a process that runs one cell after the other,
// and for the probes an untidy caller and the attacker in its cells.
const (
	envUser       = "FORKCELL_TEST_USER"
	envSupervisor = "FORKCELL_TEST_SUPERVISOR"
	testUID       = 65533
)

// Only before main is the goroutine certain to be on the process's first thread,
// whose credentials and restrictions are the ones that /proc/1 shows.
func init() {
	if IsInit() {
		InitMain()
	}
}

func TestMain(m *testing.M) {
	if dir := os.Getenv(envSupervisor); dir != "" {
		supervise(dir)
	}
	if name := os.Getenv(envAttack); name != "" {
		attack(name)
	}
	if dir := os.Getenv(envCaller); dir != "" {
		messyCaller(dir)
	}
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
	cmd.Env = []string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=" + defaultPath, envUser + "=1"}
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

// fixture is a cell with the directories that a workspace would bring.
type fixture struct {
	t      *testing.T
	native *Driver
	spec   driver.Spec
	base   string
	upper  string
	ws     string
}

func newFixture(t *testing.T, opt Options) *fixture {
	t.Helper()
	t.Parallel()
	dir := t.TempDir()
	mk := func(name string, mode os.FileMode) string {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(p, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	f := &fixture{t: t, native: New(opt), ws: "/src/project"}
	f.base, f.upper = mk("base", 0o755), mk("pending/workspace", 0o755)
	f.spec = driver.Spec{
		ID: "run", Hostname: "testcell",
		Mounts: mount.Set{
			Binds: []mount.Bind{{Target: "/tmp", Source: mk("pending/tmp", 0o1777), Owned: true}},
			Overlays: []mount.Overlay{
				{Target: f.ws, Lower: []string{f.base}, Upper: f.upper, Work: mk("pending/work/workspace", 0o755)},
				{Target: "/home/sandbox", Lower: []string{mk("home", 0o755)}, Upper: mk("pending/home", 0o755), Work: mk("pending/work/home", 0o755)},
			},
		},
		Command: driver.Command{
			Env:     []string{"PATH=" + defaultPath, "HOME=/home/sandbox"},
			Workdir: f.ws,
		},
	}
	return f
}

// write puts a file into the lower layer.
func (f *fixture) write(name, text string) {
	f.t.Helper()
	p := filepath.Join(f.base, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// run runs the cell on new scratch directories: the kernel does not mount an
// overlay that was volatile a second time.
func (f *fixture) run(ctx context.Context, s driver.Spec, stdio driver.Stdio) (driver.Outcome, error) {
	f.t.Helper()
	f.clearWork()
	f.t.Cleanup(f.clearWork)
	return f.native.Run(ctx, s, stdio)
}

func (f *fixture) clearWork() {
	for _, o := range f.spec.Mounts.Overlays {
		if err := removeWork(o.Work); err != nil {
			f.t.Error(err)
		}
	}
}

// try runs a command and returns whatever happens.
func (f *fixture) try(stdin io.Reader, args ...string) (stdout, stderr string, out driver.Outcome, err error) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 60*time.Second)
	defer cancel()
	var o, e bytes.Buffer
	s := f.spec
	s.Args = args
	out, err = f.run(ctx, s, driver.Stdio{In: stdin, Out: &o, Err: &e})
	return o.String(), e.String(), out, err
}

// sh runs a script that must succeed and returns its output.
func (f *fixture) sh(script string) string {
	f.t.Helper()
	stdout, stderr, out, err := f.try(nil, "/bin/sh", "-c", script)
	if err != nil || out.Code != 0 {
		f.t.Fatalf("script %q: code %d, error %v\n%s%s", script, out.Code, err, stdout, stderr)
	}
	return stdout
}

// want compares trimmed text.
func want(t *testing.T, what, got, expected string) {
	t.Helper()
	if strings.TrimSpace(got) != strings.TrimSpace(expected) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, expected)
	}
}

// supervise runs a cell until somebody kills this process.
func supervise(dir string) {
	n := New(Options{})
	for _, d := range []string{"base", "pending/upper", "pending/work"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	s := driver.Spec{
		Command: driver.Command{
			Args: []string{"/bin/sh", "-c", "(setsid sleep 1000 &) ; echo ready; exec sleep 1000"}, Env: []string{"PATH=" + defaultPath}, Workdir: "/ws",
		},
		Mounts: mount.Set{Overlays: []mount.Overlay{{
			Target: "/ws", Lower: []string{filepath.Join(dir, "base")},
			Upper: filepath.Join(dir, "pending/upper"), Work: filepath.Join(dir, "pending/work"),
		}}},
		Started: func(r driver.Record) error {
			rec, _ := parseRecord(r)
			fmt.Println("init", rec.PID, rec.Start)
			return nil
		},
	}
	_, err := n.Run(context.Background(), s, driver.Stdio{Out: os.Stdout, Err: os.Stderr})
	fmt.Println("error", err)
	os.Exit(1)
}

// TestSupervisorKilled checks that a cell dies with its supervisor.
func TestSupervisorKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{envSupervisor + "=" + dir}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = removeWork(filepath.Join(dir, "pending/work")) })
	var pid int
	var start uint64
	var ready string
	if _, err := fmt.Fscanf(pipe, "init %d %d\n%s\n", &pid, &start, &ready); err != nil || ready != "ready" {
		t.Fatalf("supervisor said %q: %v", ready, err)
	}
	if err := awaitProcess(pid, start, time.Millisecond); !errors.Is(err, driver.ErrStillRunning) {
		t.Fatalf("a running cell: %v", err)
	}
	pids := processesUnder(t, pid)
	if len(pids) < 3 {
		t.Fatalf("processes of the cell: %v", pids)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := awaitProcess(pid, start, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	for p, started := range pids {
		if err := awaitProcess(p, started, 20*time.Second); err != nil {
			t.Errorf("process %d of the cell: %v", p, err)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), dir) {
		t.Error("the cell left a mount behind")
	}
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

// processesUnder returns pid and all processes below it, with start times.
func processesUnder(t *testing.T, pid int) map[int]uint64 {
	t.Helper()
	found := map[int]uint64{}
	todo := []int{pid}
	for len(todo) > 0 {
		p := todo[0]
		todo = todo[1:]
		start, err := startTime(p)
		if err != nil {
			continue
		}
		found[p] = start
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p))
		for _, task := range tasks {
			data, _ := os.ReadFile(task)
			for _, field := range strings.Fields(string(data)) {
				var child int
				if _, err := fmt.Sscan(field, &child); err == nil {
					todo = append(todo, child)
				}
			}
		}
	}
	return found
}

func exists(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil
}
