package fsx

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNamesOfAnyBytes(t *testing.T) {
	t.Parallel()
	d, _ := tempRoot(t)
	var want []string
	for b := 1; b < 256; b++ {
		if b == '/' || b == '.' {
			continue
		}
		want = append(want, string([]byte{byte(b)}))
	}
	want = append(want, "...", ".wh.a", "\xff\xfe\x00"[:2]+"x", "a b", "-rf", "\x1b[31m")
	for _, n := range want {
		put(t, d, n, n, 0o600)
	}
	slices.Sort(want)
	for range 2 { // it reads from the start each time
		got, err := d.Names()
		check(t, err)
		if !slices.Equal(got, want) {
			t.Fatalf("got %d names %q, want %d", len(got), got, len(want))
		}
	}
	for _, n := range want {
		if s, err := get(d, n); err != nil || s != n {
			t.Errorf("%q: %q, %v", n, s, err)
		}
	}
}

func TestKindsAndExactModes(t *testing.T) {
	t.Parallel()
	d, _ := tempRoot(t)
	check(t, d.Mkdir("dir", 0o2757))
	check(t, d.Mkfifo("fifo", 0o646))
	check(t, d.Mksock("sock", 0o777))
	check(t, d.Whiteout("gone"))
	check(t, d.Symlink("any\ntarget \xff", "link"))
	put(t, d, "file", "x", 0o600)
	check(t, d.Chmod("file", 0o4775)) // last: writing clears the setuid bit
	check(t, d.Link("file", "dir/hard"))
	check(t, d.MkdirAll("x/y/z", 0o751))
	check(t, d.MkdirAll("x/y/z", 0o700))
	for _, c := range []struct {
		rel        string
		kind, mode uint32
	}{
		{"dir", unix.S_IFDIR, 0o2757},
		{"fifo", unix.S_IFIFO, 0o646},
		{"sock", unix.S_IFSOCK, 0o777},
		{"link", unix.S_IFLNK, 0o777},
		{"file", unix.S_IFREG, 0o4775},
		{"x/y", unix.S_IFDIR, 0o751},
		{"x/y/z", unix.S_IFDIR, 0o751},
	} {
		info, err := d.Lstat(c.rel)
		check(t, err)
		if info.Type != c.kind || info.Mode != c.mode {
			t.Errorf("%s: type %o mode %o", c.rel, info.Type, info.Mode)
		}
	}
	gone, err := d.Lstat("gone")
	check(t, err)
	if !gone.IsWhiteout() {
		t.Errorf("whiteout: %+v", gone)
	}
	a, err := d.Lstat("file")
	check(t, err)
	b, err := d.Lstat("dir/hard")
	check(t, err)
	if a.Ino != b.Ino || a.Nlink != 2 {
		t.Errorf("hard link: %+v %+v", a, b)
	}
	if target, err := d.Readlink("link"); err != nil || target != "any\ntarget \xff" {
		t.Errorf("readlink: %q, %v", target, err)
	}
	if err := d.Chmod("link", 0o600); !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("chmod of a link: %v", err)
	}
	check(t, d.Chmod("fifo", 0o600))
	check(t, d.Chtimes("fifo", Time{Sec: -7, Nsec: 999999999}))
	if info, err := d.Lstat("fifo"); err != nil || info.Mode != 0o600 || info.MTime != (Time{-7, 999999999}) {
		t.Errorf("fifo: %+v, %v", info, err)
	}
	check(t, d.Chtimes(".", Time{Sec: 77, Nsec: 1}))
	check(t, d.Chmod(".", 0o755))
	if info, err := d.Lstat("."); err != nil || info.Mode != 0o755 || info.MTime != (Time{77, 1}) {
		t.Errorf("the directory itself: %+v, %v", info, err)
	}
}

func TestOpenFileTakesOnlyRegularFiles(t *testing.T) {
	t.Parallel()
	d, _ := tempRoot(t)
	check(t, d.Mkfifo("fifo", 0o600))
	check(t, d.Mksock("sock", 0o600))
	check(t, d.Mkdir("dir", 0o700))
	check(t, d.Symlink("/dev/null", "link"))
	for _, n := range []string{"fifo", "sock", "dir", "link", "."} {
		if _, err := d.OpenFile(n); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %v", n, err)
		}
	}
	if _, err := d.OpenFile("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	put(t, d, "file", "x", 0o600)
	if _, err := d.Create("file", 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("create over a file: %v", err)
	}
	if _, err := d.OpenDir("file"); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("file as a directory: %v", err)
	}
	f, err := d.OpenFile("file")
	check(t, err)
	defer func() { _ = f.Close() }()
	info, err := StatFile(f)
	check(t, err)
	if !info.IsRegular() || info.Size != 1 {
		t.Errorf("StatFile: %+v", info)
	}
	check(t, d.SyncFS())
}

func TestRenameFlags(t *testing.T) {
	t.Parallel()
	d, _ := tempRoot(t)
	check(t, d.Mkdir("sub", 0o700))
	sub, err := d.OpenDir("sub")
	check(t, err)
	defer func() { _ = sub.Close() }()
	put(t, d, "a", "a", 0o600)
	put(t, sub, "b", "b", 0o600)
	if err := d.Rename("a", sub, "b", unix.RENAME_NOREPLACE); !errors.Is(err, fs.ErrExist) {
		t.Errorf("noreplace: %v", err)
	}
	check(t, d.Rename("a", sub, "b", unix.RENAME_EXCHANGE))
	if s, err := get(d, "sub/b"); err != nil || s != "a" {
		t.Errorf("after the exchange: %q, %v", s, err)
	}
	check(t, sub.Rename("b", d, "a", 0))
	if s, err := get(d, "a"); err != nil || s != "a" {
		t.Errorf("after the replacement: %q, %v", s, err)
	}
	if err := d.Remove("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("remove of nothing: %v", err)
	}
	check(t, d.Remove("sub"))
	check(t, d.Remove("a"))
}

func TestErrorsNameThePath(t *testing.T) {
	t.Parallel()
	d, path := tempRoot(t)
	_, err := d.OpenFile("none/x")
	var pe *fs.PathError
	if !errors.As(err, &pe) || pe.Path != path+"/none/x" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := OpenRoot(path + "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("root: %v", err)
	}
}

func BenchmarkReadTree(b *testing.B) {
	path := b.TempDir()
	for i := range 100 {
		_ = os.WriteFile(path+"/"+string(rune('a'+i%26))+string(rune('a'+i/26)), make([]byte, 1536), 0o600)
	}
	d, err := OpenRoot(path)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	b.ReportAllocs()
	for b.Loop() {
		names, _ := d.Names()
		for _, n := range names {
			_, _ = d.Lstat(n)
			f, err := d.OpenFile(n)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = FileXattrs(f)
			_ = f.Close()
		}
	}
}
