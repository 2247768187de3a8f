package archive_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

func TestMain(m *testing.M) {
	if os.Args[0] == fsx.ReaderName {
		fsx.ServeReader()
	}
	unix.Umask(0o077)
	os.Exit(m.Run())
}

// TestAsOrdinaryUser runs the other tests once more without privilege.
func TestAsOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("already an ordinary user")
	}
	dir, err := os.MkdirTemp("", "archive-user")
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	check(t, os.Chown(dir, 65533, 65533))
	// What only has to do with size is the same for everybody.
	cmd := exec.Command("/proc/self/exe", "-test.run=^Test", "-test.skip=^(TestDeepTree|TestManyHoles)$")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65533, Gid: 65533}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("as uid 65533: %v\n%s", err, out)
	}
}

type fataler interface {
	Helper()
	Fatal(args ...any)
}

func check(t fataler, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// emptyDir is a new directory that can be removed whatever was put into it.
func emptyDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "archive")
	check(t, err)
	t.Cleanup(func() { removeAll(dir) })
	return dir
}

func removeAll(dir string) {
	_ = os.Chmod(dir, 0o700)
	if d, err := fsx.OpenRoot(filepath.Dir(dir)); err == nil {
		_ = d.RemoveAll(filepath.Base(dir))
		_ = d.Close()
	}
}

func openRoot(t fataler, dir string) *fsx.Dir {
	t.Helper()
	d, err := fsx.OpenRoot(dir)
	check(t, err)
	return d
}

type packs map[string]*bytes.Buffer

func (p packs) Pack(layer string) (io.ReaderAt, int64, error) {
	b := p[layer].Bytes()
	return bytes.NewReader(b), int64(len(b)), nil
}

// scan makes a tree of a directory, owners as they are on disk.
func scan(t fataler, dir string) *tree.Tree {
	t.Helper()
	d := openRoot(t, dir)
	defer d.Close()
	p := packs{"l": &bytes.Buffer{}}
	w, err := tree.NewWriter(p["l"], "l", p)
	check(t, err)
	s := scanner{t: t, root: d, w: w, inodes: map[uint64][]string{}}
	root := s.entry(".", "")
	var links tree.Links
	for _, g := range s.inodes {
		if len(g) > 1 {
			sort.Strings(g)
			links.Groups = append(links.Groups, g)
		}
	}
	slices.SortFunc(links.Groups, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	check(t, w.SetArea("workspace", root, links))
	_, err = w.Close()
	check(t, err)
	m, err := tree.Load(p, "l")
	check(t, err)
	area, _ := m.Area("workspace")
	return area
}

type scanner struct {
	t      fataler
	root   *fsx.Dir
	w      *tree.Writer
	inodes map[uint64][]string
}

func (s *scanner) entry(path, name string) tree.Entry {
	info, err := s.root.Lstat(path)
	check(s.t, err)
	e := tree.Entry{Name: name, Mode: info.Mode, UID: info.UID, GID: info.GID, MTime: info.MTime}
	e.Xattrs, err = s.root.Xattrs(path)
	check(s.t, err)
	if info.Nlink > 1 && !info.IsDir() {
		s.inodes[info.Ino] = append(s.inodes[info.Ino], path)
	}
	switch info.Type {
	case unix.S_IFREG:
		f, err := s.root.OpenFile(path)
		check(s.t, err)
		h := tree.NewContent()
		h.Reset(info.Size, nil)
		n, err := fsx.ReadSparse(context.Background(), f, h)
		check(s.t, err)
		_ = f.Close()
		e.Kind, e.Size = tree.KindFile, n
		e.Digest, _, err = h.Sum(nil)
		check(s.t, err)
	case unix.S_IFLNK:
		e.Kind, e.Mode = tree.KindSymlink, 0o777
		e.Target, err = s.root.Readlink(path)
		check(s.t, err)
	case unix.S_IFIFO:
		e.Kind = tree.KindFifo
	case unix.S_IFSOCK:
		e.Kind = tree.KindSocket
	case unix.S_IFDIR:
		e.Kind = tree.KindDir
		sub, err := s.root.OpenDir(path)
		check(s.t, err)
		names, err := sub.Names()
		check(s.t, err)
		_ = sub.Close()
		edit := s.w.NewDir()
		for _, n := range names {
			p := n
			if path != "." {
				p = path + "/" + n
			}
			edit.Put(s.entry(p, n))
		}
		e.Sub, err = edit.Node()
		check(s.t, err)
	}
	return e
}

// snapshot lists everything about a directory that must survive, by means of
// the standard library alone. Modes are opened as it goes for ordinary users,
// so it is the last thing that looks at a directory.
func snapshot(t fataler, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	inodes := map[uint64]string{}
	var visit func(path string)
	visit = func(path string) {
		info, err := os.Lstat(path)
		check(t, err)
		st := info.Sys().(*syscall.Stat_t)
		rel, err := filepath.Rel(dir, path)
		check(t, err)
		s := fmt.Sprintf("%v %d:%d %d", info.Mode(), st.Uid, st.Gid, info.ModTime().UnixNano())
		if !info.IsDir() && info.Mode().Type() != os.ModeSymlink && info.Mode().Perm()&0o400 == 0 && os.Geteuid() != 0 {
			check(t, os.Chmod(path, 0o600))
		}
		if info.IsDir() && info.Mode().Perm()&0o500 != 0o500 && os.Geteuid() != 0 {
			check(t, os.Chmod(path, 0o700))
		}
		s += attributes(path)
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(path)
			check(t, err)
			s += fmt.Sprintf(" %x sparse=%v", sha256.Sum256(b), st.Blocks*512 < info.Size())
		case info.Mode().Type() == os.ModeSymlink:
			target, err := os.Readlink(path)
			check(t, err)
			s += " -> " + target
		}
		if !info.IsDir() && st.Nlink > 1 {
			if first, ok := inodes[st.Ino]; ok {
				s += " same as " + first
			} else {
				inodes[st.Ino] = rel
			}
		}
		out[rel] = s
		if info.IsDir() {
			entries, err := os.ReadDir(path)
			check(t, err)
			for _, e := range entries {
				visit(path + "/" + e.Name())
			}
		}
	}
	visit(dir)
	return out
}

func attributes(path string) string {
	buf := make([]byte, 64<<10)
	n, err := unix.Llistxattr(path, buf)
	if err != nil || n <= 0 {
		return ""
	}
	all := map[string]string{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00") {
		v := make([]byte, 64<<10)
		if m, err := unix.Lgetxattr(path, name, v); err == nil {
			all[name] = string(v[:m])
		}
	}
	s := ""
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s += fmt.Sprintf(" %q=%q", name, all[name])
	}
	return s
}
