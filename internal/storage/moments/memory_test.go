package moments

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// kept returns a home with one image, its digest, and its directory.
func kept(t *testing.T) (s Store, digest, dir string) {
	t.Helper()
	path := t.TempDir()
	home, err := fsx.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = home.Close() })
	s = In(home, path)
	m, err := s.New("run_1")
	if err != nil {
		t.Fatal(err)
	}
	tmp := filepath.Join(path, Dir, "run_1", "tmp")
	err = errors.Join(m.Write(Run, []byte("{}")), os.WriteFile(m.Processes()+"/pages", []byte("secret"), 0o600),
		os.MkdirAll(tmp+"/a", 0o755), os.WriteFile(tmp+"/a/b", nil, 0o644), os.Symlink("b", tmp+"/a/c"))
	if err != nil {
		t.Fatal(err)
	}
	m, digest, err = m.Keep(t.Context(), "chk_1")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Verify(t.Context(), digest); err != nil {
		t.Fatal(err)
	}
	return s, digest, filepath.Join(path, Dir, "chk_1")
}

// TestVerify changes each part of an image in each way.
func TestVerify(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]struct {
		do   func(dir string) error
		want string
	}{
		"a byte":       {func(d string) error { return os.WriteFile(d+"/processes/pages", []byte("sEcret"), 0o600) }, "altered"},
		"the end":      {func(d string) error { return os.Truncate(d+"/processes/pages", 5) }, "altered or cut off"},
		"a file":       {func(d string) error { return os.Remove(d + "/tmp/a/b") }, "missing"},
		"one more":     {func(d string) error { return os.WriteFile(d+"/tmp/more", nil, 0o600) }, "added"},
		"a mode":       {func(d string) error { return os.Chmod(d+"/tmp/a", 0o700) }, "altered"},
		"a target":     {func(d string) error { return errors.Join(os.Remove(d+"/tmp/a/c"), os.Symlink("x", d+"/tmp/a/c")) }, "altered"},
		"a link":       {func(d string) error { return errors.Join(os.Remove(d+"/"+Run), os.Symlink("/dev/zero", d+"/"+Run)) }, "altered"},
		"the list":     {func(d string) error { return os.Truncate(d+"/"+contents, 3) }, "the list of its files was altered"},
		"no list":      {func(d string) error { return os.Remove(d + "/" + contents) }, "no list"},
		"all of it":    {os.RemoveAll, "not there"},
		"the run file": {func(d string) error { return os.WriteFile(d+"/"+Run, []byte("[]"), 0o600) }, "altered"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, digest, dir := kept(t)
			if err := change.do(dir); err != nil {
				t.Fatal(err)
			}
			err := s.Image("chk_1").Verify(t.Context(), digest)
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), change.want) {
				t.Error(err)
			}
		})
	}
}

// TestManyFiles: what is kept can be read again, so there are no more files than a list
// that is read may name.
func TestManyFiles(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	for i := range 100 {
		if err := os.WriteFile(filepath.Join(path, strings.Repeat("n", 200)+strconv.Itoa(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := fsx.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	all, err := listing(t.Context(), dir, maxSmall)
	if err != nil || len(entries(all)) != 100 {
		t.Fatalf("%d entries, %v", len(entries(all)), err)
	}
	if part, err := listing(t.Context(), dir, len(all)/2); err == nil || len(part) > len(all)/2 {
		t.Errorf("%d bytes, %v", len(part), err)
	}
}

// TestHoles: a file of terabytes that takes no space costs nothing to keep or verify, and
// counts with what it takes; each name counts as an inode.
func TestHoles(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	home, err := fsx.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	m, err := In(home, path).New("run_1")
	if err != nil {
		t.Fatal(err)
	}
	const large = 4 << 40
	tmp := filepath.Join(path, Dir, "run_1", "tmp")
	err = errors.Join(os.Mkdir(tmp, 0o700), os.WriteFile(tmp+"/hole", []byte("data"), 0o600))
	for i := range 20 {
		err = errors.Join(err, os.WriteFile(tmp+"/"+strconv.Itoa(i), nil, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(tmp+"/hole", large); err != nil {
		t.Skipf("this file system has no files of that size: %v", err)
	}
	m, digest, err := m.Keep(t.Context(), "chk_1")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Verify(t.Context(), digest); err != nil {
		t.Error(err)
	}
	if n, err := m.Size(t.Context()); err != nil || n < 20*4096 || n > 1<<20 {
		t.Errorf("it takes %d bytes, %v", n, err)
	}
	hole := filepath.Join(path, Dir, "chk_1", "tmp", "hole")
	f, err := os.OpenFile(hole, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("x"), large/2); err != nil {
		t.Fatal(err)
	}
	if err := m.Verify(t.Context(), digest); !errors.Is(err, ErrDamaged) {
		t.Errorf("a byte in the hole: %v", err)
	}
}

// TestDeepTree: the depth of a tree takes no descriptors, and no stack.
func TestDeepTree(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	dir, err := fsx.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	const depth = 300
	if err := os.MkdirAll(filepath.Join(path, strings.Repeat("d/", depth)), 0o700); err != nil {
		t.Fatal(err)
	}
	open := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	before, most := open(), 0
	ctx := &looking{Context: t.Context(), look: func() { most = max(most, open()-before) }}
	list, err := listing(ctx, dir, maxSmall)
	if err != nil || len(entries(list)) != depth || most > depth/2 {
		t.Errorf("%d entries, %d descriptors, %v", len(entries(list)), most, err)
	}
}

// looking is a context that calls a function whenever it is asked.
type looking struct {
	context.Context //nolint:containedctx // it is one
	look            func()
}

func (l *looking) Err() error {
	l.look()
	return l.Context.Err()
}

// TestNoRegularFile: a FIFO or a directory in the place of a file of an image is found,
// and nothing waits for it.
func TestNoRegularFile(t *testing.T) {
	t.Parallel()
	for _, name := range []string{Run, contents, "processes/pages"} {
		for kind, replace := range map[string]func(string) error{
			"FIFO":      func(p string) error { return unix.Mkfifo(p, 0o600) },
			"directory": func(p string) error { return os.Mkdir(p, 0o700) },
			"link":      func(p string) error { return os.Symlink("/dev/zero", p) },
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				s, digest, dir := kept(t)
				if err := errors.Join(os.Remove(filepath.Join(dir, name)), replace(filepath.Join(dir, name))); err != nil {
					t.Fatal(err)
				}
				if err := s.Image("chk_1").Verify(t.Context(), digest); err == nil {
					t.Error("it was not found")
				}
				if name == Run {
					if _, err := s.Image("chk_1").Read(Run); err == nil {
						t.Error("it was read")
					}
				}
			})
		}
	}
}

// TestPrivate: nobody else may read an image, and one that was removed leaves nothing.
func TestPrivate(t *testing.T) {
	t.Parallel()
	s, _, dir := kept(t)
	for _, path := range []string{filepath.Dir(dir), dir, dir + "/processes"} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if info, err := os.Stat(dir + "/" + Run); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	ids, err := s.ids()
	if err != nil || len(ids) != 1 || ids[0] != "chk_1" {
		t.Errorf("%v, %v", ids, err)
	}
	if err := errors.Join(s.Image("chk_1").Remove(), s.Image("chk_2").Remove()); err != nil {
		t.Error(err)
	}
	if ids, err := s.ids(); err != nil || len(ids) != 0 {
		t.Errorf("%v, %v", ids, err)
	}
}
