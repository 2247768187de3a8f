package tree

import (
	"fmt"
	"slices"
	"strings"
)

// Difference is one path at which a tree differs from the expected one.
type Difference struct {
	Path string
	// What differs: "missing", "unexpected", or some of "type", "content",
	// "target", "mode", "owner", "xattrs", "mtime", "hard links".
	What []string
	// Want is the expected entry and Got the actual one; nil for none.
	Want, Got *Entry
}

// Compare lists every difference between the tree that was recorded and the one
// that was found, modification times and hard links included, sorted bytewise
// by path. It is empty if and only if both have the same identity.
func Compare(want, got *Tree) ([]Difference, error) {
	d := &differ{a: want, b: got, opt: DiffOptions{MTimes: true}}
	var all []Difference
	err := d.visit(nil, func(c Change, path func() string) error {
		all = append(all, Difference{Path: path(), What: whatDiffers(c), Want: c.Old, Got: c.New})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("compare trees: %w", err)
	}
	if want.area.links.hash == got.area.links.hash {
		return all, nil
	}
	links, err := differentLinks(want, got)
	if err != nil {
		return nil, fmt.Errorf("compare trees: %w", err)
	}
	for _, d := range links {
		i, found := slices.BinarySearchFunc(all, d.Path, func(x Difference, p string) int { return strings.Compare(x.Path, p) })
		if found {
			all[i].What = append(all[i].What, d.What...)
		} else {
			all = slices.Insert(all, i, d)
		}
	}
	return all, nil
}

// differentLinks names the first path of each hard-link group that only one of
// the trees has.
func differentLinks(want, got *Tree) ([]Difference, error) {
	a, err := want.Links()
	if err != nil {
		return nil, err
	}
	b, err := got.Links()
	if err != nil {
		return nil, err
	}
	var all []Difference
	for _, path := range compareLinks(a, b) {
		d := Difference{Path: path, What: []string{"hard links"}}
		for _, side := range []struct {
			t  *Tree
			to **Entry
		}{{want, &d.Want}, {got, &d.Got}} {
			e, ok, err := side.t.Lookup(path)
			if err != nil {
				return nil, err
			}
			if ok {
				*side.to = &e
			}
		}
		all = append(all, d)
	}
	return all, nil
}

func whatDiffers(c Change) []string {
	var what []string
	for _, k := range append([]ChangeKind{c.Kind}, c.Also...) {
		switch {
		case k == Added:
			what = append(what, "unexpected")
		case k == Deleted:
			what = append(what, "missing")
		case k == Modified && c.New.Kind == KindSymlink:
			what = append(what, "target")
		case k == Modified:
			what = append(what, "content")
		case k == XattrChanged:
			what = append(what, "xattrs")
		default:
			what = append(what, string(k))
		}
	}
	return what
}
