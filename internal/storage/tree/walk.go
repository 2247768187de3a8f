package tree

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Tree is one area of one manifest. It is immutable and safe for concurrent
// use.
type Tree struct {
	area *area
	rd   *reader
}

// Root is the entry of the root directory. Its name is empty.
func (t *Tree) Root() Entry { return t.area.entry }

// Roots are the identity of the whole tree, with the root's own metadata and
// the hard links. The first leaves modification times out.
func (t *Tree) Roots() (root, meta Hash) { return t.area.root, t.area.meta }

// Lookup finds the entry at a path, which is relative to the root and slash
// separated; "." is the root. Symlinks are not followed.
func (t *Tree) Lookup(path string) (Entry, bool, error) {
	e := t.Root()
	if path == "." {
		return e, true, nil
	}
	for name := range strings.SplitSeq(path, "/") {
		if err := validName(name); err != nil {
			return Entry{}, false, fmt.Errorf("look up %q: %w", path, err)
		}
		if e.Kind != KindDir {
			return Entry{}, false, nil
		}
		next, ok, err := t.Child(e.Sub, name)
		if !ok || err != nil {
			return Entry{}, false, err
		}
		e = next
	}
	return e, true, nil
}

// Child finds a name in a directory.
func (t *Tree) Child(n Node, name string) (Entry, bool, error) {
	p, at := n.part(), slotPath("")
	hash := sha256.Sum256([]byte(name))
	for {
		b, err := t.rd.read(&p, at)
		if err != nil {
			return Entry{}, false, err
		}
		if b.kids == nil {
			i, ok := slices.BinarySearchFunc(b.entries, name, func(e Entry, s string) int { return strings.Compare(e.Name, s) })
			if !ok {
				return Entry{}, false, nil
			}
			return b.entries[i], true, t.deliver(&b.entries[i])
		}
		i := nibble(&hash, len(at))
		p, at = b.kids[i], at.slot(i)
		if p.absent() {
			return Entry{}, false, nil
		}
	}
}

// Children lists a directory, sorted bytewise by name. The slice belongs to the
// caller.
func (t *Tree) Children(n Node) ([]Entry, error) {
	list, err := t.gather(n.part(), "")
	return valuesOf(list), err
}

// Walk calls fn for the root (whose path is ".") and for everything below it:
// parents before children, the names of a directory sorted bytewise. fn may
// return fs.SkipDir and fs.SkipAll, with the meaning they have for fs.WalkDir.
// Trees may be nested as deeply as memory allows: nothing recurses.
func (t *Tree) Walk(fn func(path string, e Entry) error) error { return t.WalkFrom(t.Root(), fn) }

// WalkFrom is Walk for one entry of the tree: paths are relative to it, and its
// own is ".".
func (t *Tree) WalkFrom(top Entry, fn func(path string, e Entry) error) error {
	top.Name = ""
	var at walkPath
	left := [][]Entry{{top}} // what is left of each directory on the way
	for len(left) > 0 {
		last := len(left) - 1
		if len(left[last]) == 0 {
			left = left[:last]
			at.up()
			continue
		}
		e := left[last][0]
		left[last] = left[last][1:]
		err := fn(at.join(e.Name), e)
		switch {
		case errors.Is(err, fs.SkipAll):
			return nil
		case errors.Is(err, fs.SkipDir):
			if e.Kind != KindDir {
				left[last] = nil
			}
			continue
		case err != nil:
			return err
		}
		if e.Kind != KindDir {
			continue
		}
		children, err := t.Children(e.Sub)
		if err != nil {
			return err
		}
		left = append(left, children)
		at.down(e.Name)
	}
	return nil
}

// walkPath is the path of the directory that a walk is in. The root's name is
// empty, and what is in the root has paths without it.
type walkPath struct {
	path []byte
	ends []int // lengths of the paths above
}

func (t *walkPath) down(name string) {
	t.ends = append(t.ends, len(t.path))
	if len(t.path) > 0 {
		t.path = append(t.path, '/')
	}
	t.path = append(t.path, name...)
}

func (t *walkPath) up() {
	if n := len(t.ends) - 1; n >= 0 {
		t.path, t.ends = t.path[:t.ends[n]], t.ends[:n]
	}
}

// join is the path of a name in the directory.
func (t *walkPath) join(name string) string {
	switch {
	case name == "":
		return "."
	case len(t.path) == 0:
		return name
	}
	return string(t.path) + "/" + name
}
