package tree

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// TestGolden fixes the identity: these values may never change within v1.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		m          model
		l          Links
		root, meta string
	}{
		{"empty", newModel(), Links{}, goldenEmptyRoot, goldenEmptyMeta},
		{"small", small(), smallLinks(), goldenSmallRoot, goldenSmallMeta},
		{"wide", wide(1000), Links{}, goldenWideRoot, goldenWideMeta},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := store{}
			w := s.writer(t, "golden")
			tr := s.finish(t, w, c.m.build(t, w), c.l)
			check(t, tr, c.m, c.l)
			root, meta := tr.Roots()
			if root.String() != c.root || meta.String() != c.meta {
				t.Errorf("roots %s %s", root, meta)
			}
		})
	}
}

// small has one entry of each kind.
func small() model {
	m := newModel()
	m.put("a", file("same"))
	m.put("b", file("same"))
	m.put("dir", Entry{Kind: KindDir, Mode: 0o1777, UID: 1, GID: 2, MTime: fsx.Time{Sec: -1, Nsec: 999999999}})
	m.put("dir/link", Entry{Kind: KindSymlink, Mode: 0o777, Size: 4, Target: "../a"})
	m.put("dir/fifo", Entry{Kind: KindFifo, Mode: 0o600})
	m.put("dir/sock", Entry{Kind: KindSocket, Mode: 0o600})
	x := file("")
	x.Xattrs = []fsx.Xattr{{Name: "user.x", Value: []byte{0, 1}}, {Name: "user.y"}}
	x.Stamp = Stamp{Ino: 7, CTime: fsx.Time{Sec: 8, Nsec: 9}, Dev: 10}
	x.Layer = "older"
	m.put("dir/\xff\n", x)
	m.put("empty", Entry{Kind: KindDir, Mode: 0o700})
	return m
}

func smallLinks() Links { return Links{Groups: [][]string{{"a", "b"}}} }

func TestPutRefuses(t *testing.T) {
	t.Parallel()
	ok := file("x")
	ok.Name = "x"
	for name, spoil := range map[string]func(*Entry){
		"empty name":       func(e *Entry) { e.Name = "" },
		"dot":              func(e *Entry) { e.Name = "." },
		"dot dot":          func(e *Entry) { e.Name = ".." },
		"slash":            func(e *Entry) { e.Name = "a/b" },
		"NUL":              func(e *Entry) { e.Name = "a\x00" },
		"long name":        func(e *Entry) { e.Name = strings.Repeat("a", maxName+1) },
		"no kind":          func(e *Entry) { e.Kind = 0 },
		"unknown kind":     func(e *Entry) { e.Kind = 7 },
		"mode":             func(e *Entry) { e.Mode = 0o10000 },
		"size":             func(e *Entry) { e.Size = -1 },
		"nanoseconds":      func(e *Entry) { e.MTime.Nsec = nsecPerSec },
		"negative":         func(e *Entry) { e.MTime.Nsec = -1 },
		"no target":        func(e *Entry) { e.Kind = KindSymlink },
		"NUL in target":    func(e *Entry) { e.Kind, e.Target = KindSymlink, "a\x00" },
		"no node":          func(e *Entry) { e.Kind = KindDir },
		"twice the xattr":  func(e *Entry) { e.Xattrs = []fsx.Xattr{{Name: "user.a"}, {Name: "user.a"}} },
		"nameless xattr":   func(e *Entry) { e.Xattrs = []fsx.Xattr{{}} },
		"layer with slash": func(e *Entry) { e.Layer = "../x" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := store{}.writer(t, "one")
			e := ok
			spoil(&e)
			d := w.NewDir()
			d.Put(ok)
			d.Put(e)
			if _, err := d.Node(); !errors.Is(err, errInvalid) {
				t.Errorf("accepted: %v", err)
			}
		})
	}
}

func TestPutMakesCanonical(t *testing.T) {
	t.Parallel()
	s := store{}
	w := s.writer(t, "one")
	d := w.NewDir()
	given := []fsx.Xattr{{Name: "user.b"}, {Name: "user.a"}}
	d.Put(Entry{Name: "x", Kind: KindSymlink, Size: 99, Target: "abc", Digest: Hash{1}, Xattrs: given})
	n, err := d.Node()
	tr := s.finish(t, w, Entry{Kind: KindDir, Size: 4096, Sub: must(t, n, err)}, Links{})
	e, _, err := tr.Lookup("x")
	if must(t, e, err); e.Size != 3 || !e.Digest.IsZero() || e.Xattrs[0].Name != "user.a" {
		t.Errorf("%+v", e)
	}
	if given[0].Name != "user.b" {
		t.Error("the caller's attributes were sorted in place")
	}
	if tr.Root().Size != 0 {
		t.Error("a directory has a size")
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	s := store{}
	w := s.writer(t, "one")
	tr := s.finish(t, w, small().build(t, w), Links{})
	for p, want := range map[string]bool{".": true, "dir/fifo": true, "dir": true, "no": false, "a/b": false, "dir/no/no": false} {
		if _, ok, err := tr.Lookup(p); ok != want || err != nil {
			t.Errorf("%q: %v %v", p, ok, err)
		}
	}
	for _, p := range []string{"", "/a", "a/", "dir//fifo", "dir/../a", "./a", "dir/\x00"} {
		if _, ok, err := tr.Lookup(p); ok || !errors.Is(err, errInvalid) {
			t.Errorf("%q: %v %v", p, ok, err)
		}
	}
}

func TestWalkSkips(t *testing.T) {
	t.Parallel()
	s := store{}
	w := s.writer(t, "one")
	tr := s.finish(t, w, small().build(t, w), Links{})
	walk := func(at string, err error) string {
		var seen []string
		if werr := tr.Walk(func(p string, _ Entry) error {
			seen = append(seen, p)
			if p == at {
				return err
			}
			return nil
		}); werr != nil && !errors.Is(werr, io.ErrNoProgress) {
			t.Error(werr)
		}
		return strings.ReplaceAll(strings.Join(seen, " "), "\xff\n", "odd")
	}
	for _, c := range []struct {
		at   string
		err  error
		want string
	}{
		{"", nil, ". a b dir dir/fifo dir/link dir/sock dir/odd empty"},
		{"dir", fs.SkipDir, ". a b dir empty"},
		{"dir/fifo", fs.SkipDir, ". a b dir dir/fifo empty"},
		{"b", fs.SkipAll, ". a b"},
		{".", fs.SkipDir, "."},
		{"dir/link", io.ErrNoProgress, ". a b dir dir/fifo dir/link"},
	} {
		if got := walk(c.at, c.err); got != c.want {
			t.Errorf("%v at %q: %s, want %s", c.err, c.at, got, c.want)
		}
	}
}

// TestDeepTree: no operation takes a stack frame for each level.
func TestDeepTree(t *testing.T) {
	t.Parallel()
	const depth = 10_000
	s := store{}
	w := s.writer(t, "one")
	e := Entry{Name: "d", Kind: KindFifo}
	for range depth {
		d := w.NewDir()
		d.Put(e)
		n, err := d.Node()
		e = Entry{Name: "d", Kind: KindDir, Sub: must(t, n, err)}
	}
	tr := s.finish(t, w, e, Links{})
	seen, longest := 0, 0
	err := tr.Walk(func(path string, _ Entry) error {
		seen, longest = seen+1, max(longest, len(path))
		return nil
	})
	if err != nil || seen != depth+1 || longest != 2*depth-1 {
		t.Errorf("walk: %d entries, the longest path %d: %v", seen, longest, err)
	}
	if n, err := CountChanges(nil, tr, DiffOptions{Renames: true}); n != depth+1 || err != nil {
		t.Errorf("count: %d: %v", n, err)
	}
	n := 0
	err = DiffFunc(tr, nil, DiffOptions{Renames: true}, func(Change) error { n++; return nil })
	if n != depth+1 || err != nil {
		t.Errorf("diff: %d: %v", n, err)
	}
	two := s.writer(t, "two")
	root, err := two.CopyAll(tr, nil)
	if err != nil || !root.Sub.Equal(tr.Root().Sub) {
		t.Errorf("copy: %v", err)
	}
}

func TestLinksTable(t *testing.T) {
	t.Parallel()
	for _, groups := range [][][]string{
		{{"a"}},
		{{}},
		{{"b", "a"}},
		{{"a", "a"}},
		{{"b", "c"}, {"a", "d"}},
		{{"a", "c"}, {"b", "c"}},
		{{"a", "../b"}},
		{{"", "b"}},
		{{"/a", "b"}},
	} {
		w := store{}.writer(t, "one")
		n, err := w.NewDir().Node()
		if err := w.SetArea("workspace", Entry{Kind: KindDir, Sub: must(t, n, err)}, Links{groups}); !errors.Is(err, errInvalid) {
			t.Errorf("%q: %v", groups, err)
		}
	}
}

func TestKeepLinks(t *testing.T) {
	t.Parallel()
	s := store{}
	w := s.writer(t, "one")
	tr := s.finish(t, w, small().build(t, w), smallLinks())
	w = s.writer(t, "two")
	before := w.offset
	if err := w.SetAreaKeepLinks("workspace", tr.Root(), tr); err != nil {
		t.Fatal(err)
	}
	if w.offset != before {
		t.Error("kept links were written")
	}
	roots, err := w.Close()
	root, meta := tr.Roots()
	want := AreaRoots{Root: root, Meta: meta, Files: 6, Dirs: 2, Bytes: 8}
	if d := cmp.Diff(map[string]AreaRoots{"workspace": want}, must(t, roots, err)); d != "" {
		t.Error(d)
	}
	l, err := s.tree(t, "two").Links()
	if d := cmp.Diff(smallLinks(), must(t, l, err)); d != "" {
		t.Error(d)
	}
}

func TestAreas(t *testing.T) {
	t.Parallel()
	s := store{}
	w := s.writer(t, "one")
	n, err := w.NewDir().Node()
	dir := Entry{Kind: KindDir, Sub: must(t, n, err)}
	for _, name := range []string{"workspace", "home"} {
		must(t, 0, w.SetArea(name, dir, Links{}))
	}
	for name, root := range map[string]Entry{"home": dir, "": dir, "a\x00b": dir, "x": {Kind: KindFifo}} {
		if err := w.SetArea(name, root, Links{}); !errors.Is(err, errInvalid) {
			t.Errorf("area %q: %v", name, err)
		}
	}
	_, err = w.Close()
	must(t, 0, err)
	if _, err := w.Close(); !errors.Is(err, errInvalid) {
		t.Errorf("closed twice: %v", err)
	}
	if _, err := w.NewDir().Node(); !errors.Is(err, errInvalid) {
		t.Errorf("written after close: %v", err)
	}
	m, err := Load(s, "one")
	if got := must(t, m, err).Areas(); !slices.Equal(got, []string{"home", "workspace"}) || m.Layer() != "one" {
		t.Errorf("areas %q of %q", got, m.Layer())
	}
	if _, ok := m.Area("other"); ok {
		t.Error("an area that is not there")
	}
}

func TestHashText(t *testing.T) {
	t.Parallel()
	h := Hash(bytes.Repeat([]byte{0xab}, 32))
	if got, err := ParseHash(h.String()); err != nil || got != h {
		t.Errorf("%v %v", got, err)
	}
	for _, s := range []string{"", "ab", strings.ToUpper(h.String()), h.String() + "00", strings.Repeat("z", 64)} {
		if _, err := ParseHash(s); !errors.Is(err, errInvalid) {
			t.Errorf("%q: %v", s, err)
		}
	}
}
