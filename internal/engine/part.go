package engine

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/aside"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
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
