package tree

import (
	"fmt"
	"slices"
	"strings"
)

// ChangeKind is the kind of a change of a path.
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

// DiffOptions configures what counts as a change.
type DiffOptions struct {
	// Renames pairs deleted with added files of the same, not empty, contents.
	Renames bool
	// MTimes counts modification times too.
	MTimes bool
	// SameBytes, if set, compares the bytes of two large files of one size whose
	// digests are of different versions and so say nothing. Without it they count
	// as different.
	SameBytes func(path string, old, now Entry) (bool, error)
}

// Diff lists what changed from a to b, sorted bytewise by path. Equal subtrees,
// and equal parts of wide directories, are not read. A directory that came or
// went is listed with everything below it. Hard links are not compared.
//
// Either may be nil: a tree with nothing in it. A path that is longer than maxPath
// ends it with a *LongPathError: the list would grow with the square of the depth.
//
// Of two trees of changes, of which either may be nil too, it lists what someone
// sees change who looks at the host's directory through them. What the host has
// is known from Entry.Below alone. So an entry that stands for the host's own
// has nothing but name and kind, a directory of the host that went is listed
// without what was in it, and one that an opaque directory took the place of is
// Modified.
func Diff(a, b *Tree, opt DiffOptions) ([]Change, error) {
	pair := opt.Renames
	opt.Renames = false
	var all []Change
	err := DiffFunc(a, b, opt, func(c Change) error {
		all = append(all, c)
		return CheckLength(c.Path)
	})
	if err == nil && pair {
		all = pairRenames(all, opt)
	}
	return all, err
}

// DiffFunc calls emit with the changes of Diff, in the same order, while it
// compares. It holds only the directories above the present path. To pair
// renames it reads all deleted and added files at the first of them. If there
// are too many to remember, renames are listed as deleted and added.
func DiffFunc(a, b *Tree, opt DiffOptions, emit func(Change) error) error {
	d, err := newDiffer(a, b, opt)
	if d == nil || err != nil {
		return err
	}
	var r pairs
	paired := !opt.Renames
	err = d.visit(nil, func(c Change, path func() string) error {
		if !paired && halfOfRename(c) {
			paired = true
			var err error
			if r, err = d.renames(); err != nil {
				return err
			}
		}
		c.Path = path()
		if r.from[c.Path] && c.Kind == Deleted {
			return nil
		}
		if now, ok := r.to[c.Path]; ok && c.Kind == Added {
			c = now
		}
		return emit(c)
	})
	if err != nil {
		return fmt.Errorf("diff: %w", err)
	}
	return nil
}

// CountChanges returns the number of changes that Diff lists.
func CountChanges(a, b *Tree, opt DiffOptions) (int, error) {
	d, err := newDiffer(a, b, opt)
	if d == nil || err != nil {
		return 0, err
	}
	n := 0
	gone, came := map[Hash]int{}, map[Hash]int{}
	err = d.visit(nil, func(c Change, _ func() string) error {
		n++
		switch {
		case !opt.Renames:
		case c.Kind == Deleted && canRename(c.Old):
			gone[c.Old.Digest]++
		case c.Kind == Added && canRename(c.New):
			came[c.New.Digest]++
		}
		return nil
	})
	for digest, k := range gone {
		n -= min(k, came[digest])
	}
	if err != nil {
		return 0, fmt.Errorf("diff: %w", err)
	}
	return n, nil
}

// differ compares two trees.
type differ struct {
	a, b *Tree // nil if there is none
	opt  DiffOptions
	over bool // a and b are trees of changes, and their effect is compared
}

// newDiffer returns nil if there is nothing to compare.
func newDiffer(a, b *Tree, opt DiffOptions) (*differ, error) {
	if a != nil && b != nil && a.Changes() != b.Changes() {
		return nil, fmt.Errorf("diff: a tree of changes and a plain one: %w", errInvalid)
	}
	if a == nil && b == nil {
		return nil, nil //nolint:nilnil // as documented
	}
	return &differ{a: a, b: b, opt: opt, over: a.Changes() || b.Changes()}, nil
}

// item is one name in a directory of either side: the entries themselves, or
// what is below them, which in the order of the paths may come later.
type item struct {
	key      string
	old, now *Entry
	below    bool
}

// diffDir is a directory on the way.
type diffDir struct {
	left  []item
	shows shows
}

// visit calls fn for each change, in the order of their paths. enter, if not nil,
// selects the directories that are looked into.
func (d *differ) visit(enter func(old, now *Entry) bool, fn func(c Change, path func() string) error) error {
	var at walkPath
	old, now := rootOf(d.a), rootOf(d.b)
	show := shows{d.over, d.over}
	left, err := d.below(old, now)
	if err != nil {
		return err
	}
	left = append(left, item{key: ".", old: old, now: now})
	sortItems(left)
	// The root's own change is sorted among the names in it, but compared as
	// the root.
	stack := []diffDir{{left, show.within(old, now)}}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if len(top.left) == 0 {
			stack = stack[:len(stack)-1]
			at.up()
			continue
		}
		it := top.left[0]
		top.left = top.left[1:]
		s := top.shows
		if it.key == "." {
			s = show
		}
		if !it.below {
			if err := d.entry(&at, it, s, fn); err != nil {
				return err
			}
			continue
		}
		if enter != nil && !enter(it.old, it.now) {
			continue
		}
		left, err := d.below(it.old, it.now)
		if err != nil {
			return err
		}
		sortItems(left)
		stack = append(stack, diffDir{left, s.within(it.old, it.now)})
		at.down(it.key[:len(it.key)-1])
	}
	return nil
}

func rootOf(t *Tree) *Entry {
	if t == nil {
		return nil
	}
	e := t.Root()
	return &e
}

func sortItems(items []item) {
	slices.SortFunc(items, func(x, y item) int { return strings.Compare(x.key, y.key) })
}

// entry reports how one path changed, without its contents below.
func (d *differ) entry(at *walkPath, it item, s shows, fn func(Change, func() string) error) error {
	path := func() string {
		if it.key == "." {
			return "."
		}
		return at.join(it.key)
	}
	old, now := it.old, it.now
	if d.opt.SameBytes != nil && old != nil && now != nil && old.PlainDigest != now.PlainDigest && old.Kind == now.Kind && old.Size == now.Size {
		same, err := d.opt.SameBytes(path(), *old, *now)
		if err != nil {
			return err
		}
		if same {
			e := *now
			e.Digest, e.PlainDigest = old.Digest, old.PlainDigest
			now = &e
		}
	}
	var c Change
	var changed bool
	if d.over {
		c, changed = classifyOver(old, now, s, d.opt)
	} else {
		c, changed = classify(old, now, d.opt)
	}
	if !changed {
		return nil
	}
	return fn(c, path)
}

// below lists the names of a directory that may differ between both sides.
func (d *differ) below(old, now *Entry) ([]item, error) {
	var a, b part
	if old != nil && old.Kind == KindDir {
		a = old.Sub.part()
	}
	if now != nil && now.Kind == KindDir {
		b = now.Sub.part()
	}
	return d.dir(nil, a, b, "")
}

// equal reports whether two parts are equal without reading them.
func (d *differ) equal(a, b *part) bool {
	if d.opt.MTimes {
		return a.meta == b.meta
	}
	return a.root == b.root
}

// dir compares two parts at the same place in a directory's tree of nodes.
func (d *differ) dir(to []item, a, b part, at slotPath) ([]item, error) {
	if a.absent() && b.absent() || !a.absent() && !b.absent() && d.equal(&a, &b) {
		return to, nil
	}
	if a.absent() || b.absent() {
		return d.leaves(to, a, b, at)
	}
	x, err := d.a.rd.read(&a, at)
	if err != nil {
		return nil, err
	}
	y, err := d.b.rd.read(&b, at)
	if err != nil {
		return nil, err
	}
	if x.kids == nil || y.kids == nil {
		return d.leaves(to, a, b, at)
	}
	for i := range x.kids {
		if to, err = d.dir(to, x.kids[i], y.kids[i], at.slot(i)); err != nil {
			return nil, err
		}
	}
	return to, nil
}

// leaves lists all entries below two parts by name.
func (d *differ) leaves(to []item, a, b part, at slotPath) ([]item, error) {
	olds, err := d.a.gather(a, at)
	if err != nil {
		return nil, err
	}
	news, err := d.b.gather(b, at)
	if err != nil {
		return nil, err
	}
	to = slices.Grow(to, max(len(olds), len(news)))
	for len(olds) > 0 || len(news) > 0 {
		var it item
		if len(news) == 0 || len(olds) > 0 && olds[0].Name <= news[0].Name {
			it.old, it.key = olds[0], olds[0].Name
		}
		if len(olds) == 0 || len(news) > 0 && news[0].Name <= olds[0].Name {
			it.now, it.key = news[0], news[0].Name
		}
		if it.old != nil {
			olds = olds[1:]
		}
		if it.now != nil {
			news = news[1:]
		}
		to = append(to, it)
		if isDir(it.old) || isDir(it.now) {
			it.below, it.key = true, it.key+"/"
			to = append(to, it)
		}
	}
	return to, nil
}

func isDir(e *Entry) bool { return e != nil && e.Kind == KindDir }

// classify returns how an entry itself changed, apart from its contents below.
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

// aspects lists the attributes in which two entries differ.
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

// clone copies a change, so that it does not keep the whole directory in
// memory.
func clone(e *Entry) *Entry {
	if e == nil {
		return nil
	}
	c := *e
	return &c
}
