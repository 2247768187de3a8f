package fsx

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// closedTree has everything that its owner may not read directly.
func closedTree(t *testing.T) (*Dir, string) {
	t.Helper()
	d, path := tempRoot(t)
	put(t, d, "file", "unreadable", 0o600)
	check(t, d.SetXattr("file", "user.note", []byte("hidden")))
	check(t, d.Chtimes("file", Time{Sec: 11, Nsec: 12}))
	check(t, d.Chmod("file", 0))
	check(t, d.MkdirAll("dir/sub", 0o700))
	put(t, d, "dir/sub/file", "below", 0o600)
	check(t, d.Symlink("the target", "dir/link"))
	check(t, d.SetXattr("dir", "user.note", []byte("on the directory")))
	check(t, d.SetXattr("dir/sub", "user.note", []byte("below")))
	check(t, d.Chmod("dir/sub", 0o300))
	check(t, d.Chmod("dir", 0))
	return d, path
}

func TestUnreadableThingsOfAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	needUser(t)
	d, path := closedTree(t)
	if s, err := get(d, "file"); err != nil || s != "unreadable" {
		t.Errorf("file: %q, %v", s, err)
	}
	f, err := d.OpenFile("file")
	check(t, err)
	defer func() { _ = f.Close() }()
	if list, err := FileXattrs(f); err != nil || own(list)["user.note"] != "hidden" {
		t.Errorf("attributes by descriptor: %v, %v", list, err)
	}
	if list, err := d.Xattrs("file"); err != nil || own(list)["user.note"] != "hidden" {
		t.Errorf("attributes: %v, %v", list, err)
	}
	if list, err := d.Xattrs("dir/sub"); err != nil || own(list)["user.note"] != "below" {
		t.Errorf("attributes below: %v, %v", list, err)
	}
	sub, err := d.OpenDir("dir")
	check(t, err)
	defer func() { _ = sub.Close() }()
	if list, err := sub.Xattrs("."); err != nil || own(list)["user.note"] != "on the directory" {
		t.Errorf("attributes of the directory: %v, %v", list, err)
	}
	if names, err := sub.Names(); err != nil || !slices.Equal(names, []string{"link", "sub"}) {
		t.Errorf("names: %q, %v", names, err)
	}
	if here, err := d.MountID("."); err != nil || here == 0 {
		t.Errorf("mount: %d, %v", here, err)
	} else if below, err := d.MountID("dir/sub"); err != nil || below != here {
		t.Errorf("mount below: %d, %v, want %d", below, err, here)
	}
	for _, at := range []func() (Info, error){
		func() (Info, error) { return sub.Lstat("sub") },
		func() (Info, error) { return d.Lstat("dir/sub") },
	} {
		info, err := at()
		check(t, err)
		if !info.IsDir() || info.Mode != 0o300 || int(info.UID) != os.Geteuid() {
			t.Errorf("lstat: %+v", info)
		}
	}
	for _, at := range []func() (string, error){
		func() (string, error) { return sub.Readlink("link") },
		func() (string, error) { return d.Readlink("dir/link") },
	} {
		if target, err := at(); err != nil || target != "the target" {
			t.Errorf("readlink: %q, %v", target, err)
		}
	}
	if s, err := get(d, "dir/sub/file"); err != nil || s != "below" {
		t.Errorf("file below: %q, %v", s, err)
	}
	if _, err := d.Lstat("dir/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing name: %v", err)
	}
	if _, err := d.OpenFile("dir/link"); !errors.Is(err, ErrNotRegular) {
		t.Errorf("a link as a file: %v", err)
	}
	root, err := OpenRoot(filepath.Join(path, "dir"))
	check(t, err)
	check(t, root.Close())
}

func TestReaderIsSafeForManyAndCannotWrite(t *testing.T) {
	t.Parallel()
	needUser(t)
	d, _ := closedTree(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if s, err := get(d, "dir/sub/file"); err != nil || s != "below" {
					t.Errorf("got %q, %v", s, err)
				}
			}
		})
	}
	wg.Wait()
	if err := d.Mkdir("dir/new", 0o700); !errors.Is(err, unix.EACCES) {
		t.Errorf("a closed directory was written: %v", err)
	}
	fd, err := elevatedOpen(d.fd, "file", unix.O_RDWR|unix.O_TRUNC|unix.O_CREAT, unix.EACCES)
	check(t, err)
	defer func() { _ = unix.Close(fd) }()
	if _, err := unix.Write(fd, []byte("x")); !errors.Is(err, unix.EBADF) {
		t.Errorf("write through the reader: %v", err)
	}
	if info, err := d.Lstat("file"); err != nil || info.Size != int64(len("unreadable")) || info.MTime != (Time{11, 12}) {
		t.Errorf("the file changed: %+v, %v", info, err)
	}
}

func TestReaderOpensNothingForeign(t *testing.T) {
	t.Parallel()
	needUser(t)
	if _, err := OpenRoot("/proc/1/fd"); !errors.Is(err, unix.EACCES) {
		t.Errorf("another owner's directory: %v", err)
	}
}

func TestRootNeverStartsTheReader(t *testing.T) {
	t.Parallel()
	needRoot(t)
	d, _ := closedTree(t)
	if s, err := get(d, "dir/sub/file"); err != nil || s != "below" {
		t.Errorf("got %q, %v", s, err)
	}
	if mayElevate(unix.EACCES) {
		t.Error("root would ask the reader")
	}
}

// The reader, started by hand without a socket, ends at once.
func TestReaderWithoutCaller(t *testing.T) {
	t.Parallel()
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{ReaderName}, Env: []string{}}
	if out, err := cmd.CombinedOutput(); err != nil || len(out) != 0 {
		t.Errorf("got %q, %v", out, err)
	}
}

func FuzzReaderRequest(f *testing.F) {
	f.Add(request{op: opOpen, flags: 1, name: "a", attr: "b"}.encode())
	f.Add([]byte(strings.Repeat("\xff", 9)))
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := decodeRequest(b)
		if err == nil && string(q.encode()) != string(b) {
			t.Errorf("%x became %x", b, q.encode())
		}
	})
}

// A process whose memory cannot be dumped can start the reader too.
func TestReaderOfAHiddenProcess(t *testing.T) {
	t.Parallel()
	needUser(t)
	const alone = "FSX_TEST_HIDDEN"
	if os.Getenv(alone) == "" {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestReaderOfAHiddenProcess$")
		cmd.Env = append(os.Environ(), alone+"=yes")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	check(t, unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
	d, _ := closedTree(t)
	if s, err := get(d, "file"); err != nil || s != "unreadable" {
		t.Errorf("file: %q, %v", s, err)
	}
}
