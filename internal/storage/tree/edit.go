package tree

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// DirEdit is a change of one directory, made by Put and Delete and carried out
// by Node. It belongs to one goroutine.
type DirEdit struct {
	w     *Writer
	rd    *reader
	old   part // absent: a new directory
	exact bool

	changes map[string]*Entry // nil: the name goes
	err     error
}

// change is the new entry of a name; without one the name is removed.
type change struct {
	name  string
	hash  [sha256.Size]byte
	entry *Entry
}

// Edit begins a change of the directory n. old is a tree whose packs have the
// node; nil means the packs of the writer.
func (w *Writer) Edit(old *Tree, n Node) *DirEdit {
	e := &DirEdit{w: w, rd: w.rd, old: n.part(), changes: make(map[string]*Entry)}
	if old != nil && n.ref.layer != w.layer {
		e.rd = old.rd
	}
	if e.old.absent() {
		e.err = fmt.Errorf("edit a directory without a node: %w", errInvalid)
	}
	return e
}

// NewDir begins a new directory.
func (w *Writer) NewDir() *DirEdit {
	return &DirEdit{w: w, rd: w.rd, changes: make(map[string]*Entry)}
}

// Exact makes new values of Layer and Stamp, and new places of subdirectories,
// count as changes. Without it a directory whose hashes stay the same keeps its
// node and its recorded values.
func (e *DirEdit) Exact() *DirEdit {
	e.exact = true
	return e
}

// Put adds an entry or replaces the one with its name. Fields that
// its kind does not have are cleared. Node returns an error.
func (e *DirEdit) Put(x Entry) {
	err := validName(x.Name)
	if err == nil {
		x, err = canonical(x)
	}
	if err != nil {
		e.err = cmp.Or(e.err, fmt.Errorf("put: %w", err))
		return
	}
	e.changes[x.Name] = &x
}

// Delete removes a name. A missing one is not an error.
func (e *DirEdit) Delete(name string) {
	e.changes[name] = nil
}

// Node carries the change out and writes the nodes that it makes: those on the
// way to the changed entries. If nothing changes it is the node that was there,
// and nothing is written.
func (e *DirEdit) Node() (Node, error) {
	if e.err != nil {
		return Node{}, e.err
	}
	cs := make([]change, 0, len(e.changes))
	for name, x := range e.changes {
		cs = append(cs, change{name, sha256.Sum256([]byte(name)), x})
	}
	slices.SortFunc(cs, func(a, b change) int { return bytes.Compare(a.hash[:], b.hash[:]) })
	p, err := e.apply(e.old, "", cs)
	if err != nil {
		return Node{}, fmt.Errorf("edit directory: %w", err)
	}
	if p.absent() {
		p = makeLeaf(nil) // a new directory that nothing was put into
	}
	if err := e.w.store(&p, 0); err != nil {
		return Node{}, fmt.Errorf("edit directory: %w", err)
	}
	return p.node(), nil
}

// apply makes the part that stands at a spot after the changes, which are
// sorted by hash. Where nothing changes it is the part that was there. What is
// made is mostly not written yet, because a branch that is left with few entries
// collapses into a leaf.
func (e *DirEdit) apply(old part, at slotPath, cs []change) (part, error) {
	if len(cs) == 0 {
		return old, nil
	}
	b := &body{}
	if !old.absent() {
		var err error
		if b, err = e.rd.read(&old, at); err != nil {
			return part{}, err
		}
	}
	if b.kids != nil {
		return e.applyBranch(old, b.kids, at, cs)
	}
	entries, changed := merge(b.entries, cs, e.exact)
	if !changed {
		return old, nil
	}
	if len(entries) == 0 && at != "" {
		return part{}, nil // an empty slot; an empty directory is a leaf
	}
	return makePart(len(at), entries, e.w.store)
}

func (e *DirEdit) applyBranch(old part, was *[fanOut]part, at slotPath, cs []change) (part, error) {
	kids := *was
	changed := false
	for len(cs) > 0 {
		i := nibble(&cs[0].hash, len(at))
		n := 1
		for n < len(cs) && nibble(&cs[n].hash, len(at)) == i {
			n++
		}
		k, err := e.apply(kids[i], at.slot(i), cs[:n])
		if err != nil {
			return part{}, err
		}
		changed = changed || k != kids[i]
		kids[i], cs = k, cs[n:]
	}
	if !changed {
		return old, nil
	}
	if sumKids(&kids).entries > maxLeaf {
		return makeBranch(len(at), &kids), nil
	}
	entries, err := e.rd.gather(part{body: &body{kids: &kids}}, at)
	if err != nil {
		return part{}, err
	}
	if len(entries) == 0 && at != "" {
		return part{}, nil
	}
	return makeLeaf(valuesOf(entries)), nil
}

// merge applies changes to the entries of a leaf and reports whether they make a
// difference.
func merge(entries []Entry, cs []change, exact bool) ([]*Entry, bool) {
	left := make(map[string]*Entry, len(entries))
	for i := range entries {
		left[entries[i].Name] = &entries[i]
	}
	out := make([]*Entry, 0, len(entries)+len(cs))
	changed := false
	for _, c := range cs {
		old := left[c.name]
		delete(left, c.name)
		if c.entry != nil {
			out = append(out, c.entry)
		}
		switch {
		case old == nil || c.entry == nil:
			changed = changed || old != c.entry
		case !sameIdentity(old, c.entry), exact && !sameRecord(old, c.entry):
			changed = true
		}
	}
	for _, e := range left {
		out = append(out, e)
	}
	return out, changed
}

// sameIdentity reports whether two canonical entries have one identity, times
// included.
func sameIdentity(a, b *Entry) bool {
	return a.Name == b.Name && a.MTime == b.MTime && sameButTimes(a, b) && a.Sub.Meta == b.Sub.Meta
}

// sameButTimes leaves out names and modification times, here and below.
func sameButTimes(a, b *Entry) bool {
	return a.Kind == b.Kind && a.Mode == b.Mode && a.UID == b.UID && a.GID == b.GID && a.Size == b.Size &&
		a.Digest == b.Digest && a.Target == b.Target && a.Sub.Root == b.Sub.Root && a.Opaque == b.Opaque && sameXattrs(a.Xattrs, b.Xattrs)
}

func sameXattrs(a, b []fsx.Xattr) bool {
	return slices.EqualFunc(a, b, func(x, y fsx.Xattr) bool { return x.Name == y.Name && bytes.Equal(x.Value, y.Value) })
}

// sameRecord compares the fields that are not part of the identity.
func sameRecord(a, b *Entry) bool {
	return a.Layer == b.Layer && a.Stamp == b.Stamp && a.Below == b.Below && a.Sub.ref == b.Sub.ref
}
