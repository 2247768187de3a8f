package apply

import (
	"github.com/forkcell/forkcell/internal/tree"
)

// Part returns the selected changes from one tree to another as Ops that can be
// made in the first one: what copying the selected entries by hand gives. A
// directory that something selected needs comes with it. A directory stays as
// long as something in it does. A conflict is something that shall replace a
// directory in which something stays; how decides it.
func Part(from, to *tree.Tree, only func(path string, isDir bool) bool, how OnConflict) ([]Op, []Conflict, error) {
	ops, _, conflicts, _, err := ThreeWay(from, to, Lookup(from), ThreeWayOptions{
		OnConflict: how, Owners: true, Times: true, Only: only, Names: Names(from),
	})
	return ops, conflicts, err
}

// Lookup returns a tree as a side of ThreeWay.
func Lookup(t *tree.Tree) func(string) (*tree.Entry, error) {
	return func(path string) (*tree.Entry, error) {
		e, ok, err := t.Lookup(path)
		if err != nil || !ok {
			return nil, err
		}
		return &e, nil
	}
}

// Names returns the lister of a tree for ThreeWayOptions.
func Names(t *tree.Tree) func(string) ([]string, error) {
	return func(path string) ([]string, error) {
		e, ok, err := t.Lookup(path)
		if err != nil || !ok || e.Kind != tree.KindDir {
			return nil, err
		}
		children, err := t.Children(e.Sub)
		names := make([]string, len(children))
		for i, c := range children {
			names[i] = c.Name
		}
		return names, err
	}
}
