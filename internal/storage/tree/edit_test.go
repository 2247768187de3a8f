package tree

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"testing"
)

func TestUnchangedWritesNothing(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 10, 5000} {
		m := wide(n)
		m.put("x", file("x"))
		s := store{}
		w := s.writer(t, "one")
		tr := s.finish(t, w, m.build(t, w), Links{})
		node := tr.Root().Sub
		w = s.writer(t, "two")
		before := w.offset
		same := func(name string, fill func(*DirEdit)) {
			t.Helper()
			e := w.Edit(tr, node)
			fill(e)
			if got, err := e.Node(); err != nil || got != node || w.offset != before {
				t.Errorf("%s: %v, node changed %v, %d bytes written", name, err, got != node, w.offset-before)
			}
		}
		x := m["x"]
		same("nothing", func(*DirEdit) {})
		same("delete what is not there", func(e *DirEdit) { e.Delete("no such name") })
		same("the same entry", func(e *DirEdit) { e.Put(x) })
		same("put and delete", func(e *DirEdit) { e.Put(Entry{Name: "new", Kind: KindFifo}); e.Delete("new") })
		y := x
		y.Layer, y.Stamp.Ino = "two", 5
		same("another layer", func(e *DirEdit) { e.Put(y) })
		e := w.Edit(tr, node).Exact()
		e.Put(y)
		got, err := e.Node()
		if err != nil || got == node || !got.Equal(node) {
			t.Errorf("exact: %v, node changed %v, hashes equal %v", err, got != node, got.Equal(node))
		}
	}
}

// TestEditOwnNodes changes directories that this writer made itself.
func TestEditOwnNodes(t *testing.T) {
	t.Parallel()
	m := wide(200)
	s := store{}
	w := s.writer(t, "one")
	root := m.build(t, w)
	e := w.Edit(nil, root.Sub)
	e.Delete("file-000007")
	m.remove("file-000007")
	n, err := e.Node()
	root.Sub = must(t, n, err)
	check(t, s.finish(t, w, root, Links{}), m, Links{})

	d, err := NewWriter(io.Discard, "one", nil)
	root = m.build(t, must(t, d, err))
	e = d.Edit(nil, root.Sub)
	e.Delete("file-000008")
	if _, err := e.Node(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("edit of what cannot be read back: %v", err)
	}
}

// TestWideDirectory checks that the cost in a wide directory depends on the
// change.
func TestWideDirectory(t *testing.T) {
	t.Parallel()
	m := wide(10000)
	s := store{}
	w := s.writer(t, "one")
	tr := s.finish(t, w, m.build(t, w), Links{})
	w = s.writer(t, "two")
	before := w.offset
	e := w.Edit(s.tree(t, "one"), tr.Root().Sub)
	e.Put(Entry{Name: "file-000100", Kind: KindFifo})
	e.Put(Entry{Name: "one more", Kind: KindFifo})
	e.Delete("file-000200")
	root := tr.Root()
	n, err := e.Node()
	root.Sub = must(t, n, err)
	if wrote := w.offset - before; wrote > 64<<10 {
		t.Errorf("three changes wrote %d bytes", wrote)
	}
	now := s.finish(t, w, root, Links{})
	reads := s.reads()
	changes, err := Diff(s.tree(t, "one"), now, DiffOptions{})
	if must(t, changes, err); len(changes) != 3 {
		t.Errorf("%d changes", len(changes))
	}
	if reads = s.reads() - reads; reads > 60 {
		t.Errorf("diff of three changes read %d records", reads)
	}
	m.put("file-000100", Entry{Kind: KindFifo})
	m.put("one more", Entry{Kind: KindFifo})
	m.remove("file-000200")
	check(t, now, m, Links{})
}

func TestParallelWriters(t *testing.T) {
	t.Parallel()
	s := store{}
	w := s.writer(t, "one")
	sub := wide(100)
	entries := make([]Entry, 64)
	var wg sync.WaitGroup
	for i := range entries {
		wg.Go(func() {
			e := w.NewDir()
			for _, c := range sub.children(".") {
				c.Layer = fmt.Sprintf("layer-%d", i%7)
				e.Put(c)
			}
			n, err := e.Node()
			if err != nil {
				t.Error(err)
			}
			entries[i] = Entry{Name: fmt.Sprintf("dir-%d", i), Kind: KindDir, Sub: n}
		})
	}
	wg.Wait()
	m := newModel()
	root := w.NewDir()
	for i, e := range entries {
		root.Put(e)
		m.put(e.Name, Entry{Kind: KindDir})
		for p, c := range sub {
			if p != "." {
				c.Layer = fmt.Sprintf("layer-%d", i%7)
				m.put(e.Name+"/"+p, c)
			}
		}
	}
	n, err := root.Node()
	tr := s.finish(t, w, Entry{Kind: KindDir, Mode: 0o755, Sub: must(t, n, err)}, Links{})
	check(t, tr, m, Links{})
}

// TestShape checks that the shape depends only on the names, on both sides of
// the limit.
func TestShape(t *testing.T) {
	t.Parallel()
	s := store{}
	w := s.writer(t, "base")
	m := wide(maxLeaf)
	tr := s.finish(t, w, m.build(t, w), Links{})
	for i, n := range []int{maxLeaf + 1, maxLeaf, 2000, maxLeaf + 1, maxLeaf, 1, 0, maxLeaf + 1} {
		was := maps.Clone(m)
		m = wide(n)
		w := s.writer(t, fmt.Sprintf("layer-%d", i))
		tr = s.finish(t, w, seal(t, w, tr, was, m), Links{})
		check(t, tr, m, Links{})
		p := tr.Root().Sub.part()
		b, err := tr.rd.read(&p, "")
		if must(t, b, err); (b.kids != nil) != (n > maxLeaf) {
			t.Errorf("%d entries: branch is %v", n, b.kids != nil)
		}
	}
}

// brokenOutput fails after some bytes.
type brokenOutput struct{ left int }

func (b *brokenOutput) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

func TestFailingOutput(t *testing.T) {
	t.Parallel()
	for _, left := range []int{0, 1 << 16} {
		w, err := NewWriter(&brokenOutput{left}, "one", nil)
		must(t, w, err)
		d := w.NewDir()
		for _, e := range wide(3000).children(".") {
			d.Put(e)
		}
		if _, err := d.Node(); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("node: %v", err)
		}
		if _, err := w.Close(); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("close: %v", err)
		}
	}
	w, err := NewWriter(&brokenOutput{0}, "one", nil)
	must(t, w, err)
	if _, err := w.Close(); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("close of a small one: %v", err)
	}
}

func TestCopyAllKeepsThings(t *testing.T) {
	t.Parallel()
	s := store{}
	w := s.writer(t, "one")
	tr := s.finish(t, w, small().build(t, w), Links{})
	for name, spoil := range map[string]func(*Entry){
		"name": func(e *Entry) { e.Name += "x" },
		"kind": func(e *Entry) { e.Kind = KindFifo },
		"node": func(e *Entry) { e.Sub = Node{Root: Hash{1}} },
		"mode": func(e *Entry) { e.Mode = 1 << 20 },
	} {
		_, err := discard(t).CopyAll(tr, func(e *Entry) {
			if e.Name == "a" {
				spoil(e)
			}
		})
		if !errors.Is(err, errInvalid) {
			t.Errorf("rewritten %s: %v", name, err)
		}
	}
}

// discard is a writer whose output is not kept.
func discard(t fataler) *Writer {
	w, err := NewWriter(io.Discard, "discarded", nil)
	return must(t, w, err)
}
