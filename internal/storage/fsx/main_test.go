package fsx

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const asUser = "FSX_TEST_AS_USER"

func TestMain(m *testing.M) {
	if os.Args[0] == ReaderName {
		ServeReader()
	}
	// The strictest umask: whatever is exact must be exact in spite of it.
	unix.Umask(0o077)
	os.Exit(m.Run())
}

// TestAsOrdinaryUser runs all other tests once more without privilege.
func TestAsOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		if os.Getenv(asUser) == "" {
			t.Skip("already an ordinary user")
		}
		return
	}
	dir, err := os.MkdirTemp("", "fsx-user")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chown(dir, 65533, 65533); err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.v=" + boolFlag(testing.Verbose())}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Dir = "testdata"
	cmd.Env = append(os.Environ(), asUser+"=1", "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65533, Gid: 65533}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("as uid 65533: %v\n%s", err, out)
	}
	t.Logf("%s", out)
}

func boolFlag(b bool) string {
	if b {
		return "true"
	}
	return "false"
}

// golden finds a file of testdata, from there too.
func golden(name string) string {
	if _, err := os.Stat(name); err == nil {
		return name
	}
	return filepath.Join("testdata", name)
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

func tempRoot(t *testing.T) (*Dir, string) {
	t.Helper()
	path := t.TempDir()
	d, err := OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		names, _ := d.Names()
		for _, n := range names {
			if err := d.RemoveAll(n); err != nil {
				t.Error(err)
			}
		}
		_ = d.Close()
	})
	return d, path
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, d *Dir, rel, content string, mode uint32) {
	t.Helper()
	f, err := d.Create(rel, mode)
	check(t, err)
	_, err = f.WriteString(content)
	check(t, err)
	check(t, f.Close())
}

func get(d *Dir, rel string) (string, error) {
	f, err := d.OpenFile(rel)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	b := make([]byte, 1<<16)
	n, err := f.Read(b)
	if n == 0 && err != nil {
		return "", err
	}
	return string(b[:n]), nil
}
