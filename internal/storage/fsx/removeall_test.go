package fsx

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRemoveAll(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	check(t, os.WriteFile(filepath.Join(outside, "keep"), nil, 0o600))
	d, _ := tempRoot(t)
	check(t, d.MkdirAll("top/closed/inner", 0o700))
	put(t, d, "top/closed/inner/f", "x", 0)
	check(t, d.Symlink(outside, "top/closed/link"))
	check(t, d.Mkfifo("top/fifo", 0o600))
	check(t, d.MkdirAll("top/readonly/sub", 0o700))
	put(t, d, "top/readonly/f", "x", 0o400)
	for i := range 300 {
		put(t, d, "top/"+strconv.Itoa(i), "", 0o600)
	}
	check(t, d.Chmod("top/closed/inner", 0))
	check(t, d.Chmod("top/closed", 0))
	check(t, d.Chmod("top/readonly", 0o555))
	check(t, d.RemoveAll("top"))
	if _, err := d.Lstat("top"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
	check(t, d.RemoveAll("top"))
	check(t, d.RemoveAll("none"))
	if _, err := os.Stat(filepath.Join(outside, "keep")); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
	if err := d.RemoveAll("."); !errors.Is(err, errPath) {
		t.Errorf("the directory itself: %v", err)
	}
}

// A cell can make a tree deeper than any descriptor limit or path.
func TestRemoveAllVeryDeep(t *testing.T) {
	t.Parallel()
	d, _ := tempRoot(t)
	check(t, d.Mkdir("deep", 0o700))
	fd, err := openDirect(d.fd, "deep", unix.O_PATH|unix.O_DIRECTORY)
	check(t, err)
	for range 1000 {
		check(t, unix.Mkdirat(fd, "d", 0o500))
		check(t, unix.Fchmodat(fd, "d", 0o700, 0))
		next, err := openDirect(fd, "d", unix.O_PATH|unix.O_DIRECTORY)
		check(t, err)
		check(t, unix.Close(fd))
		fd = next
	}
	check(t, unix.Close(fd))
	check(t, d.RemoveAll("deep"))
	if names, err := d.Names(); err != nil || len(names) != 0 {
		t.Errorf("left %q, %v", names, err)
	}
}

func TestRemoveAllStopsAtMounts(t *testing.T) {
	t.Parallel()
	needRoot(t)
	d, path := tempRoot(t)
	check(t, d.MkdirAll("top/mounted", 0o700))
	check(t, d.Mkdir("other", 0o700))
	put(t, d, "other/keep", "x", 0o600)
	here, err := d.MountID("top/mounted")
	check(t, err)
	if err := unix.Mount(path+"/other", path+"/top/mounted", "", unix.MS_BIND, ""); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	there, err := d.MountID("top/mounted")
	check(t, err)
	removed := d.RemoveAll("top")
	check(t, unix.Unmount(path+"/top/mounted", unix.MNT_DETACH))
	if here == there {
		t.Error("the mount does not show")
	}
	if !errors.Is(removed, unix.EXDEV) {
		t.Errorf("got %v", removed)
	}
	if _, err := d.Lstat("other/keep"); err != nil {
		t.Error(err)
	}
}
