package native

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/drivertest"
	"github.com/forkcell/forkcell/internal/storage/mount"
)

// TestSystemRoot: the system's directories come from another root, links included.
func TestSystemRoot(t *testing.T) {
	f := newFixture(t, Options{})
	root := t.TempDir()
	for _, name := range []string{"bin", "lib", "lib64"} {
		to, err := os.Readlink("/" + name)
		if err != nil {
			t.Skipf("this host's /%s is no link: %v", name, err)
		}
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(root+"/opt", 0o755), os.WriteFile(root+"/opt/marker", []byte("of the other root\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	f.Spec.System.Root = root
	f.Spec.Mounts.Binds = append(f.Spec.Mounts.Binds, mount.Bind{Target: "/usr", Source: "/usr", ReadOnly: true})
	drivertest.Want(t, "the system", f.Shell("cat /opt/marker; ls /opt"), "of the other root\nmarker")
}

// TestListedLinks: a listed link is there although a directory of the cell's own hides
// where it is on the host.
func TestListedLinks(t *testing.T) {
	f := newFixture(t, Options{})
	link := filepath.Join("/tmp", filepath.Base(t.TempDir())+"-link")
	if err := os.Symlink("/usr/bin/env", link); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(link) })
	f.Spec.System.Paths = []string{link}
	drivertest.Want(t, "the link", f.Shell("readlink "+link), "/usr/bin/env")
}

// TestMountsBelow: what the host has mounted below a directory that is shown is shown too.
func TestMountsBelow(t *testing.T) {
	const alone = "FORKCELL_TEST_MOUNTS_BELOW"
	if os.Geteuid() != 0 {
		t.Skip("only root can mount something below a directory")
	}
	if os.Getenv(alone) == "" {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestMountsBelow$")
		cmd.Env = append(os.Environ(), alone+"=yes")
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	f := newFixture(t, Options{})
	dir := t.TempDir()
	below := filepath.Join(dir, "a", "below")
	if err := errors.Join(os.MkdirAll(below, 0o755), unix.Mount("none", below, "tmpfs", 0, "mode=0755")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(below, unix.MNT_DETACH) })
	if err := os.WriteFile(below+"/file", []byte("below\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	f.Spec.ReadOnly = []string{dir}
	drivertest.Want(t, "the mount", f.Shell("cat "+below+"/file"), "below")
}
