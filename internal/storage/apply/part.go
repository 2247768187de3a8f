package apply

import (
	"context"

	"github.com/forkcell/forkcell/internal/storage/tree"
)

// Part returns the selected changes from one tree to another as Ops that can be
// made in the first one: the result of copying the selected entries by hand. A
// directory that something selected needs comes with it. A directory stays as
// long as something in it does. A conflict is something that shall replace a
// directory in which something stays; OnConflict decides it. Of opt only that,
// Only and Open count.
func Part(ctx context.Context, from, to *tree.Tree, opt ThreeWayOptions) ([]Op, []Conflict, error) {
	opt.Owners, opt.Times, opt.Names = true, true, Names(from)
	ops, _, conflicts, _, err := ThreeWay(ctx, from, to, Lookup(from), opt)
	return ops, conflicts, err
}

// Lookup returns a tree as a side of ThreeWay.
func Lookup(t *tree.Tree) View {
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

// Adjust makes a plan fit what its target holds now, as ThreeWay does for trees:
// ours is the target, base what the plan expects there, theirs what it makes.
func Adjust(ctx context.Context, p *Plan, ours View, opt ThreeWayOptions) ([]Conflict, []Choice, error) {
	ops, err := sortOps(p.Ops)
	if err != nil {
		return nil, nil, err
	}
	was, is, whole := map[string]*tree.Entry{}, map[string]*tree.Entry{}, map[string]bool{}
	changes := make([]tree.Change, len(ops))
	for i, op := range ops {
		was[op.Path], is[op.Path], whole[op.Path] = op.Old, op.New, isDir(op.Old) != isDir(op.New)
		changes[i] = tree.Change{Path: op.Path, Old: op.Old, New: op.New}
	}
	side := func(known map[string]*tree.Entry) View {
		return func(path string) (*tree.Entry, error) {
			if e, ok := known[path]; ok {
				return e, nil
			}
			for p := path; p != "."; {
				if p = parentOf(p); whole[p] { // it comes or goes with all that it holds
					return nil, nil
				}
			}
			return ours(path)
		}
	}
	opt.Owners = p.Owners
	merged, _, conflicts, chosen, err := merge(ctx, changes, side(was), side(is), ours, opt)
	p.Ops = merged
	return conflicts, chosen, err
}
