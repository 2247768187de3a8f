package tree

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// markedEntries have every mark of a tree of changes.
func markedEntries() []Entry {
	f := file("x")
	f.Name, f.Below = "file", Below{Kind: KindSymlink}
	same := file("y")
	same.Name, same.Below = "same", Below{Kind: KindFile, Same: true}
	return []Entry{
		f, same,
		{Name: "whiteout", Kind: KindWhiteout, Below: Below{Kind: KindDir}},
		{Name: "whiteout2", Kind: KindWhiteout},
	}
}

// The roots of a small tree of changes.
const (
	goldenChangesRoot = "d2f8d68d7ecb34bb44854e37b9ad1dd0e9a3f3ef293c657ca0b7337ed6316d1e"
	goldenChangesMeta = "46808439ddfbe772ac51f4616d143affbf1aa688cad9a186d1de669109b08814"
)

// TestChangesIdentity compares the identity of a tree of changes with the plain
// implementation, and keeps it apart from that of a plain tree.
func TestChangesIdentity(t *testing.T) {
	t.Parallel()
	m := newModel()
	m.put("dir", Entry{Kind: KindDir, Mode: 0o755, Below: Below{Kind: KindDir, Same: true}})
	m.put("dir/new", Entry{Kind: KindDir, Mode: 0o700, Opaque: true})
	m.put("dir/new/file", file("text"))
	m.put("gone", Entry{Kind: KindWhiteout, Below: Below{Kind: KindFile}})
	for i := range 100 { // wide
		m.put(fmt.Sprintf("dir/gone-%d", i), Entry{Kind: KindWhiteout})
	}
	s := store{}
	w := s.writer(t, "one")
	root := m.build(t, w)
	must(t, 0, w.SetChanges("system:/usr", root, Links{}))
	must(t, 0, w.SetArea("empty", newModel().build(t, w), Links{}))
	must(t, 0, w.SetChanges("changes", newModel().build(t, w), Links{}))
	if err := w.SetArea("x", Entry{Kind: KindDir, Mode: 0o755, Sub: root.Sub, Opaque: true}, Links{}); !errors.Is(err, errInvalid) {
		t.Errorf("an opaque root of a plain tree: %v", err)
	}
	roots, err := w.Close()
	must(t, 0, err)
	if roots["empty"].Root == roots["changes"].Root {
		t.Error("no changes are the same as an empty tree")
	}
	man, err := Load(s, "one")
	tr, _ := must(t, man, err).Area("system:/usr")
	if !tr.Changes() {
		t.Fatal("not a tree of changes")
	}
	id := identity{m: m, changes: true}
	if got, want := roots["system:/usr"].Root, id.area(Links{}); got != want {
		t.Errorf("root %s, plain implementation %s", got, want)
	}
	id.times = true
	if got, want := roots["system:/usr"].Meta, id.area(Links{}); got != want {
		t.Errorf("meta root %s, plain implementation %s", got, want)
	}
	if r := roots["system:/usr"]; r.Root.String() != goldenChangesRoot || r.Meta.String() != goldenChangesMeta {
		t.Errorf("roots %s %s", r.Root, r.Meta)
	}
	if n := tr.Root().Sub; n.Files != 1 || n.Dirs != 2 {
		t.Errorf("whiteouts were counted: %+v", n)
	}
	e, ok, err := tr.Lookup("gone")
	if must(t, ok, err); !ok || e.Kind != KindWhiteout || e.Below.Kind != KindFile {
		t.Errorf("look up: %+v", e)
	}
}

// TestPlainTreeHasNoMarks checks that readers of plain trees never get marks of
// trees of changes.
func TestPlainTreeHasNoMarks(t *testing.T) {
	t.Parallel()
	for _, mark := range []Entry{
		{Kind: KindWhiteout},
		{Kind: KindDir, Mode: 0o755, Opaque: true},
		{Kind: KindFifo, Below: Below{Kind: KindFifo, Same: true}},
	} {
		m := newModel()
		m.put("d", Entry{Kind: KindDir})
		m.put("d/mark", mark)
		s := store{}
		w := s.writer(t, "one")
		tr := s.finish(t, w, m.build(t, w), Links{})
		_, _, err := tr.Lookup("d/mark")
		walked := tr.Walk(func(string, Entry) error { return nil })
		_, diffed := Diff(nil, tr, DiffOptions{})
		for what, err := range map[string]error{"look up": err, "walk": walked, "diff": diffed} {
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), `layer "one"`) {
				t.Errorf("%s: %s: %v", mark.Kind, what, err)
			}
		}
	}
}

// listing is the visible contents of a directory: the text of a file, or "/"
// for a directory.
type listing map[string]string

// changed is a host's directory with changes over it, stored as an overlay
// stores them.
type changed struct {
	host listing
	m    model
}

func newChanged(host listing) *changed {
	c := &changed{host: host, m: newModel()}
	c.m["."] = c.mark(".", c.m["."])
	return c
}

// mark records what the host has.
func (c *changed) mark(p string, e Entry) Entry {
	was, ok := c.host[p]
	switch {
	case !ok:
		e.Below = Below{}
	case was == "/":
		e.Below = Below{Kind: KindDir, Same: e.Kind == KindDir}
	default:
		e.Below = Below{Kind: KindFile, Same: e.Kind == KindFile && file(was).Digest == e.Digest}
	}
	return e
}

// open reports whether the host's entries are visible in a directory.
func (c *changed) open(dir string) bool {
	for {
		if e, ok := c.m[dir]; ok && (e.Opaque || e.Kind != KindDir) {
			return false
		}
		if dir == "." {
			return true
		}
		dir = path.Dir(dir)
	}
}

func (c *changed) at(p string) string {
	if e, ok := c.m[p]; ok {
		switch {
		case e.Kind == KindWhiteout:
			return ""
		case e.Kind == KindDir:
			return "/"
		}
		return fmt.Sprintf("%x", e.Digest)
	}
	if was := c.host[p]; was != "" && c.open(path.Dir(p)) {
		if was == "/" {
			return was
		}
		return fmt.Sprintf("%x", file(was).Digest)
	}
	return ""
}

// up makes the directories above a path part of the changes.
func (c *changed) up(p string) {
	for d := path.Dir(p); d != "."; d = path.Dir(d) {
		if _, ok := c.m[d]; !ok {
			c.m.put(d, c.mark(d, Entry{Kind: KindDir}))
		}
	}
}

func (c *changed) act(t *rapid.T, p string) {
	if d := path.Dir(p); c.at(d) != "/" && d != "." {
		return
	}
	is := c.at(p)
	switch rapid.IntRange(0, 2).Draw(t, "what") {
	case 0:
		if is != "/" {
			c.up(p)
			c.m.put(p, c.mark(p, file(rapid.SampledFrom([]string{"x", "y"}).Draw(t, "text"))))
		}
	case 1:
		if is == "" {
			c.up(p)
			c.m.put(p, c.mark(p, Entry{Kind: KindDir, Opaque: c.open(path.Dir(p)) && c.host[p] == "/"}))
		}
	case 2:
		if is != "" {
			c.up(p)
			c.m.remove(p)
			if c.host[p] != "" && c.open(path.Dir(p)) {
				c.m.put(p, c.mark(p, Entry{Kind: KindWhiteout}))
			}
		}
	}
}

// TestDiffOver compares the diff of trees of changes with the contents that are
// visible through them.
func TestDiffOver(t *testing.T) {
	t.Parallel()
	paths := []string{"a", "b", "a/a", "a/b", "b/a", "a/a/a", "a/b/b"}
	rapid.Check(t, func(t *rapid.T) {
		host := listing{".": "/"}
		for _, p := range paths {
			if d := path.Dir(p); host[d] == "/" {
				if s := rapid.SampledFrom([]string{"", "/", "/", "x", "z"}).Draw(t, "host "+p); s != "" {
					host[p] = s
				}
			}
		}
		s := store{}
		var sides []*changed
		var trees []*Tree
		c := newChanged(host)
		for i := range 3 {
			for range rapid.IntRange(0, 6).Draw(t, "acts") {
				c.act(t, rapid.SampledFrom(paths).Draw(t, "path"))
			}
			w := s.writer(t, fmt.Sprintf("layer-%d", i))
			must(t, 0, w.SetChanges("workspace", c.m.build(t, w), Links{}))
			if _, err := w.Close(); err != nil {
				t.Fatalf("close: %v", err)
			}
			trees = append(trees, s.tree(t, w.layer))
			sides = append(sides, &changed{host: host, m: maps.Clone(c.m)})
		}
		trees, sides = append(trees, nil), append(sides, newChanged(host))
		for i := range trees {
			for j := range trees {
				checkOver(t, paths, trees[i], trees[j], sides[i], sides[j])
			}
		}
	})
}

func checkOver(t *rapid.T, paths []string, a, b *Tree, was, is *changed) {
	t.Helper()
	changes, err := Diff(a, b, DiffOptions{})
	must(t, changes, err)
	var got, want []string
	for _, c := range changes {
		got = append(got, fmt.Sprint(c.Path, " ", c.Kind))
	}
	for _, p := range slices.Sorted(slices.Values(paths)) {
		x, inX := was.m[p]
		y, inY := is.m[p]
		if !inX && !inY {
			continue // the host's, about which the trees say nothing
		}
		old, now := was.at(p), is.at(p)
		kind := Modified
		switch {
		case old == "" && now != "":
			kind = Added
		case old != "" && now == "":
			kind = Deleted
		case (old == "/") != (now == "/"):
			kind = TypeChanged
		case old == now && x.Opaque == y.Opaque, old == "" && now == "":
			continue
		}
		want = append(want, fmt.Sprint(p, " ", kind))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("host %v\nwas %v\nis %v\n%s", was.host, was.m, is.m, d)
	}
}
