package tree

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
)

const (
	maxLeaf  = 64                   // entries in a leaf
	fanOut   = 16                   // slots of a branch, one per nibble
	maxLevel = 2 * sha256.Size      // nibbles in the hash of a name
	maxTotal = int64(math.MaxInt64) // totals stay there instead of overflowing
)

// Node is the handle of an immutable directory node. Two directories with equal
// contents have equal hashes, wherever they are stored.
type Node struct {
	// Root identifies everything below but modification times; Meta those too.
	Root, Meta Hash
	// Files counts what is not a directory, Dirs the directories, Bytes the
	// sizes of the regular files below. The directory itself is not counted.
	Files, Dirs, Bytes int64

	ref ref
}

// Equal reports whether two nodes have the same contents, times included. Where
// they are stored does not matter.
func (n Node) Equal(o Node) bool { return n.Root == o.Root && n.Meta == o.Meta }

func (n Node) part() part {
	return part{
		root: n.Root, meta: n.Meta, ref: n.ref,
		totals: totals{entries: unknown, files: n.Files, dirs: n.Dirs, bytes: n.Bytes},
	}
}

// ref is where a record is stored. A length of 0 is nowhere.
type ref struct {
	layer          string
	offset, length int64
}

// totals are sums over everything below a part. Sums of what is not negative
// that stop at the largest number do not depend on their order.
type totals struct{ entries, files, dirs, bytes int64 }

// unknown is the number of entries of a directory whose record was not read yet.
const unknown = int64(-1)

func (t *totals) add(o totals) {
	sum := func(a *int64, b int64) {
		if *a > maxTotal-b {
			*a = maxTotal
		} else {
			*a += b
		}
	}
	sum(&t.entries, o.entries)
	sum(&t.files, o.files)
	sum(&t.dirs, o.dirs)
	sum(&t.bytes, o.bytes)
}

func totalsOf(e *Entry) totals {
	switch e.Kind {
	case KindDir:
		t := totals{entries: 1, dirs: 1}
		t.add(totals{files: e.Sub.Files, dirs: e.Sub.Dirs, bytes: e.Sub.Bytes})
		return t
	case KindFile:
		return totals{entries: 1, files: 1, bytes: e.Size}
	case KindWhiteout:
		return totals{entries: 1}
	case KindSymlink, KindFifo, KindSocket:
	}
	return totals{entries: 1, files: 1}
}

// part is one node of a directory's fan-out: a leaf or a branch. It is stored
// (it has a ref), or new (it has a body).
type part struct {
	root, meta Hash
	totals
	ref  ref
	body *body
}

func (p *part) absent() bool { return p.ref.length == 0 && p.body == nil }

func (p *part) same(o *part) bool { return p.root == o.root && p.meta == o.meta }

func (p *part) node() Node {
	return Node{Root: p.root, Meta: p.meta, Files: p.files, Dirs: p.dirs, Bytes: p.bytes, ref: p.ref}
}

// body is the content of a part: the sorted entries of a leaf, or the slots of
// a branch.
type body struct {
	entries []Entry
	kids    *[fanOut]part // nil in a leaf
}

// slotPath is where in the fan-out of a directory a part is: the nibbles that the
// hashes of all its names begin with, one per byte.
type slotPath string

func (s slotPath) slot(i int) slotPath { return s + slotPath(rune(i)) }

// holds reports whether a name belongs below the spot.
func (s slotPath) holds(name string) bool {
	if s == "" {
		return true
	}
	h := sha256.Sum256([]byte(name))
	for i := range len(s) {
		if nibble(&h, i) != int(s[i]) {
			return false
		}
	}
	return true
}

func nibble(h *[sha256.Size]byte, i int) int {
	if i%2 == 0 {
		return int(h[i/2] >> 4)
	}
	return int(h[i/2] & 15)
}

// makeLeaf makes a new leaf of sorted entries.
func makeLeaf(entries []Entry) part {
	p := part{root: hashLeaf(entries, viewRoot), meta: hashLeaf(entries, viewMeta), body: &body{entries: entries}}
	p.totals = sumEntries(entries)
	return p
}

func sumEntries(entries []Entry) totals {
	var t totals
	for i := range entries {
		t.add(totalsOf(&entries[i]))
	}
	return t
}

// makeBranch makes a new branch at a level of the fan-out.
func makeBranch(level int, kids *[fanOut]part) part {
	p := part{root: hashBranch(level, kids, viewRoot), meta: hashBranch(level, kids, viewMeta), body: &body{kids: kids}}
	p.totals = sumKids(kids)
	return p
}

func sumKids(kids *[fanOut]part) totals {
	var t totals
	for i := range kids {
		t.add(kids[i].totals)
	}
	return t
}

// hashedEntry is an entry with the hash of its name.
type hashedEntry struct {
	hash  [sha256.Size]byte
	entry *Entry
}

// makePart makes the one right shape for a set of entries at a level. A branch's
// parts are given to store as soon as they are made: with so many entries no
// part above can be a leaf, so none of them is made in vain.
func makePart(level int, entries []*Entry, store func(p *part, level int) error) (part, error) {
	if len(entries) <= maxLeaf {
		return makeLeaf(sortedByName(entries)), nil
	}
	hs := make([]hashedEntry, len(entries))
	for i, e := range entries {
		hs[i] = hashedEntry{sha256.Sum256([]byte(e.Name)), e}
	}
	slices.SortFunc(hs, func(a, b hashedEntry) int { return bytes.Compare(a.hash[:], b.hash[:]) })
	return split(level, hs, store)
}

// split makes the part of entries that are sorted by hash.
func split(level int, hs []hashedEntry, store func(p *part, level int) error) (part, error) {
	if len(hs) <= maxLeaf {
		entries := make([]*Entry, len(hs))
		for i := range hs {
			entries[i] = hs[i].entry
		}
		return makeLeaf(sortedByName(entries)), nil
	}
	if level >= maxLevel {
		return part{}, fmt.Errorf("%d names with one hash: %w", len(hs), errInvalid)
	}
	kids := new([fanOut]part)
	for len(hs) > 0 {
		i := nibble(&hs[0].hash, level)
		n := sort.Search(len(hs), func(n int) bool { return nibble(&hs[n].hash, level) > i })
		k, err := split(level+1, hs[:n], store)
		if err != nil {
			return part{}, err
		}
		if err := store(&k, level+1); err != nil {
			return part{}, err
		}
		kids[i], hs = k, hs[n:]
	}
	return makeBranch(level, kids), nil
}

// sortedByName copies entries in the order of their names.
func sortedByName(entries []*Entry) []Entry {
	list := valuesOf(entries)
	sortEntries(list)
	return list
}

func sortEntries(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
}
