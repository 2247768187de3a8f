package tree

import (
	"path"
	"slices"
	"strings"
)

// pairRenames makes one change of a deleted and an added regular file that have
// the same contents. Empty files are equal without being related. Where there
// is a choice, the same base name wins, then the first path; each file is used
// once.
func pairRenames(changes []Change, opt DiffOptions) []Change {
	byPath := func(a, b Change) int { return strings.Compare(a.Path, b.Path) }
	slices.SortFunc(changes, byPath)

	var r renames
	for i := range changes {
		if c := &changes[i]; c.Kind == Deleted && canRename(c.Old) {
			r.offer(i, c)
		}
	}
	var rest []int
	for i := range changes {
		c := &changes[i]
		if c.Kind != Added || !canRename(c.New) {
			continue
		}
		if from, ok := r.take(content{c.New.Digest, path.Base(c.Path)}); ok {
			rename(c, &changes[from], opt)
		} else {
			rest = append(rest, i)
		}
	}
	for _, i := range rest {
		c := &changes[i]
		if from, ok := r.take(content{c.New.Digest, ""}); ok {
			rename(c, &changes[from], opt)
		}
	}
	kept := changes[:0]
	for i, c := range changes {
		if !r.used[i] {
			kept = append(kept, c)
		}
	}
	return kept
}

// Bounds of what is remembered to pair renames with.
const (
	maxRenames     = 1 << 20
	maxRenamePaths = 64 << 20
)

// pairs are the renames among the changes: the paths that files were moved from,
// and what became of them.
type pairs struct {
	from map[string]bool
	to   map[string]Change
}

// renames finds the pairs. What was deleted comes first: without it nothing that
// was added needs to be looked at.
func (d *differ) renames() (pairs, error) {
	c := candidates{gone: map[Hash]bool{}}
	err := d.visit(func(old, _ *Entry) bool { return isDir(old) && !c.full }, func(ch Change, path func() string) error {
		if ch.Kind == Deleted && canRename(ch.Old) {
			c.gone[ch.Old.Digest] = true
			c.add(ch, path)
		}
		return nil
	})
	if err != nil || len(c.list) == 0 || c.full {
		return pairs{}, err
	}
	err = d.visit(func(_, now *Entry) bool { return isDir(now) && !c.full }, func(ch Change, path func() string) error {
		if ch.Kind == Added && canRename(ch.New) && c.gone[ch.New.Digest] {
			c.add(ch, path)
		}
		return nil
	})
	if err != nil || c.full {
		return pairs{}, err
	}
	p := pairs{from: map[string]bool{}, to: map[string]Change{}}
	for _, ch := range pairRenames(c.list, d.opt) {
		if ch.Kind == Renamed {
			p.from[ch.OldPath], p.to[ch.Path] = true, ch
		}
	}
	return p, nil
}

// halfOfRename reports whether a change may be one side of a rename.
func halfOfRename(c Change) bool {
	return c.Kind == Deleted && canRename(c.Old) || c.Kind == Added && canRename(c.New)
}

// candidates are changes that may be halves of renames.
type candidates struct {
	gone  map[Hash]bool
	list  []Change
	bytes int
	full  bool
}

func (c *candidates) add(ch Change, path func() string) {
	if c.full {
		return
	}
	ch.Path = path()
	c.list, c.bytes = append(c.list, ch), c.bytes+len(ch.Path)
	c.full = len(c.list) > maxRenames || c.bytes > maxRenamePaths
}

func canRename(e *Entry) bool { return e.Kind == KindFile && e.Size > 0 }

// content is a digest with a base name, or with none for any.
type content struct {
	digest Hash
	base   string
}

// renames are the deleted files that can still be the origin of an added one.
type renames struct {
	from map[content][]int // in the order of their paths
	used map[int]bool
}

func (r *renames) offer(i int, c *Change) {
	if r.from == nil {
		r.from, r.used = make(map[content][]int), make(map[int]bool)
	}
	for _, k := range []content{{c.Old.Digest, path.Base(c.Path)}, {c.Old.Digest, ""}} {
		r.from[k] = append(r.from[k], i)
	}
}

func (r *renames) take(k content) (int, bool) {
	for left := r.from[k]; len(left) > 0; {
		i := left[0]
		left = left[1:]
		r.from[k] = left
		if !r.used[i] {
			r.used[i] = true
			return i, true
		}
	}
	return 0, false
}

// rename turns the added file into a renamed one.
func rename(c, from *Change, opt DiffOptions) {
	c.Kind, c.OldPath, c.Old = Renamed, from.Path, from.Old
	c.Also = aspects(c.Old, c.New, opt)
}
