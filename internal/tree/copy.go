package tree

import "fmt"

// CopyAll writes every directory of t into this pack, so that the new tree
// refers to no other pack, and returns its root. rewrite is called for the root
// (".") and every path below, parents first, and may change the entry but for
// its name, kind and node; it may be nil. Hard links are not copied: give
// SetArea what t.Links reads.
func (w *Writer) CopyAll(t *Tree, rewrite func(path string, e *Entry)) (Entry, error) {
	e, err := w.copyEntry(t, ".", t.Root(), 0, rewrite)
	if err != nil {
		return Entry{}, fmt.Errorf("copy tree: %w", err)
	}
	return e, nil
}

func (w *Writer) copyEntry(t *Tree, path string, e Entry, depth int, rewrite func(string, *Entry)) (Entry, error) {
	if depth > maxDepth {
		return Entry{}, errDeep()
	}
	name, kind, sub := e.Name, e.Kind, e.Sub
	if rewrite != nil {
		rewrite(path, &e)
	}
	if e.Name != name || e.Kind != kind || e.Sub != sub {
		return Entry{}, fmt.Errorf("%q became another thing: %w", path, ErrInvalid)
	}
	if kind != KindDir {
		return e, nil
	}
	children, err := t.Children(sub)
	if err != nil {
		return Entry{}, err
	}
	dir := w.NewDir()
	for _, c := range children {
		c, err := w.copyEntry(t, join(path, c.Name), c, depth+1, rewrite)
		if err != nil {
			return Entry{}, err
		}
		dir.Put(c)
	}
	e.Sub, err = dir.Node()
	return e, err
}
