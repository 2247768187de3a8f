package native

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSubordinateIDsAreNotEnough shows on this kernel what HostOverlayNeedsRoot
// says: an overlay of the host's /usr that is mounted with subordinate ids can be
// read, and nothing in it can be changed.
func TestSubordinateIDsAreNotEnough(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give itself ids without newuidmap")
	}
	const first = 100000
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // the test's own
		t.Fatal(err)
	}
	for _, name := range []string{"upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(filepath.Join(dir, name), first, first); err != nil {
			t.Fatal(err)
		}
	}
	const script = `mount -t overlay overlay -o lowerdir=/usr,upperdir=upper,workdir=work,userxattr merged || exit 9
	test -x merged/bin/env || exit 8
	touch merged/bin/made && exit 7
	chmod 700 merged/bin/env && exit 6
	rm -f merged/bin/env && exit 5
	exit 0`
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: first, Size: 65536}}
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, UidMappings: ids, GidMappings: ids,
		Credential: &syscall.Credential{}, GidMappingsEnableSetgroups: true,
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
