package engine

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/aside"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/apply"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// acceptedPart returns the changes since a state that the caller accepts.
func (s *heldCell) acceptedPart(ctx context.Context, before store.Checkpoint, req api.AcceptRequest) (func(path string, isDir bool) bool, error) {
	pick, err := secretfiles.NewSelector(req.Only, req.Except)
	if err != nil {
		return nil, api.Usagef("patterns are gitignore-style", "bad pattern: %v", err)
	}
	kept := map[string]bool{}
	if len(req.Only)+len(req.Except) > 0 {
		from, to, err := s.e.Trees(before, s.Head, workspace.AreaWorkspace)
		if err != nil {
			return nil, err
		}
		changes, err := tree.Diff(from, to, tree.DiffOptions{Renames: true, SameBytes: func(p string, old, now tree.Entry) (bool, error) {
			return s.e.SameBytes(ctx, []store.Checkpoint{before, s.Head}, []store.Cell{s.Record, s.Record}, workspace.AreaWorkspace, p, old, now)
		}})
		if err != nil {
			return nil, home.LongPath(s.Record, err)
		}
		kept = aside.KeptNames(changes, pick)
	}
	for _, p := range req.ExceptPaths {
		kept[p] = true
	}
	return func(path string, isDir bool) bool { return !kept[path] && pick.Match(path, isDir) }, nil
}

// selectedPart returns the selected part of the changes from one state to another.
func (s *heldCell) selectedPart(ctx context.Context, from, to store.Checkpoint, pick func(path string, isDir bool) bool, how apply.OnConflict) ([]workspace.Edit, error) {
	a, b, err := s.e.Trees(from, to, workspace.AreaWorkspace)
	if err != nil {
		return nil, err
	}
	ops, conflicts, err := apply.Part(ctx, a, b, apply.ThreeWayOptions{OnConflict: how, Only: pick, Open: openSides(map[apply.Side]home.FileOpener{
		apply.BaseSide: s.e.FilesOf(s.Record, from), apply.TheirSide: s.e.FilesOf(s.Record, to), apply.OurSide: s.e.FilesOf(s.Record, from),
	})})
	if err != nil {
		return nil, err
	}
	if len(conflicts) > 0 {
		c := conflicts[0]
		return nil, api.Refusef(api.CodeConflict, "choose both or neither with --only and --except", "%s %s", quote.Path(c.Path), c.Reason)
	}
	edits := make([]workspace.Edit, len(ops))
	for i, op := range ops {
		edits[i] = s.e.edit(s.Record, to, tree.Change{Path: op.Path, Old: op.Old, New: op.New})
	}
	return edits, nil
}

// edit returns a change as an edit of the workspace.
func (e *Engine) edit(c store.Cell, from store.Checkpoint, ch tree.Change) workspace.Edit {
	ed := workspace.Edit{Path: ch.Path, New: ch.New}
	if ch.New != nil && ch.New.Kind == tree.KindFile {
		ed.Open = e.Opener(c, from, workspace.AreaWorkspace, ch.Path, *ch.New)
	}
	return ed
}
