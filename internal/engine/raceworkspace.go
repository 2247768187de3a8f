package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// kindJudged is the kind of a state that a judge begins with: the workspace of an
// attempt, and everything else of the raced cell.
const kindJudged = "judged"

// withWorkspaceOf makes a state of a cell with the workspace of a result, and with the
// home and the other areas of base. It returns nil if the result has those of base.
//
// No diff and no page of a race shows files outside the workspace, and programs obey
// some of them: an attempt could steer its judge by them, and later commands in the
// raced cell.
func (e *Engine) withWorkspaceOf(ctx context.Context, c store.Cell, base, result store.Checkpoint) (*workspace.Sealed, error) {
	if sameBesideWorkspace(base, result) {
		return nil, nil //nolint:nilnil // as documented
	}
	layout, err := e.Layout(c)
	if err != nil {
		return nil, err
	}
	edits, err := e.workspaceEdits(ctx, base, result)
	if err != nil {
		return nil, home.LongPath(c, err)
	}
	sealed, err := e.Workspace.Compose(ctx, layout, base.Layer, store.NewID("op"), edits)
	if err != nil {
		return nil, fmt.Errorf("compose the workspace of an attempt: %w", err)
	}
	return &sealed, nil
}

// sameBesideWorkspace reports whether two states differ in nothing but the workspace.
func sameBesideWorkspace(a, b store.Checkpoint) bool {
	a.Areas, b.Areas = maps.Clone(a.Areas), maps.Clone(b.Areas)
	delete(a.Areas, workspace.AreaWorkspace)
	delete(b.Areas, workspace.AreaWorkspace)
	return maps.Equal(a.Areas, b.Areas)
}

// workspaceEdits returns the edits that turn the workspace of one state into that of
// another, with times and hard links.
func (e *Engine) workspaceEdits(ctx context.Context, from, to store.Checkpoint) ([]workspace.Edit, error) {
	sides := []store.Checkpoint{from, to}
	owners, err := e.Owners(sides)
	if err != nil {
		return nil, err
	}
	was, now, err := e.Trees(from, to, workspace.AreaWorkspace)
	if err != nil {
		return nil, err
	}
	edits := map[string]workspace.Edit{}
	err = tree.DiffFunc(was, now, tree.DiffOptions{MTimes: true, SameBytes: func(p string, old, now tree.Entry) (bool, error) {
		return e.SameBytes(ctx, sides, owners, workspace.AreaWorkspace, p, old, now)
	}}, func(ch tree.Change) error {
		edits[ch.Path] = e.Edit(owners[1], to, ch)
		return cmp.Or(tree.CheckLength(ch.Path), ctx.Err())
	})
	if err != nil {
		return nil, err
	}
	err = linkEdits(edits, was, now, func(p string, entry tree.Entry) workspace.Edit {
		return e.Edit(owners[1], to, tree.Change{Path: p, New: &entry})
	})
	return slices.Collect(maps.Values(edits)), err
}

// linkEdits adds to the edits that turn one tree into another what they need to have the
// same hard links: all paths of a group of which something changed.
func linkEdits(edits map[string]workspace.Edit, was, now *tree.Tree, edit func(string, tree.Entry) workspace.Edit) error {
	old, err := was.Links()
	if err != nil {
		return err
	}
	links, err := now.Links()
	if err != nil {
		return err
	}
	add := func(g []string) error {
		for _, p := range g {
			if _, has := edits[p]; has {
				continue
			}
			entry, found, err := now.Lookup(p)
			if err != nil {
				return err
			}
			if found && entry.Kind != tree.KindDir {
				edits[p] = edit(p, entry)
			}
		}
		return nil
	}
	for _, g := range changedLinks(old, links, edits) {
		if err := add(g); err != nil {
			return err
		}
	}
	for _, g := range changedLinks(links, old, edits) {
		if err := add(g); err != nil {
			return err
		}
		for _, p := range g[1:] {
			ed := edits[p]
			ed.LinkTo = g[0]
			edits[p] = ed
		}
	}
	return nil
}

// changedLinks lists the groups that are not among others, or have an edited path.
func changedLinks(links, others tree.Links, edits map[string]workspace.Edit) [][]string {
	first := make(map[string][]string, len(others.Groups))
	for _, g := range others.Groups {
		first[g[0]] = g
	}
	var changed [][]string
	for _, g := range links.Groups {
		edited := slices.ContainsFunc(g, func(p string) bool { _, has := edits[p]; return has })
		if edited || !slices.Equal(g, first[g[0]]) {
			changed = append(changed, g)
		}
	}
	return changed
}
