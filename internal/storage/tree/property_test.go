package tree

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// anyName has every byte that a name may have, and names that sort oddly
// against the separator.
func anyName() *rapid.Generator[string] {
	odd := rapid.SampledFrom([]string{"a", "a.b", "a-b", "a b", "\xff", "\x01", "...", ".wh.x", "é", "a\n", "-"})
	raw := rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 6), func(b []byte) string { return string(b) })
	return rapid.OneOf(odd, raw).Filter(func(s string) bool { return validName(s) == nil })
}

func anyEntry(t *rapid.T, layer string) Entry {
	e := Entry{
		Kind:  rapid.SampledFrom([]Kind{KindFile, KindFile, KindFile, KindDir, KindDir, KindSymlink, KindFifo, KindSocket}).Draw(t, "kind"),
		Mode:  uint32(rapid.SampledFrom([]int{0o644, 0o755, 0, 0o7777}).Draw(t, "mode")),
		UID:   rapid.SampledFrom([]uint32{0, 1000, 1<<32 - 1}).Draw(t, "uid"),
		MTime: fsx.Time{Sec: rapid.Int64Range(-2, 2).Draw(t, "sec"), Nsec: rapid.SampledFrom([]int32{0, 999999999}).Draw(t, "nsec")},
		Layer: layer,
		Stamp: Stamp{Ino: rapid.Uint64().Draw(t, "ino")},
	}
	switch e.Kind {
	case KindFile:
		f := file(rapid.SampledFrom([]string{"", "x", "y", "long text"}).Draw(t, "text"))
		e.Size, e.Digest = f.Size, f.Digest
	case KindSymlink:
		e.Target = rapid.SampledFrom([]string{"x", "../y", "/", "\xfe"}).Draw(t, "target")
		e.Size = int64(len(e.Target))
	}
	if rapid.IntRange(0, 4).Draw(t, "xattrs") == 0 {
		e.Xattrs = []fsx.Xattr{{Name: "user.a", Value: rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "value")}, {Name: "user.b"}}
	}
	return e
}

// mutate makes random changes to a model. Entries that it sets carry the layer.
func mutate(t *rapid.T, m model, layer string) {
	for range rapid.IntRange(0, 12).Draw(t, "changes") {
		dirs := m.dirs()
		dir := rapid.SampledFrom(dirs).Draw(t, "dir")
		switch rapid.IntRange(0, 7).Draw(t, "what") {
		case 0, 1, 2:
			m.set(join(dir, anyName().Draw(t, "name")), anyEntry(t, layer))
		case 3: // many names at once: leaves become branches
			from, n := rapid.IntRange(0, 200).Draw(t, "from"), rapid.IntRange(1, 200).Draw(t, "n")
			e := anyEntry(t, layer)
			for i := from; i < from+n; i++ {
				m.set(join(dir, fmt.Sprintf("n%d", i)), e)
			}
		case 4: // and leaves again
			from, n := rapid.IntRange(0, 200).Draw(t, "from"), rapid.IntRange(1, 300).Draw(t, "n")
			for i := from; i < from+n; i++ {
				m.remove(join(dir, fmt.Sprintf("n%d", i)))
			}
		case 5:
			if dir != "." {
				m.remove(dir)
			}
		case 6: // the metadata of a directory, which keeps its contents
			e := m[dir]
			e.Mode = uint32(rapid.IntRange(0, maxMode).Draw(t, "mode"))
			e.MTime.Sec++
			e.Layer = layer
			m[dir] = e
		case 7:
			m.move(t, dir, layer)
		}
	}
}

// dirs are the directories, the root first, in an order that the seed decides.
func (m model) dirs() []string {
	var dirs []string
	for p, e := range m {
		if e.Kind == KindDir {
			dirs = append(dirs, p)
		}
	}
	slices.SortFunc(dirs, walkOrder)
	return dirs
}

// set sets an entry that changes something; a directory over a directory keeps
// its contents.
func (m model) set(p string, e Entry) {
	e.Name = path.Base(p)
	old, ok := m[p]
	if ok && sameIdentity(&old, &e) {
		return
	}
	if ok && (old.Kind != KindDir || e.Kind != KindDir) {
		m.remove(p)
	}
	m[p] = e
}

// move renames a directory with its contents.
func (m model) move(t *rapid.T, dir, layer string) {
	to := "moved-" + anyName().Draw(t, "to")
	if _, there := m[to]; there || dir == "." || validName(to) != nil {
		return
	}
	for p, e := range maps.Clone(m) {
		if p == dir || strings.HasPrefix(p, dir+"/") {
			e.Layer = layer
			m.put(to+p[len(dir):], e)
		}
	}
	m.remove(dir)
}

// keep leaves what is in the end as it was in its old layer: it may have been moved away,
// and an equal entry to its place.
func (m model) keep(was model) {
	for p, e := range m {
		if old, ok := was[p]; ok && sameIdentity(&old, &e) {
			e.Layer = old.Layer
			m[p] = e
		}
	}
}

// someLinks groups files of the model that have equal contents.
func someLinks(m model) Links {
	groups := make(map[Hash][]string)
	for p, e := range m {
		if e.Kind == KindFile && strings.Count(p, "n") > 0 && e.Size == 1 {
			groups[e.Digest] = append(groups[e.Digest], p)
		}
	}
	var l Links
	for _, g := range groups {
		if slices.Sort(g); len(g) > 1 {
			l.Groups = append(l.Groups, g)
		}
	}
	slices.SortFunc(l.Groups, slices.Compare)
	return l
}

func TestHistory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := store{}
		is := newModel()
		w := s.writer(t, "layer-0")
		tr := s.finish(t, w, is.build(t, w), Links{})
		check(t, tr, is, Links{})
		for i := range rapid.IntRange(1, 4).Draw(t, "layers") {
			was, old := maps.Clone(is), tr
			layer := fmt.Sprintf("layer-%d", i+1)
			mutate(t, is, layer)
			is.keep(was)
			l := someLinks(is)
			w := s.writer(t, layer)
			tr = s.finish(t, w, seal(t, w, old, was, is), l)
			check(t, tr, is, l)
			if got, err := tr.Links(); err != nil || !slices.EqualFunc(got.Groups, l.Groups, slices.Equal) {
				t.Fatalf("links %v %v, want %v", got, err, l)
			}
			for _, opt := range []DiffOptions{{}, {MTimes: true}} {
				checkDiff(t, old, tr, was, is, opt)
				checkDiff(t, tr, old, is, was, opt)
			}
		}
		checkCopies(t, s, tr, is)
	})
}

// checkCopies makes the same tree in other ways: in one step, and by copying.
func checkCopies(t *rapid.T, s store, tr *Tree, m model) {
	l := someLinks(m)
	w := s.writer(t, "scratch")
	scratch := s.finish(t, w, m.build(t, w), l)
	w = s.writer(t, "squashed")
	root, err := w.CopyAll(tr, func(e *Entry) { e.Layer = "squashed" })
	squashed := s.finish(t, w, must(t, root, err), l)
	for _, other := range []*Tree{scratch, squashed} {
		if d, err := Compare(tr, other); err != nil || len(d) > 0 {
			t.Fatalf("compare: %v %v", d, err)
		}
		root, meta := tr.Roots()
		if r, mt := other.Roots(); r != root || mt != meta {
			t.Fatalf("the same tree made otherwise has other roots")
		}
	}
	mf, err := Load(store{"squashed": s["squashed"]}, "squashed")
	if refers := must(t, mf, err).Refers(); !slices.Equal(refers, []string{"squashed"}) {
		t.Fatalf("a copied tree refers to %v", refers)
	}
	moved := maps.Clone(m)
	for p, e := range moved {
		e.Layer = "squashed"
		moved[p] = e
	}
	check(t, squashed, moved, l)
}

// checkDiff compares Diff with a comparison of the two models path by path.
func checkDiff(t *rapid.T, a, b *Tree, was, is model, opt DiffOptions) {
	t.Helper()
	changes, err := Diff(a, b, opt)
	must(t, changes, err)
	if !slices.IsSortedFunc(changes, func(x, y Change) int { return strings.Compare(x.Path, y.Path) }) {
		t.Fatalf("diff is not sorted")
	}
	got := make(map[string]string)
	for _, c := range changes {
		got[c.Path] = fmt.Sprint(c.Kind, c.Also, c.MetaOnly, c.Old != nil, c.New != nil)
	}
	want := make(map[string]string)
	for p := range mergeKeys(was, is) {
		x, inX := was[p]
		y, inY := is[p]
		switch {
		case !inX:
			want[p] = fmt.Sprint(Added, []ChangeKind(nil), false, false, true)
		case !inY:
			want[p] = fmt.Sprint(Deleted, []ChangeKind(nil), false, true, false)
		default:
			if s := modelChange(x, y, opt); s != "" {
				want[p] = s
			}
		}
	}
	if !maps.Equal(got, want) {
		t.Fatalf("diff %v\nmodel %v", got, want)
	}
}

func modelChange(x, y Entry, opt DiffOptions) string {
	var kinds []ChangeKind
	switch {
	case x.Kind != y.Kind:
		kinds = append(kinds, TypeChanged)
	case x.Digest != y.Digest || x.Target != y.Target:
		kinds = append(kinds, Modified)
	}
	meta := len(kinds) == 0
	if x.Mode != y.Mode {
		kinds = append(kinds, ModeChanged)
	}
	if x.UID != y.UID {
		kinds = append(kinds, OwnerChanged)
	}
	if fmt.Sprint(x.Xattrs) != fmt.Sprint(y.Xattrs) {
		kinds = append(kinds, XattrChanged)
	}
	if opt.MTimes && x.MTime != y.MTime {
		kinds = append(kinds, MTimeChanged)
	}
	if len(kinds) == 0 {
		return ""
	}
	return fmt.Sprint(kinds[0], kinds[1:], meta, true, true)
}
