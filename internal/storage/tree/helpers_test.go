package tree

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// memory is a pack in memory that can be read while it is written.
type memory struct {
	mu    sync.Mutex
	b     []byte
	reads atomic.Int64
}

func (m *memory) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.b = append(m.b, b...)
	return len(b), nil
}

func (m *memory) ReadAt(b []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads.Add(1)
	return bytes.NewReader(m.b).ReadAt(b, off)
}

// store is all packs of a test.
type store map[string]*memory

func (s store) Pack(layer string) (io.ReaderAt, int64, error) {
	m, ok := s[layer]
	if !ok {
		return nil, 0, fs.ErrNotExist
	}
	return m, int64(len(m.b)), nil
}

func (s store) reads() (n int64) {
	for _, m := range s {
		n += m.reads.Load()
	}
	return n
}

// fataler is a *testing.T, a *testing.B or a *rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func must[T any](t fataler, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	return v
}

func (s store) writer(t fataler, layer string) *Writer {
	t.Helper()
	s[layer] = &memory{}
	w, err := NewWriter(s[layer], layer, s)
	return must(t, w, err)
}

func (s store) tree(t fataler, layer string) *Tree {
	t.Helper()
	m, err := Load(s, layer)
	must(t, m, err)
	tr, ok := m.Area("workspace")
	if !ok {
		t.Fatalf("no workspace in layer %s", layer)
	}
	return tr
}

// finish closes a writer with one area and loads the tree.
func (s store) finish(t fataler, w *Writer, root Entry, l Links) *Tree {
	t.Helper()
	if err := w.SetArea("workspace", root, l); err != nil {
		t.Fatalf("set area: %v", err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	return s.tree(t, w.layer)
}

// model is an independent model of a tree: every path with its entry, whose Sub
// is not used; "." is the root.
type model map[string]Entry

func newModel() model { return model{".": {Kind: KindDir, Mode: 0o755}} }

func (m model) put(p string, e Entry) {
	e.Name = path.Base(p)
	m[p] = e
}

func (m model) remove(p string) {
	delete(m, p)
	maps.DeleteFunc(m, func(q string, _ Entry) bool { return strings.HasPrefix(q, p+"/") })
}

// children are the entries of a directory, sorted by name.
func (m model) children(dir string) []Entry {
	var list []Entry
	for p, e := range m {
		if p != "." && path.Dir(p) == dir {
			list = append(list, e)
		}
	}
	sortEntries(list)
	return list
}

func (m model) totals() (files, dirs, size int64) {
	for p, e := range m {
		switch {
		case p == ".":
		case e.Kind == KindDir:
			dirs++
		default:
			files++
			if e.Kind == KindFile {
				size += e.Size
			}
		}
	}
	return files, dirs, size
}

// build writes the whole model, as an import does.
func (m model) build(t fataler, w *Writer) Entry {
	t.Helper()
	kids := make(map[string][]string)
	for p := range m {
		if p != "." {
			kids[path.Dir(p)] = append(kids[path.Dir(p)], p)
		}
	}
	var dir func(p string) Entry
	dir = func(p string) Entry {
		e := m[p]
		if e.Kind != KindDir {
			return e
		}
		ed := w.NewDir()
		for _, k := range kids[p] {
			ed.Put(dir(k))
		}
		n, err := ed.Node()
		e.Sub = must(t, n, err)
		return e
	}
	root := dir(".")
	root.Name = ""
	return root
}

// seal writes only what differs between two models.
func seal(t fataler, w *Writer, old *Tree, was, is model) Entry {
	t.Helper()
	touched := make(map[string]bool)
	for p := range maps.Keys(mergeKeys(was, is)) {
		a, inA := was[p]
		b, inB := is[p]
		if inA && inB && sameIdentity(&a, &b) {
			continue
		}
		for touched[p] = true; p != "."; {
			p = path.Dir(p)
			touched[p] = true
		}
	}
	var dir func(p string, before *Entry) Entry
	dir = func(p string, before *Entry) Entry {
		e := is[p]
		if e.Kind != KindDir {
			return e
		}
		ed := w.NewDir()
		if before != nil && before.Kind == KindDir {
			ed = w.Edit(old, before.Sub)
		}
		for q := range touched {
			if q == "." || path.Dir(q) != p {
				continue
			}
			if _, there := is[q]; !there {
				ed.Delete(path.Base(q))
				continue
			}
			var prev *Entry
			if before != nil && before.Kind == KindDir {
				if x, ok, err := old.Child(before.Sub, path.Base(q)); err != nil {
					t.Fatalf("child: %v", err)
				} else if ok {
					prev = &x
				}
			}
			ed.Put(dir(q, prev))
		}
		n, err := ed.Node()
		e.Sub = must(t, n, err)
		return e
	}
	before := old.Root()
	root := dir(".", &before)
	root.Name = ""
	return root
}

func mergeKeys(a, b model) model {
	m := maps.Clone(a)
	maps.Copy(m, b)
	return m
}

// file is a file whose contents are a text.
func file(text string) Entry {
	return Entry{
		Kind: KindFile, Mode: 0o644, Size: int64(len(text)), Digest: sha256.Sum256([]byte(text)),
		MTime: fsx.Time{Sec: 1700000000, Nsec: 5},
	}
}

// wide is a model with n files in one directory.
func wide(n int) model {
	m := newModel()
	for i := range n {
		m.put(fmt.Sprintf("file-%06d", i), file(fmt.Sprint(i)))
	}
	return m
}

// check compares a tree with the model in every respect.
func check(t fataler, tr *Tree, m model, l Links) {
	t.Helper()
	got := make(model)
	var order []string
	err := tr.Walk(func(p string, e Entry) error {
		e.Sub = Node{}
		got[p] = e
		order = append(order, p)
		return nil
	})
	must(t, 0, err)
	if len(got) != len(m) || len(order) != len(m) {
		t.Fatalf("tree has %d paths, model %d", len(got), len(m))
	}
	for p, want := range m {
		g, ok := got[p]
		if p == "." {
			want.Name = ""
		}
		if !ok || !sameIdentity(&g, &want) || g.Layer != want.Layer || g.Stamp != want.Stamp {
			t.Fatalf("at %q: tree has %+v, model %+v", p, g, want)
		}
		e, ok, err := tr.Lookup(p)
		if must(t, ok, err); !ok || e.Digest != g.Digest {
			t.Fatalf("look up %q: %v %+v", p, ok, e)
		}
	}
	if !slices.IsSortedFunc(order, walkOrder) {
		t.Fatalf("walk out of order: %q", order)
	}
	files, dirs, size := m.totals()
	if n := tr.Root().Sub; n.Files != files || n.Dirs != dirs || n.Bytes != size {
		t.Fatalf("totals %d %d %d, model %d %d %d", n.Files, n.Dirs, n.Bytes, files, dirs, size)
	}
	root, meta := tr.Roots()
	if want := (identity{m: m, changes: tr.Changes()}).area(l); root != want {
		t.Fatalf("root %s, model %s", root, want)
	}
	if want := (identity{m: m, times: true, changes: tr.Changes()}).area(l); meta != want {
		t.Fatalf("meta root %s, model %s", meta, want)
	}
}

// walkOrder compares paths component by component; the root is first.
func walkOrder(a, b string) int {
	components := func(p string) []string {
		if p == "." {
			return nil
		}
		return strings.Split(p, "/")
	}
	return slices.Compare(components(a), components(b))
}

func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}
