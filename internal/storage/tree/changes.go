package tree

import (
	"errors"
	"fmt"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// A tree of changes describes the changes of a directory of the host, which is
// not part of the tree. Paths that are not in the tree are as on the host. Two
// kinds of entries exist only there: whiteouts and opaque directories.

// KindWhiteout is a deleted name of the directory below or of an older layer.
// It has only a name. The constant has no type, so that it is not one of the
// kinds that all readers must handle: plain trees never have one.
const KindWhiteout = 6

// identityOpaque is the number by which an opaque directory differs from others
// in the identity.
const identityOpaque = 7

// Below describes the host's entry at a path when the entry was sealed, so that
// a later reader can distinguish additions from changes. It is not part of the
// identity, because the host's directory can change at any time.
type Below struct {
	// Kind is 0 if the host had no entry, or one that a tree cannot hold.
	Kind Kind
	// Same means that the entry differs from what is below at most in its
	// modification time, and if it is a directory, in what it holds.
	Same bool
}

// Changes reports whether this is a tree of changes.
func (t *Tree) Changes() bool { return t != nil && t.area.changes }

// SetChanges is SetArea for a tree of changes.
func (w *Writer) SetChanges(name string, root Entry, l Links) error {
	links, err := w.storeLinks(name, l)
	if err != nil {
		return err
	}
	return w.setArea(name, root, links, true)
}

// identityKind returns the number of the entry's type in the identity.
func identityKind(e *Entry) byte {
	if e.Opaque {
		return identityOpaque
	}
	return byte(e.Kind)
}

// The type byte of an entry in a pack. If markMore is set, a byte follows with
// what only trees of changes have, and with morePlain.
const (
	markMore   = 0x80
	moreKind   = 0x07 // of what is below
	moreSame   = 0x08
	moreOpaque = 0x10
	morePlain  = 0x20 // Entry.PlainDigest; from version 2 on
)

func (e *encoder) kind(x *Entry) {
	more := byte(x.Below.Kind)
	if x.Below.Same {
		more |= moreSame
	}
	if x.Opaque {
		more |= moreOpaque
	}
	if x.PlainDigest {
		more |= morePlain
	}
	if more == 0 {
		e.byte(byte(x.Kind))
		return
	}
	e.byte(byte(x.Kind) | markMore)
	e.byte(more)
}

func (d *decoder) kind(x *Entry) {
	k := d.byte()
	x.Kind = Kind(k &^ markMore)
	if k&markMore == 0 {
		return
	}
	more, known := d.byte(), byte(moreKind|moreSame|moreOpaque)
	if d.version > 1 {
		known |= morePlain
	}
	if more == 0 || more&^known != 0 {
		d.fail("unknown marks of an entry")
	}
	x.PlainDigest = more&morePlain != 0
	x.Below = Below{Kind: Kind(more & moreKind), Same: more&moreSame != 0}
	x.Opaque = more&moreOpaque != 0
}

// checkMarks returns why an entry cannot have the marks of a tree of changes that
// it has.
func checkMarks(e *Entry) error {
	switch {
	case e.Kind == KindWhiteout && (e.Mode != 0 || e.UID != 0 || e.GID != 0 || e.MTime != (fsx.Time{}) ||
		len(e.Xattrs) > 0 || e.Layer != "" || e.Stamp != (Stamp{})):
		return errors.New("a whiteout has only a name")
	case e.Opaque && e.Kind != KindDir:
		return errors.New("opaque, but not a directory")
	case e.PlainDigest && (e.Kind != KindFile || e.Size <= LargeFile):
		return errors.New("a digest of version 1, but not a large file")
	case e.Below.Kind > KindSocket:
		return fmt.Errorf("%s below", e.Below.Kind)
	case e.Below.Same && e.Below.Kind != e.Kind:
		return errors.New("the same as an entry of another kind")
	}
	return nil
}

// deliver removes the marks of trees of changes from plain trees, so that their
// readers need not handle them.
func (t *Tree) deliver(entries ...*Entry) error {
	if t.area.changes {
		return nil
	}
	for _, e := range entries {
		if e.Kind == KindWhiteout || e.Opaque || e.Below != (Below{}) {
			return corruptError(t.area.layer, fmt.Sprintf("area %q", t.area.name), fmt.Errorf("%q is an entry of a tree of changes", e.Name))
		}
	}
	return nil
}

// gather is the reader's, for this tree. A nil tree has nothing.
func (t *Tree) gather(p part, at slotPath) ([]*Entry, error) {
	if t == nil || p.absent() {
		return nil, nil
	}
	all, err := t.rd.gather(p, at)
	if err != nil {
		return nil, err
	}
	return all, t.deliver(all...)
}

// shows returns on which sides of a comparison the host's directory is seen where
// a tree has no entry.
type shows struct{ a, b bool }

// within returns shows for the contents of a directory that is old on one side
// and now on the other.
func (s shows) within(old, now *Entry) shows {
	open := func(e *Entry) bool { return e == nil || e.Kind == KindDir && !e.Opaque }
	return shows{a: s.a && open(old), b: s.b && open(now)}
}

// diffSide is one side of a comparison at a path: e is its entry, other the
// other side's. host means that it is the host's, of which only name and kind
// are known.
func diffSide(e *Entry, shows bool, other *Entry) (_ *Entry, host bool) {
	switch {
	case e != nil && e.Kind == KindWhiteout:
		return nil, false
	case e != nil:
		return e, false
	case !shows || other == nil || other.Below.Kind == 0:
		return nil, false
	case other.Below.Same && !other.Opaque:
		return other, false
	}
	return &Entry{Name: other.Name, Kind: other.Below.Kind}, true
}

// classifyOver is classify for trees of changes.
func classifyOver(old, now *Entry, s shows, opt DiffOptions) (Change, bool) {
	a, hostA := diffSide(old, s.a, now)
	b, hostB := diffSide(now, s.b, old)
	switch {
	case a == nil && b == nil:
		return Change{}, false
	case a == nil || b == nil || !hostA && !hostB:
		return classify(a, b, opt)
	}
	c := Change{Kind: Modified, Old: clone(a), New: clone(b)}
	if a.Kind != b.Kind {
		c.Kind = TypeChanged
	}
	return c, true
}
