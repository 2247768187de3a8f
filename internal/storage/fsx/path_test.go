package fsx

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCheckPath(t *testing.T) {
	t.Parallel()
	for _, good := range []string{".", "a", "a/b", "...", "..a", "a/..b/c", " ", "\n", "\xff\x01/é"} {
		if err := CheckPath(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "/", "/a", "..", "../a", "a/..", "a/../b", "a//b", "a/", "a/./b", "./a", "a/.", "a\x00b"} {
		if err := CheckPath(bad); !errors.Is(err, errPath) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

func TestEveryMethodRefusesBadPaths(t *testing.T) {
	t.Parallel()
	d, _ := tempRoot(t)
	for _, bad := range []string{"", "..", "/etc", "a/../../b", "a\x00"} {
		_, e1 := d.OpenDir(bad)
		_, e2 := d.OpenFile(bad)
		_, e3 := d.Create(bad, 0o600)
		_, e4 := d.Lstat(bad)
		_, e5 := d.Readlink(bad)
		_, e6 := d.Xattrs(bad)
		for i, err := range []error{
			e1, e2, e3, e4, e5, e6, d.SetXattr(bad, "user.a", nil), d.RemoveXattr(bad, "user.a"),
			d.Mkdir(bad, 0o700), d.MkdirAll(bad, 0o700), d.Symlink("x", bad), d.Link(bad, "x"), d.Link("x", bad),
			d.Mkfifo(bad, 0o600), d.Mksock(bad, 0o600), d.Whiteout(bad), d.Rename(bad, d, "x", 0),
			d.Remove(bad), d.RemoveAll(bad), d.Chmod(bad, 0o600), d.Chown(bad, 0, 0), d.Chtimes(bad, Time{}),
			WriteFile(d, bad, nil, 0o600),
		} {
			if !errors.Is(err, errPath) {
				t.Errorf("%q, method %d: got %v", bad, i, err)
			}
		}
	}
	if err := d.Rename("x", d, "../y", 0); !errors.Is(err, errPath) {
		t.Errorf("rename to a bad path: %v", err)
	}
}

func TestNoLinkIsFollowed(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	check(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600))
	d, _ := tempRoot(t)
	check(t, d.Symlink(outside, "abs"))
	check(t, d.Symlink("../"+filepath.Base(outside), "rel"))
	check(t, d.Symlink("abs", "chain"))
	check(t, d.Symlink(filepath.Join(outside, "secret"), "file"))
	check(t, d.Mkdir("in", 0o700))
	check(t, d.Symlink("in", "local"))
	for _, link := range []string{"abs", "rel", "chain", "local"} {
		if _, err := d.OpenDir(link); err == nil {
			t.Errorf("OpenDir followed %s", link)
		}
		if _, err := d.Lstat(link + "/secret"); err == nil {
			t.Errorf("Lstat followed %s", link)
		}
		if _, err := d.Create(link+"/new", 0o600); err == nil {
			t.Errorf("Create followed %s", link)
		}
		if err := d.Mkdir(link+"/new", 0o700); err == nil {
			t.Errorf("Mkdir followed %s", link)
		}
		if err := d.MkdirAll(link, 0o700); err == nil {
			t.Errorf("MkdirAll took %s for a directory", link)
		}
		if err := d.RemoveAll(link + "/secret"); err == nil {
			t.Errorf("RemoveAll followed %s", link)
		}
		if err := d.Rename(link+"/secret", d, "got", 0); err == nil {
			t.Errorf("Rename followed %s", link)
		}
		if err := d.Chmod(link, 0o777); err == nil {
			t.Errorf("Chmod followed %s", link)
		}
		check(t, d.Chtimes(link, Time{Sec: 5, Nsec: 6}))
		info, err := d.Lstat(link)
		check(t, err)
		if !info.IsSymlink() || info.MTime != (Time{5, 6}) {
			t.Errorf("%s: %+v", link, info)
		}
	}
	if _, err := d.OpenFile("file"); !errors.Is(err, ErrNotRegular) {
		t.Errorf("OpenFile of a link: %v", err)
	}
	check(t, d.RemoveAll("abs"))
	if _, err := os.Stat(filepath.Join(outside, "secret")); err != nil {
		t.Errorf("removal went through a link: %v", err)
	}
}

// A directory that is swapped for a link while it is walked through must never
// lead outside.
func TestSwappedComponent(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	check(t, os.WriteFile(filepath.Join(outside, "f"), []byte("outside"), 0o600))
	d, _ := tempRoot(t)
	check(t, d.Mkdir("a", 0o700))
	put(t, d, "a/f", "inside", 0o600)
	check(t, d.Symlink(outside, "b"))
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = d.Rename("a", d, "b", unix.RENAME_EXCHANGE)
			}
		}
	}()
	inside := 0
	for range 3000 {
		if s, err := get(d, "a/f"); err == nil {
			if s != "inside" {
				t.Errorf("read %q through a link", s)
				break
			}
			inside++
		}
	}
	close(stop)
	<-done
	if inside == 0 {
		t.Log("the directory was never seen in place")
	}
}

func TestPathsLongerThanTheKernelTakes(t *testing.T) {
	t.Parallel()
	d, _ := tempRoot(t)
	deep := strings.Repeat(strings.Repeat("d", 200)+"/", 60) + "end"
	check(t, d.MkdirAll(deep, 0o700))
	put(t, d, deep+"/file", "deep", 0o600)
	if s, err := get(d, deep+"/file"); err != nil || s != "deep" {
		t.Errorf("got %q, %v", s, err)
	}
	check(t, WriteFile(d, deep+"/file", []byte("again"), 0o640))
	info, err := d.Lstat(deep + "/file")
	check(t, err)
	if info.Size != 5 || info.Mode != 0o640 {
		t.Errorf("got %+v", info)
	}
	if _, err := d.Lstat(strings.Repeat("x", 5000) + "/y"); !errors.Is(err, unix.ENAMETOOLONG) {
		t.Errorf("a component of 5000 bytes: %v", err)
	}
}

func FuzzCheckPath(f *testing.F) {
	for _, s := range []string{"a/b", "..", "a//b", "\x00", "."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if CheckPath(s) != nil {
			return
		}
		if s != "." && (filepath.Clean("/"+s) != "/"+s || !filepath.IsLocal(s)) {
			t.Errorf("%q was let through", s)
		}
	})
}
