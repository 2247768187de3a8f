package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/engine/merge"
	"github.com/forkcell/forkcell/internal/storage/apply"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Refresh brings the source's changes into the cell as a new checkpoint. A path
// that both sides changed differently is a conflict, and then nothing changes.
func (e *Engine) Refresh(ctx context.Context, req api.RefreshRequest) (*api.RefreshResult, error) {
	s, err := e.hold(ctx, req.Cell, "refresh", time.Duration(req.Wait))
	if err != nil {
		return nil, err
	}
	defer s.Release()
	if err := s.checkRefresh(req); err != nil {
		return nil, err
	}
	ctx, end, err := e.withBudget(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	res := &api.RefreshResult{Cell: s.Record.Name, Changed: []api.PathNote{}, Conflicts: []api.PathNote{}, Chosen: []api.PathNote{}, LeftOut: []api.LeftOut{}}
	if s.Record.Live != "" && s.Record.Live == s.Record.Source {
		return s.refreshLive(ctx, res)
	}
	if err := s.CatchUp(ctx); err != nil {
		return nil, err
	}
	if err := s.refresh(ctx, req, res); err != nil {
		return nil, err
	}
	res.CheckpointID, res.Root = s.Head.ID, s.Head.Root()
	return res, nil
}

// checkRefresh refuses a refresh from something else than the cell was made from.
func (s *heldCell) checkRefresh(req api.RefreshRequest) error {
	switch {
	case req.Upload == "" && s.Record.SourceKind != "dir":
		return api.Refusef(api.CodeNoSource, "make a new cell from the new archive", "cell %s has no source directory", s.Record.Name)
	case req.Upload != "" && s.Record.SourceKind != "archive":
		return api.Refusef(api.CodeNoSource, "refresh it without an upload", "cell %s was made from a directory of its own machine", s.Record.Name)
	}
	return nil
}

// refreshLive seals the changes of a live directory: the source is the workspace,
// so it already has them.
func (s *heldCell) refreshLive(ctx context.Context, res *api.RefreshResult) (*api.RefreshResult, error) {
	from := s.Head
	if err := s.CatchUp(ctx); err != nil {
		return nil, err
	}
	a, b, err := s.e.Trees(from, s.Head, workspace.AreaWorkspace)
	if err != nil {
		return nil, err
	}
	changes, err := tree.Diff(a, b, tree.DiffOptions{})
	for _, ch := range changes {
		res.Changed = append(res.Changed, home.PathNote(ch.Path, string(ch.Kind)))
	}
	res.CheckpointID, res.Root = s.Head.ID, s.Head.Root()
	return res, home.LongPath(s.Record, err)
}

func (s *heldCell) refresh(ctx context.Context, req api.RefreshRequest, res *api.RefreshResult) error {
	var base store.Checkpoint
	err := s.e.Store.View(func(tx *store.Tx) (err error) {
		base, err = s.refreshBase(tx, req.BasedOn)
		return err
	})
	if err != nil {
		return err
	}
	baseTree, headTree, err := s.e.Trees(base, s.Head, workspace.AreaWorkspace)
	if err != nil {
		return err
	}
	src, err := s.openSource(ctx, req, baseTree)
	if err != nil {
		return err
	}
	defer src.close()
	for _, l := range src.report.LeftOut {
		res.LeftOut = append(res.LeftOut, api.LeftOut{Path: l.Path, Rule: l.Rule})
	}
	mode, err := merge.Mode(req.OnConflict)
	if err != nil {
		return err
	}
	m, err := merge.ThreeWay(ctx, "cell "+s.Record.Name, baseTree, src.tree, apply.Lookup(headTree), apply.ThreeWayOptions{
		OnConflict: mode, Refresh: true, Owners: true, Names: apply.Names(headTree),
		Open: merge.OpenSides(map[apply.Side]home.FileOpener{
			apply.BaseSide: s.e.FilesOf(s.Record, base), apply.TheirSide: merge.FilesIn(src.dir), apply.OurSide: s.e.FilesOf(s.Record, s.Head),
		}),
	})
	if err != nil {
		return api.WithHint(err, api.CodeConflict, "settle them in the source, or give --on-conflict ours|theirs")
	}
	for _, c := range m.Chosen {
		res.Chosen = append(res.Chosen, home.PathNote(c.Path, string(c.Took)+": "+c.Reason))
	}
	for _, op := range m.Ops {
		res.Changed = append(res.Changed, home.PathNote(op.Path, merge.OpJSON(op).Change))
	}
	if err := s.takeSource(ctx, src, base, baseTree, m.Ops); err != nil {
		return err
	}
	if req.Upload != "" {
		s.e.dropUpload(req.Upload)
	}
	return nil
}

// refreshBase returns the state that both sides of a refresh are compared with: the
// newest one in the cell's history with one of the given roots, which the caller's
// directory has had, else the last applied one.
func (s *heldCell) refreshBase(tx *store.Tx, roots []string) (store.Checkpoint, error) {
	line, err := tx.Lineage(s.Head.ID)
	if err != nil {
		return store.Checkpoint{}, err
	}
	for _, root := range roots {
		for _, c := range line {
			if c.Root() == root && !c.Freed {
				return c, nil
			}
			if c.Source == "" {
				continue
			}
			if source, err := tx.Checkpoint(c.Source); err == nil && source.Root() == root && !source.Freed {
				return source, nil
			}
		}
	}
	return home.BaseState(tx, s.Record, s.Head)
}

// openedSource is the present source of a cell.
type openedSource struct {
	dir    *fsx.Dir
	tree   *tree.Tree
	report workspace.Report
	close  func()
}

// openSource reads the source directory, or the upload that stands for it.
func (s *heldCell) openSource(ctx context.Context, req api.RefreshRequest, base *tree.Tree) (*openedSource, error) {
	if req.Upload != "" {
		f, err := s.e.openUpload(req.Upload)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return s.unpack(ctx, s.At, f)
	}
	dir, err := s.e.OpenHost(s.Record.Source)
	if refused, ok := errors.AsType[*api.Error](err); ok {
		return nil, refused
	}
	if err != nil {
		return nil, api.Usagef("", "source %s: %v", quote.Path(s.Record.Source), err)
	}
	now, report, err := s.e.Workspace.Scan(ctx, s.At, dir, base)
	if err != nil {
		dir.Close()
		return nil, importError(s.Record, err)
	}
	return &openedSource{dir: dir, tree: now, report: report, close: func() { s.e.Workspace.Forget(now); dir.Close() }}, nil
}

// takeSource seals two states: the present source, which later applies and
// refreshes compare with, and the cell with the source's changes.
func (s *heldCell) takeSource(ctx context.Context, src *openedSource, base store.Checkpoint, baseTree *tree.Tree, ops []apply.Op) error {
	changes, err := tree.Diff(baseTree, src.tree, tree.DiffOptions{MTimes: true})
	if err != nil {
		return home.LongPath(s.Record, err)
	}
	var edits []workspace.Edit
	var taken int64
	for _, ch := range changes {
		edits = append(edits, sourceEdit(src.dir, ch.Path, ch.New))
		if ch.New != nil {
			taken += inodeSpace + ch.New.Size
		}
	}
	if err := spend(ctx, taken); err != nil {
		return err
	}
	applied, err := s.Derive(ctx, base, home.KindSource, edits)
	if err != nil {
		return fmt.Errorf("seal the source: %w", err)
	}
	next := s.Head
	if base.ID == s.Head.ID {
		next = applied
	} else if len(ops) > 0 {
		edits = edits[:0]
		for _, op := range ops {
			edits = append(edits, s.e.Edit(s.Record, applied, tree.Change{Path: op.Path, Old: op.Old, New: op.New}))
		}
		sealed, err := s.e.Workspace.Compose(ctx, s.At, s.Head.Layer, store.NewID("op"), edits)
		if err != nil {
			return fmt.Errorf("seal the refreshed state: %w", err)
		}
		if !sealed.Unchanged {
			next = s.e.NewCheckpoint(s.Record, s.Head.ID, kindRefresh, "", sealed)
			next.Source = applied.ID
		}
	}
	if applied.ID == s.Record.Applied && next.ID == s.Head.ID {
		return nil // the cell has all of the source
	}
	return s.recordSource(ctx, base, applied, next)
}

// sourceEdit reads a file from the source. It compares the digest while reading, so
// that the sealed bytes are the compared ones.
func sourceEdit(root *fsx.Dir, path string, e *tree.Entry) workspace.Edit {
	ed := workspace.Edit{Path: path, New: e}
	if e != nil && e.Kind == tree.KindFile {
		ed.Open = func() (io.ReadCloser, error) {
			f, err := root.OpenFile(path)
			if err != nil {
				return nil, err
			}
			return f, nil
		}
	}
	return ed
}
