package tree

import "fmt"

// CopyAll writes every directory of t into this pack, so that the new tree
// refers to no other pack, and returns its root. rewrite is called for the root
// and everything below, parents first, and may change the entry but for its
// name, kind and node; it may be nil. Hard links are not copied: give SetArea
// what t.Links reads.
func (w *Writer) CopyAll(t *Tree, rewrite func(e *Entry)) (Entry, error) {
	root, err := w.copyAll(t, rewrite)
	if err != nil {
		return Entry{}, fmt.Errorf("copy tree: %w", err)
	}
	return root, nil
}

// copiedDir is a directory that is being copied.
type copiedDir struct {
	e    Entry
	left []Entry
	dir  *DirEdit
}

func (w *Writer) copyAll(t *Tree, rewrite func(e *Entry)) (Entry, error) {
	var stack []copiedDir
	// enter copies an entry; for a directory it begins the copy.
	enter := func(e Entry) (bool, Entry, error) {
		e, err := rewritten(e, rewrite)
		if err != nil || e.Kind != KindDir {
			return false, e, err
		}
		children, err := t.Children(e.Sub)
		stack = append(stack, copiedDir{e: e, left: children, dir: w.NewDir()})
		return true, e, err
	}
	if _, _, err := enter(t.Root()); err != nil {
		return Entry{}, err
	}
	for {
		top := &stack[len(stack)-1]
		if len(top.left) > 0 {
			c := top.left[0]
			top.left = top.left[1:]
			begun, e, err := enter(c)
			if err != nil {
				return Entry{}, err
			}
			if !begun {
				top.dir.Put(e)
			}
			continue
		}
		done := top.e
		var err error
		if done.Sub, err = top.dir.Node(); err != nil {
			return Entry{}, err
		}
		if stack = stack[:len(stack)-1]; len(stack) == 0 {
			return done, nil
		}
		stack[len(stack)-1].dir.Put(done)
	}
}

func rewritten(e Entry, rewrite func(e *Entry)) (Entry, error) {
	name, kind, sub := e.Name, e.Kind, e.Sub
	if rewrite != nil {
		rewrite(&e)
	}
	if e.Name != name || e.Kind != kind || e.Sub != sub {
		return Entry{}, fmt.Errorf("%q was replaced: %w", name, errInvalid)
	}
	return e, nil
}
