package workspace_test

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/storage/workspace/workspacetest"
)

func TestMain(m *testing.M) {
	if os.Args[0] == crashName {
		os.Exit(crashMain())
	}
	workspacetest.Main()
	os.Exit(m.Run())
}

// TestSuite runs the suite on every backend.
func TestSuite(t *testing.T) {
	t.Parallel()
	workspacetest.Run(t, openUnsynced, allBackends()...)
}

func allBackends() []workspace.Backend {
	return []workspace.Backend{workspace.BackendOverlay, workspace.BackendClone, workspace.BackendDelta}
}

const asUser = "FORKCELL_TEST_AS_USER"

// TestAsOrdinaryUser runs all other tests once more without privilege.
func TestAsOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Getenv(asUser) != "" {
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("already an ordinary user")
	}
	const id = 65533
	dir := workspacetest.TempDir(t)
	if err := os.Chown(dir, id, id); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.v="+fmt.Sprint(testing.Verbose()), "-test.short="+fmt.Sprint(testing.Short()))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asUser+"=1", "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("as uid %d: %v\n%s", id, err, out)
	}
	t.Logf("%s", out)
}

// world is a home for tests that look into the package.
type world struct{ *workspacetest.World }

// backends runs a test for each backend.
func backends(t *testing.T, test func(t *testing.T, w *world)) {
	for _, b := range allBackends() {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			test(t, newWorld(t, b))
		})
	}
}

func newWorld(t testing.TB, b workspace.Backend) *world {
	t.Helper()
	return newWorldIn(t, b, workspacetest.TempDir(t))
}

func newWorldIn(t testing.TB, b workspace.Backend, dir string) *world {
	t.Helper()
	return &world{workspacetest.NewWorld(t, b, dir, openUnsynced)}
}

// openUnsynced opens a home, whose states are not made durable.
func openUnsynced(home string) (*workspace.Store, error) {
	return workspace.Open(home, workspace.Options{Root: os.Geteuid() == 0}.Unsynced(nil))
}

// open opens the home once more, with other options.
func (w *world) open(opt workspace.Options) {
	w.T.Helper()
	opt.Root = os.Geteuid() == 0
	s, err := workspace.Open(w.Home, opt)
	w.Must(err)
	w.T.Cleanup(func() { s.Close() })
	w.Store = s
}
