package apply

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// tb is the part of a test that helpers need, for rapid's tests and Go's.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

func check(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// thing is one path of a plain model of a tree: file, directory, symlink...
type thing struct {
	Kind  tree.Kind
	Text  string // contents or link target
	Mode  uint32
	Attr  string // of user.note
	MTime int64  // seconds; 0 in directories and where it does not matter
	Group string // names a hard-link group
}

// model is a whole tree by path, without the root.
type model map[string]thing

func file(text string) thing         { return thing{Kind: tree.KindFile, Text: text, Mode: 0o644, MTime: 1000} }
func dir() thing                     { return thing{Kind: tree.KindDir, Mode: 0o755} }
func link(target string) thing       { return thing{Kind: tree.KindSymlink, Text: target, Mode: 0o777} }
func (x thing) mode(m uint32) thing  { x.Mode = m; return x }
func (x thing) attr(a string) thing  { x.Attr = a; return x }
func (x thing) at(sec int64) thing   { x.MTime = sec; return x }
func (x thing) group(g string) thing { x.Group = g; return x }
func special(k tree.Kind) thing      { return thing{Kind: k, Mode: 0o640} }
func (m model) with(more model) model {
	c := m.clone()
	for p, x := range more {
		c[p] = x
	}
	return c
}

func (m model) clone() model {
	c := model{}
	for p, x := range m {
		c[p] = x
	}
	return c
}

func (m model) without(paths ...string) model {
	c := m.clone()
	for _, gone := range paths {
		for p := range c {
			if p == gone || strings.HasPrefix(p, gone+"/") {
				delete(c, p)
			}
		}
	}
	return c
}

func (m model) paths() []string {
	var ps []string
	for p := range m {
		ps = append(ps, p)
	}
	slices.Sort(ps)
	return ps
}

func (x thing) entry(name string) tree.Entry {
	e := tree.Entry{
		Name: name, Kind: x.Kind, Mode: x.Mode, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()),
		MTime: fsx.Time{Sec: x.MTime, Nsec: 5},
	}
	switch x.Kind {
	case tree.KindFile:
		e.Size, e.Digest = int64(len(x.Text)), sha256.Sum256([]byte(x.Text))
	case tree.KindSymlink:
		e.Target, e.Size = x.Text, int64(len(x.Text))
	case tree.KindDir, tree.KindFifo, tree.KindSocket:
	}
	if x.Attr != "" {
		e.Xattrs = []fsx.Xattr{{Name: "user.note", Value: []byte(x.Attr)}}
	}
	return e
}

func (m model) entry(path string) *tree.Entry {
	x, ok := m[path]
	if !ok {
		return nil
	}
	e := x.entry(baseOf(path))
	return &e
}

// ops are the changes from one model to another.
func ops(from, to model) []Op {
	var out []Op
	for _, p := range from.with(to).paths() {
		if from[p] != to[p] {
			a, b := from[p], to[p]
			if a.Kind == tree.KindDir && b.Kind == tree.KindDir && a.Mode == b.Mode && a.Attr == b.Attr {
				continue
			}
			out = append(out, Op{Path: p, Old: from.entry(p), New: to.entry(p)})
		}
	}
	return out
}

func (m model) links() [][]string {
	groups := map[string][]string{}
	for _, p := range m.paths() {
		if g := m[p].Group; g != "" {
			groups[g] = append(groups[g], p)
		}
	}
	var out [][]string
	for _, g := range groups {
		if len(g) > 1 {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return out
}

// Open makes a model the source of its contents.
func (m model) Open(path string, _ tree.Entry) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(m[path].Text)), nil
}

type packs map[string][]byte

func (p packs) Pack(layer string) (io.ReaderAt, int64, error) {
	b, ok := p[layer]
	if !ok {
		return nil, 0, fs.ErrNotExist
	}
	return bytes.NewReader(b), int64(len(b)), nil
}

// tree stores a model as a tree.
func (m model) tree(t tb) *tree.Tree {
	t.Helper()
	var buf bytes.Buffer
	w, err := tree.NewWriter(&buf, "layer", packs{})
	check(t, err)
	root := dir().entry("")
	root.Sub = m.node(t, w, ".")
	check(t, w.SetArea("workspace", root, tree.Links{Groups: m.links()}))
	_, err = w.Close()
	check(t, err)
	loaded, err := tree.Load(packs{"layer": buf.Bytes()}, "layer")
	check(t, err)
	tr, ok := loaded.Area("workspace")
	if !ok {
		t.Fatalf("no area")
	}
	return tr
}

func (m model) node(t tb, w *tree.Writer, at string) tree.Node {
	d := w.NewDir()
	for _, p := range m.paths() {
		if parentOf(p) != at {
			continue
		}
		e := m[p].entry(baseOf(p))
		if e.Kind == tree.KindDir {
			e.Sub = m.node(t, w, p)
		}
		d.Put(e)
	}
	n, err := d.Node()
	check(t, err)
	return n
}

// write makes a model real, with the standard library only.
func (m model) write(t tb, root string) {
	t.Helper()
	first := map[string]string{}
	for _, p := range m.paths() {
		x, at := m[p], filepath.Join(root, p)
		if g := x.Group; g != "" {
			if first[g] != "" {
				check(t, os.Link(first[g], at))
				continue
			}
			first[g] = at
		}
		switch x.Kind {
		case tree.KindFile:
			check(t, os.WriteFile(at, []byte(x.Text), 0o600))
		case tree.KindDir:
			check(t, os.Mkdir(at, 0o700))
		case tree.KindSymlink:
			check(t, os.Symlink(x.Text, at))
		case tree.KindFifo:
			check(t, syscall.Mkfifo(at, 0o600))
		case tree.KindSocket:
			check(t, syscall.Mknod(at, syscall.S_IFSOCK|0o600, 0))
		}
	}
	for _, p := range slices.Backward(m.paths()) {
		x, at := m[p], filepath.Join(root, p)
		if x.Attr != "" {
			check(t, unix.Lsetxattr(at, "user.note", []byte(x.Attr), 0))
		}
		if x.Kind == tree.KindSymlink {
			continue
		}
		check(t, unix.Fchmodat(unix.AT_FDCWD, at, x.Mode, 0))
		if x.MTime != 0 {
			ts := []unix.Timespec{{Sec: x.MTime, Nsec: 5}, {Sec: x.MTime, Nsec: 5}}
			check(t, unix.UtimesNanoAt(unix.AT_FDCWD, at, ts, unix.AT_SYMLINK_NOFOLLOW))
		}
	}
}

// read reads a directory into a model, with the standard library only. It
// changes the modes of closed directories and files, so it is the last step of
// a test.
func read(t tb, root string) model {
	t.Helper()
	m := model{}
	inodes := map[uint64][]string{}
	var walk func(rel string)
	walk = func(rel string) {
		names, err := os.ReadDir(filepath.Join(root, rel))
		check(t, err)
		for _, n := range names {
			p := filepath.Join(rel, n.Name())
			at := filepath.Join(root, p)
			var st unix.Stat_t
			check(t, unix.Lstat(at, &st))
			x := thing{Mode: st.Mode & 0o7777}
			if st.Mode&unix.S_IFMT != unix.S_IFLNK && st.Mode&0o700 != 0o700 {
				check(t, os.Chmod(at, 0o700))
			}
			switch st.Mode & unix.S_IFMT {
			case unix.S_IFREG:
				b, err := os.ReadFile(at)
				check(t, err)
				x.Kind, x.Text, x.MTime = tree.KindFile, string(b), st.Mtim.Sec
			case unix.S_IFDIR:
				x.Kind = tree.KindDir
				walk(p)
			case unix.S_IFLNK:
				x.Kind = tree.KindSymlink
				x.Text, err = os.Readlink(at)
				check(t, err)
			case unix.S_IFIFO:
				x.Kind = tree.KindFifo
			case unix.S_IFSOCK:
				x.Kind = tree.KindSocket
			}
			if x.Kind != tree.KindDir && st.Nlink > 1 {
				inodes[st.Ino] = append(inodes[st.Ino], p)
			}
			buf := make([]byte, 100)
			if size, err := unix.Lgetxattr(at, "user.note", buf); err == nil {
				x.Attr = string(buf[:size])
			}
			if x.Mode&0o700 != 0o700 && x.Kind != tree.KindSymlink {
				check(t, unix.Fchmodat(unix.AT_FDCWD, at, x.Mode, 0))
			}
			m[p] = x
		}
	}
	walk(".")
	for _, group := range inodes {
		if len(group) < 2 {
			continue
		}
		slices.Sort(group)
		for _, p := range group {
			x := m[p]
			x.Group = group[0]
			m[p] = x
		}
	}
	return m
}

// plain makes models comparable: groups are named by their first path, and
// fields that a model does not have are cleared.
func (m model) plain() model {
	c := m.clone()
	for p, x := range c {
		x.Group = ""
		if x.Kind != tree.KindFile {
			x.MTime = 0
		}
		if x.Kind == tree.KindSymlink {
			x.Mode = 0o777
		}
		c[p] = x
	}
	for _, g := range m.links() {
		for _, p := range g {
			x := c[p]
			x.Group = g[0]
			c[p] = x
		}
	}
	return c
}

func same(t tb, what, root string, want model) {
	t.Helper()
	if d := cmp.Diff(want.plain(), read(t, root).plain()); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// place is a target and a journal on disk.
type place struct {
	target, journal string
	seq             int
}

func newPlace(t *testing.T, m model) *place {
	t.Helper()
	top := t.TempDir()
	t.Cleanup(func() { openUp(top) })
	return makePlace(t, top, m)
}

// quickPlace is for tests that make hundreds.
func quickPlace(t *testing.T, m model) *place {
	t.Helper()
	top, err := quickDir()
	check(t, err)
	t.Cleanup(func() { openUp(top); _ = os.RemoveAll(top) })
	return makePlace(t, top, m)
}

// quickDir is in memory, where that has what a target needs.
func quickDir() (string, error) {
	top, err := os.MkdirTemp("/dev/shm", "apply")
	if err == nil && unix.Setxattr(top, "user.note", []byte("x"), 0) == nil {
		return top, nil
	}
	_ = os.RemoveAll(top)
	return os.MkdirTemp("", "apply")
}

func makePlace(t tb, top string, m model) *place {
	p := &place{target: filepath.Join(top, "target"), journal: filepath.Join(top, "applies")}
	check(t, os.Mkdir(p.target, 0o755))
	check(t, os.Chmod(p.target, 0o755))
	check(t, os.Mkdir(p.journal, 0o700))
	m.write(t, p.target)
	return p
}

// openUp lets closed directories be removed.
func openUp(top string) {
	_ = filepath.WalkDir(top, func(p string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
}

// next makes a journal for one more apply.
func (p *place) next(t tb) (*fsx.Dir, string) {
	t.Helper()
	p.seq++
	id := fmt.Sprintf("a%d", p.seq)
	check(t, os.Mkdir(filepath.Join(p.journal, id), 0o700))
	return p.open(t, id), id
}

func (p *place) open(t tb, id string) *fsx.Dir {
	d, err := fsx.OpenRoot(filepath.Join(p.journal, id))
	check(t, err)
	return d
}
