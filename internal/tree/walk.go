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
		if err := ValidName(name); err != nil {
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
	p, at := n.part(), spot("")
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
			return b.entries[i], true, t.deliver(b.entries[i : i+1])
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
func (t *Tree) Children(n Node) ([]Entry, error) { return t.gather(n.part(), "") }

// Walk calls fn for the root (whose path is ".") and for everything below it:
// parents before children, the names of a directory sorted bytewise. fn may
// return fs.SkipDir and fs.SkipAll, with the meaning they have for fs.WalkDir.
func (t *Tree) Walk(fn func(path string, e Entry) error) error {
	err := t.walk(".", t.Root(), 0, fn)
	if errors.Is(err, fs.SkipDir) || errors.Is(err, fs.SkipAll) {
		return nil
	}
	return err
}

func (t *Tree) walk(path string, e Entry, depth int, fn func(string, Entry) error) error {
	if err := fn(path, e); err != nil {
		if errors.Is(err, fs.SkipDir) && e.Kind == KindDir {
			return nil
		}
		return err
	}
	if e.Kind != KindDir {
		return nil
	}
	if depth >= maxDepth {
		return errDeep()
	}
	children, err := t.Children(e.Sub)
	if err != nil {
		return err
	}
	for _, c := range children {
		err := t.walk(join(path, c.Name), c, depth+1, fn)
		if errors.Is(err, fs.SkipDir) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errDeep ends a walk before it exhausts the stack. It does not tell the path,
// which is as long as the tree is deep.
func errDeep() error {
	return fmt.Errorf("more than %d directories in one another: %w", maxDepth, ErrInvalid)
}

func join(dir, name string) string {
	if dir == "." {
		return name
	}
	return dir + "/" + name
}
