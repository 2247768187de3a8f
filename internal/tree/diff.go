package tree

import (
	"fmt"
	"slices"
	"strings"
)

// ChangeKind says what became of a path.
type ChangeKind string

// The kinds of changes. A change of several kinds has the first of them that
// applies, in this order, and lists the others in Also.
const (
	Added        ChangeKind = "added"
	Deleted      ChangeKind = "deleted"
	Renamed      ChangeKind = "renamed"
	TypeChanged  ChangeKind = "type"
	Modified     ChangeKind = "modified" // contents of a file, target of a symlink
	ModeChanged  ChangeKind = "mode"
	OwnerChanged ChangeKind = "owner"
	XattrChanged ChangeKind = "xattr"
	MTimeChanged ChangeKind = "mtime" // only with DiffOptions.MTimes
)

// Change is one path that differs between two trees.
type Change struct {
	Path    string // of the root: "."
	OldPath string // where a renamed file was
	Kind    ChangeKind
	Old     *Entry // nil when added
	New     *Entry // nil when deleted
	Also    []ChangeKind
	// MetaOnly means that the thing is the same and only its metadata changed.
	MetaOnly bool
}

// DiffOptions say what counts as a change.
type DiffOptions struct {
	// Renames pairs deleted with added files of the same, not empty, contents.
	Renames bool
	// MTimes counts modification times too.
	MTimes bool
}

// Diff lists what changed from a to b, sorted bytewise by path. Equal subtrees,
// and equal parts of wide directories, are not read. A directory that came or
// went is listed with everything below it. Hard links are not compared.
//
// Either may be nil: a tree with nothing in it.
//
// Of two trees of changes, of which either may be nil too, it lists what someone
// sees change who looks at the host's directory through them. What the host has
// is known from Entry.Below alone. So an entry that stands for the host's own
// has nothing but name and kind, a directory of the host that went is listed
// without what was in it, and one that an opaque directory took the place of is
// Modified.
func Diff(a, b *Tree, opt DiffOptions) ([]Change, error) {
	if a != nil && b != nil && a.Changes() != b.Changes() {
		return nil, fmt.Errorf("diff: a tree of changes and a plain one: %w", ErrInvalid)
	}
	if a == nil && b == nil {
		return nil, nil
	}
	over := a.Changes() || b.Changes()
	return diff(&differ{a: a, b: b, opt: opt, over: over}, shows{over, over})
}

func diff(d *differ, s shows) ([]Change, error) {
	root := func(t *Tree) *Entry {
		if t == nil {
			return nil
		}
		e := t.Root()
		return &e
	}
	opt := d.opt
	if err := d.entry(".", 0, root(d.a), root(d.b), s); err != nil {
		return nil, fmt.Errorf("diff: %w", err)
	}
	if opt.Renames {
		d.changes = pairRenames(d.changes, opt)
	}
	slices.SortFunc(d.changes, func(x, y Change) int { return strings.Compare(x.Path, y.Path) })
	return d.changes, nil
}

type differ struct {
	a, b    *Tree // nil: nothing
	opt     DiffOptions
	over    bool // a and b are trees of changes, of which the effect is asked
	changes []Change
}

// equal tells whether two parts need not be read.
func (d *differ) equal(a, b *part) bool {
	if d.opt.MTimes {
		return a.meta == b.meta
	}
	return a.root == b.root
}

// entry compares what one path was and is. Either may be nil.
func (d *differ) entry(path string, depth int, old, now *Entry, s shows) error {
	if depth > maxDepth {
		return errDeep()
	}
	c, changed := Change{}, false
	if d.over {
		c, changed = classifyOver(old, now, s, d.opt)
	} else {
		c, changed = classify(old, now, d.opt)
	}
	if changed {
		c.Path = path
		d.changes = append(d.changes, c)
	}
	var a, b part
	if old != nil && old.Kind == KindDir {
		a = old.Sub.part()
	}
	if now != nil && now.Kind == KindDir {
		b = now.Sub.part()
	}
	return d.dir(path, depth, a, b, "", s.within(old, now))
}

// dir compares two parts that stand at one spot of a directory's fan-out.
func (d *differ) dir(path string, depth int, a, b part, at spot, s shows) error {
	if a.absent() && b.absent() || !a.absent() && !b.absent() && d.equal(&a, &b) {
		return nil
	}
	if a.absent() || b.absent() {
		return d.leaves(path, depth, a, b, at, s)
	}
	x, err := d.a.rd.read(&a, at)
	if err != nil {
		return err
	}
	y, err := d.b.rd.read(&b, at)
	if err != nil {
		return err
	}
	if x.kids == nil || y.kids == nil {
		return d.leaves(path, depth, a, b, at, s)
	}
	for i := range x.kids {
		if err := d.dir(path, depth, x.kids[i], y.kids[i], at.slot(i), s); err != nil {
			return err
		}
	}
	return nil
}

// leaves compares all entries below two parts by name.
func (d *differ) leaves(path string, depth int, a, b part, at spot, s shows) error {
	olds, err := d.a.gather(a, at)
	if err != nil {
		return err
	}
	news, err := d.b.gather(b, at)
	if err != nil {
		return err
	}
	for len(olds) > 0 || len(news) > 0 {
		var old, now *Entry
		if len(news) == 0 || len(olds) > 0 && olds[0].Name <= news[0].Name {
			old = &olds[0]
		}
		if len(olds) == 0 || len(news) > 0 && news[0].Name <= olds[0].Name {
			now = &news[0]
		}
		name := ""
		if old != nil {
			name, olds = old.Name, olds[1:]
		}
		if now != nil {
			name, news = now.Name, news[1:]
		}
		if err := d.entry(join(path, name), depth+1, old, now, s); err != nil {
			return err
		}
	}
	return nil
}

// classify says how an entry changed, what is below it left aside.
func classify(old, now *Entry, opt DiffOptions) (Change, bool) {
	var c Change
	switch {
	case old == nil:
		c.Kind = Added
	case now == nil:
		c.Kind = Deleted
	default:
		kinds := aspects(old, now, opt)
		if len(kinds) == 0 {
			return Change{}, false
		}
		c.Kind, c.Also = kinds[0], kinds[1:]
		if len(c.Also) == 0 {
			c.Also = nil
		}
		c.MetaOnly = c.Kind != TypeChanged && c.Kind != Modified
	}
	c.Old, c.New = clone(old), clone(now)
	return c, true
}

// aspects lists in what two entries differ.
func aspects(old, now *Entry, opt DiffOptions) []ChangeKind {
	var kinds []ChangeKind
	add := func(differs bool, k ChangeKind) {
		if differs {
			kinds = append(kinds, k)
		}
	}
	if old.Kind != now.Kind {
		add(true, TypeChanged)
	} else {
		add(old.Size != now.Size || old.Digest != now.Digest || old.Target != now.Target || old.Opaque != now.Opaque, Modified)
	}
	add(old.Mode != now.Mode, ModeChanged)
	add(old.UID != now.UID || old.GID != now.GID, OwnerChanged)
	add(!sameXattrs(old.Xattrs, now.Xattrs), XattrChanged)
	add(opt.MTimes && old.MTime != now.MTime, MTimeChanged)
	return kinds
}

// clone keeps a change from holding on to the whole directory it was in.
func clone(e *Entry) *Entry {
	if e == nil {
		return nil
	}
	c := *e
	return &c
}
