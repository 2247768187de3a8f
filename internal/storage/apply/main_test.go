package apply

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

const (
	asUser   = "APPLY_TEST_AS_USER"
	crashDir = "APPLY_TEST_CRASH_DIR"
)

func TestMain(m *testing.M) {
	if os.Args[0] == fsx.ReaderName {
		fsx.ServeReader()
	}
	unix.Umask(0o027)
	if dir := os.Getenv(crashDir); dir != "" {
		crashHelper(dir)
	}
	os.Exit(m.Run())
}

// TestAsOrdinaryUser runs all other tests once more without privilege.
func TestAsOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("already an ordinary user")
	}
	dir, err := os.MkdirTemp("", "apply-user")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chown(dir, 65533, 65533); err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.v=true", "-rapid.nofailfile"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), asUser+"=1", "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65533, Gid: 65533}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("as uid 65533: %v\n%s", err, out)
	}
	if !strings.Contains(string(out), "--- PASS") {
		t.Fatalf("nothing ran:\n%s", out)
	}
}

func needUser(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		t.Skip("for an ordinary user; TestAsOrdinaryUser runs it")
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}
