// Package outgoing decides what of the files of a cell may be written to a directory
// of the host. Every way out of a cell asks it: apply, exports to a directory, copies
// out of a cell, and publications.
//
// The list of control files is that of package leftout. This package knows where an
// entry will be on the host, and what is around it there. It must not know cells,
// states or how a file is written.
package outgoing

import (
	"path"

	"github.com/forkcell/forkcell/internal/leftout"
)

// Gate decides about the entries that are written below one directory.
type Gate struct {
	above string // the path of the directory in the repository or home that it is in
	links *leftout.Linked
	allow *leftout.Selector // nil allows nothing
}

// New returns the gate of a directory. above is its path as Above returns it, and allow
// has the patterns of the control files that the operator allows. An error is about a
// pattern.
func New(above string, allow []string) (*Gate, error) {
	g := &Gate{above: above}
	if len(allow) == 0 {
		return g, nil
	}
	selector, err := leftout.NewSelector(allow, nil)
	g.allow = selector
	return g, err
}

// Follow makes the gate find control files behind links.
func (g *Gate) Follow(links *leftout.Linked) { g.links = links }

// Control reports whether an entry is a control file where it is written, and what it
// is. p is relative to the directory. It does not matter whether the entry is allowed.
func (g *Gate) Control(p string, dir bool) (what string, yes bool) {
	if g.links != nil {
		if what, yes = g.links.ControlFile(p, dir); yes {
			return what, yes
		}
	}
	return leftout.ControlFile(path.Join(g.above, p), dir)
}

// Allows reports whether the operator allows an entry by name.
func (g *Gate) Allows(p string, dir bool) bool { return g.allow != nil && g.allow.Match(p, dir) }

// Holds reports whether an entry is held back, and what it is.
func (g *Gate) Holds(p string, dir bool) (what string, yes bool) {
	if what, yes = g.Control(p, dir); yes && g.Allows(p, dir) {
		return "", false
	}
	return what, yes
}
