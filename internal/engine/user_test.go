package engine_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// userID needs no account.
const userID = 65533

// userTests are run again as an ordinary user. Those that need another user's
// files, a new mount, or only time are not among them.
var userTests = []string{
	"TestFailedRunIsRestored", "TestAcceptAndApply", "TestUndo", "TestRecoverFromALostDatabase", "TestTwoAtOnce", "TestGC",
	"TestFidelity", "TestHistories", "TestProbes", "TestReadOnlyHome", "TestTamperedEvidence", "TestSecretsAreNotStored",
	"TestLinkInPlaceOfADirectory", "TestLeftOutSurvives", "TestHeldBack", "TestLeftovers",
	"TestListsAndOwnersStayInTheCell", "TestLiveDirectoryIsTakenBack", "TestApplyMeetsOddThings", "TestExplainAgrees",
}

// TestAsOrdinaryUser runs the engine's tests again without root.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the tests run as an ordinary user already")
	}
	t.Parallel()
	// Not t.TempDir: its parents may be closed to other users.
	dir, err := os.MkdirTemp("/tmp", "forkcell-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	exe, home, temp := filepath.Join(dir, "cell.test"), filepath.Join(dir, "home"), filepath.Join(dir, "tmp")
	copyProgram(t, exe)
	for _, d := range []string{home, temp} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(d, userID, userID); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(exe, "-test.run=^("+strings.Join(userTests, "|")+")$", "-test.parallel=4", "-test.timeout=5m", "-test.v")
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "TMPDIR=" + temp, "PATH=/usr/local/bin:/usr/bin:/bin", seedName + "=4"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: userID, Gid: userID}}
	out, err := cmd.CombinedOutput()
	text := string(out)
	if err != nil {
		t.Fatalf("as uid %d: %v\n%s", userID, err, text)
	}
	for _, name := range userTests {
		if !strings.Contains(text, "--- PASS: "+name+" ") {
			t.Errorf("as uid %d, %s did not pass\n%s", userID, name, text)
		}
	}
	if strings.Contains(text, "--- SKIP") {
		t.Errorf("as uid %d something was skipped\n%s", userID, text)
	}
}

// copyProgram copies this test program to a place where anybody can run it.
func copyProgram(t *testing.T, to string) {
	t.Helper()
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(to, 0o755); err != nil {
		t.Fatal(err)
	}
}

// insideWhat is the variable that selects the act of this program in a cell.
const insideWhat = "FORKCELL_TEST_INSIDE"

// acts is what this program can do within a cell. What an act returns is
// printed, and an error is printed after it.
func acts() map[string]func() (string, error) {
	return map[string]func() (string, error){
		"mutate":      func() (string, error) { return "", mutate(".", false) },
		"mutate live": func() (string, error) { return "", mutate(".", true) },
		"probe":       probeAll,
		"deep":        func() (string, error) { return "", deepDirs() },
		"brand":       func() (string, error) { return "", unix.Setxattr("hello.txt", "user.overlay.opaque", []byte("y"), 0) },
		"spoil":       func() (string, error) { return "", spoil() },
		"give":        func() (string, error) { return "", giveAway() },
		"rights":      giveRights,
	}
}

// TestInside is the code of this program in a cell; other tests start it.
func TestInside(*testing.T) {
	what := os.Getenv(insideWhat)
	if what == "" {
		return
	}
	out, err := acts()[what]()
	_, _ = os.Stdout.WriteString(out)
	if err != nil {
		_, _ = os.Stderr.WriteString(what + ": " + err.Error() + "\n")
		unix.Exit(1)
	}
	// Not the end of a test: nothing more may be printed.
	unix.Exit(0)
}

// inside runs one of the acts in a cell, where it must succeed.
func (w *world) inside(name, what string, env ...string) (*api.RunResult, string) {
	w.Helper()
	exe, err := os.Executable()
	w.ok(err)
	var out, errs strings.Builder
	res, err := w.e.Run(w.ctx, api.RunRequest{Cell: name, Args: []string{exe, "-test.run=^TestInside$"}, RunOptions: api.RunOptions{ReadOnly: []string{exe}, Env: append(env, insideWhat+"="+what)}}, engine.Stdio{Out: &out, Err: &errs})
	w.ok(err)
	if res.Outcome != "succeeded" {
		w.Fatalf("%s in %s: %s %s", what, name, res.Outcome, errs.String())
	}
	return res, out.String()
}

// openWith replaces the engine by one with another clock and depth.
func (w *world) openWith(now func() time.Time, depth int) {
	w.Helper()
	s, err := store.Open(w.home, store.Create)
	w.ok(err)
	ws, err := workspace.Open(w.home, workspace.Options{Root: os.Geteuid() == 0, MaxDepth: depth})
	w.ok(err)
	w.Cleanup(func() {
		_ = ws.Close()
		_ = s.Close()
	})
	w.e = engine.New(engine.Config{
		Store: s, Workspace: ws, Driver: native.New(native.Options{}), Caller: tester(), Home: w.home, Now: now,
	})
}

// removable makes everything in a directory deletable at the end of the test,
// whatever modes the test gave it.
func removable(t *testing.T, dir string) string {
	t.Helper()
	t.Cleanup(func() {
		_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if d != nil && d.IsDir() {
				_ = os.Chmod(path, 0o700)
			}
			return nil
		})
	})
	return dir
}

// child runs one test of this program, with its environment, in separate
// namespaces, and passes its output on.
func child(t *testing.T, test string, flags uintptr, env ...string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+test) {
		t.Fatalf("%s: %v\n%s", test, err, out)
	}
}
