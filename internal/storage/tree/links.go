package tree

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Links are the hard links of a tree: groups of paths that are one file. Each
// group has at least two paths, sorted, relative to the root of the area; the
// groups are sorted by their first paths; no path is in two groups.
type Links struct{ Groups [][]string }

// linksRef is a stored table of links. The empty table is not stored.
type linksRef struct {
	hash Hash
	ref  ref
}

// check returns why the table is not canonical.
func (l Links) check() error {
	bad := func(p string) error { return fmt.Errorf("hard links of %q: %w", p, errInvalid) }
	seen := make(map[string]struct{})
	for i, g := range l.Groups {
		if len(g) < 2 {
			return fmt.Errorf("hard-link group of %d paths: %w", len(g), errInvalid)
		}
		if i > 0 && l.Groups[i-1][0] >= g[0] {
			return bad(g[0])
		}
		for j, p := range g {
			if _, twice := seen[p]; twice || j > 0 && g[j-1] >= p {
				return bad(p)
			}
			seen[p] = struct{}{}
			for name := range strings.SplitSeq(p, "/") {
				if validName(name) != nil {
					return bad(p)
				}
			}
		}
	}
	return nil
}

func (e *encoder) links(l Links) {
	e.byte(recordLinks)
	e.uint(uint64(len(l.Groups)))
	for _, g := range l.Groups {
		e.uint(uint64(len(g)))
		for _, p := range g {
			e.string(p)
		}
	}
}

func (d *decoder) links() (Links, error) {
	if d.byte() != recordLinks {
		d.fail("not a record of hard links")
	}
	var l Links
	for range d.count(math.MaxInt32, 5) {
		n := d.count(math.MaxInt32, 2)
		g := make([]string, 0, n)
		for range n {
			g = append(g, d.string(maxRecord))
		}
		if d.err != nil {
			break
		}
		l.Groups = append(l.Groups, g)
	}
	if err := d.done(); err != nil {
		return Links{}, err
	}
	if len(l.Groups) == 0 {
		d.fail("empty table of hard links")
		return Links{}, d.err
	}
	return l, l.check()
}

// Links reads the tree's table of hard links.
func (t *Tree) Links() (Links, error) {
	at := t.area.links
	if at.ref.length == 0 {
		return Links{}, nil
	}
	p, raw, err := t.rd.record(at.ref)
	if err != nil {
		return Links{}, err
	}
	l, err := p.decoder(raw, at.ref.offset).links()
	if err != nil {
		return Links{}, p.corruptError(fmt.Sprintf("hard links at %d", at.ref.offset), err)
	}
	if hashLinks(l) != at.hash {
		return Links{}, p.corruptError(fmt.Sprintf("hard links at %d", at.ref.offset), errHash)
	}
	return l, nil
}

// compareLinks lists the first path of each group that only one of the tables
// has.
func compareLinks(a, b Links) []string {
	has := func(l Links) map[string][]string {
		m := make(map[string][]string, len(l.Groups))
		for _, g := range l.Groups {
			m[g[0]] = g
		}
		return m
	}
	ga, gb := has(a), has(b)
	var paths []string
	for first, g := range ga {
		if !slices.Equal(g, gb[first]) {
			paths = append(paths, first)
		}
	}
	for first := range gb {
		if _, both := ga[first]; !both {
			paths = append(paths, first)
		}
	}
	slices.Sort(paths)
	return paths
}
