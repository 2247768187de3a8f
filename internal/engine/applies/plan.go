package applies

import (
	"cmp"
	"context"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/aside"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/engine/merge"
	"github.com/forkcell/forkcell/internal/storage/apply"
	"github.com/forkcell/forkcell/internal/storage/gitread"
	"github.com/forkcell/forkcell/internal/storage/outgoing"
	"github.com/forkcell/forkcell/internal/storage/rights"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// states finds the accepted state, the only one that an apply may write, and the
// state to compare it with.
func (a *application) states() error {
	var waiting *home.OldestUndecided
	var hint string
	err := a.Home.Store.View(func(tx *store.Tx) (err error) {
		if a.theirs, waiting, err = home.NewestAccepted(tx, a.Record, a.Head); err != nil {
			return err
		}
		if waiting != nil {
			if hint, err = home.AcceptHint(tx, a.Record, " --apply", "accepts and applies it"); err != nil {
				return err
			}
		}
		if a.aside, err = a.masks.Of(tx, a.Record); err != nil {
			return err
		}
		a.base, err = a.baseFor(tx)
		return err
	})
	if err != nil {
		return err
	}
	if waiting != nil && a.theirs.ID == a.base.ID {
		return api.Refusef(api.CodePending, hint,
			"%s: only accepted changes are applied", waiting.Describe(a.Record))
	}
	return nil
}

// baseFor returns the common ancestor of the directory and the accepted state. For
// a directory other than the source it is the imported state.
func (a *application) baseFor(tx *store.Tx) (store.Checkpoint, error) {
	if !a.source {
		return a.Home.FindCheckpoint(tx, a.Record, "base")
	}
	return home.BaseState(tx, a.Record, a.theirs)
}

// plan compares three sides: the last applied state, the accepted state of the
// cell, and the present contents of the directory.
func (a *application) plan(ctx context.Context) error {
	mode, err := merge.Mode(a.req.OnConflict)
	if err != nil {
		return err
	}
	base, theirs, err := a.Home.Trees(a.base, a.theirs, workspace.AreaWorkspace)
	if err != nil {
		return err
	}
	same := func(path string, old, now tree.Entry) (bool, error) {
		return a.Home.SameBytes(ctx, []store.Checkpoint{a.base, a.theirs}, []store.Cell{a.Record, a.Record}, workspace.AreaWorkspace, path, old, now)
	}
	if a.changes, err = tree.Diff(base, theirs, tree.DiffOptions{Renames: a.aside == nil, SameBytes: same}); err != nil {
		return home.LongPath(a.Record, err)
	}
	a.kept = aside.KeptNames(a.changes, a.pick)
	ours := outgoing.ViewOf(a.target)
	view := a.Home.WorkspaceView(a.Record, a.theirs, theirs)
	a.gate.CompareRepositories(ours, outgoing.Overlay(view, ours))
	a.repos = merge.GitDirs(ours, view, a.Home.WorkspaceView(a.Record, a.base, base))
	if a.behind, err = a.leftBehind(); err != nil {
		return err
	}
	a.setAside()
	probe := func(path string) (*tree.Entry, error) {
		like, _, err := base.Lookup(path)
		if err != nil {
			return nil, err
		}
		return apply.Probe(ctx, a.target, path, &like)
	}
	a.merge, err = merge.ThreeWay(ctx, a.to, base, theirs, probe, apply.ThreeWayOptions{
		OnConflict: mode, Only: a.selects, LeftOut: a.leftOut, Plain: rights.Self(a.req.AllowSetuid).Plain, Names: merge.NamesOf(a.target),
		Meaning: merge.Indexes(a.repos, map[apply.Side]gitread.Files{
			apply.BaseSide: a.Home.TreeOf(a.Record, a.base, base), apply.TheirSide: a.Home.TreeOf(a.Record, a.theirs, theirs),
			apply.OurSide: secretfiles.InDir(a.target),
		}),
		Open: merge.OpenSides(map[apply.Side]home.FileOpener{
			apply.BaseSide: a.Home.FilesOf(a.Record, a.base), apply.TheirSide: a.Home.FilesOf(a.Record, a.theirs), apply.OurSide: merge.FilesIn(a.target),
		}),
	})
	if err != nil {
		return err
	}
	if news := unforeseenConflicts(a.req.Conflicts, a.merge.Chosen); len(news) > 0 {
		return merge.Refuse(a.to, news)
	}
	if err := a.convertEntries(); err != nil {
		return err
	}
	a.describe()
	return nil
}

// leftBehind returns the paths that stay in the cell. The directory counts as up to date
// without them.
func (a *application) leftBehind() (map[string]bool, error) {
	behind := map[string]bool{}
	a.result.LeftBehind = nil
	for _, ch := range a.changes {
		stays, err := a.gate.StaysBehind(home.Outgoing(ch.Path, ch.Old, ch.New))
		if err != nil {
			return nil, err
		}
		if stays {
			behind[ch.Path] = true
			if a.pick.Match(ch.Path, home.IsDirChange(ch)) {
				a.result.LeftBehind = append(a.result.LeftBehind, home.LeftBehind(ch.Path))
			}
		}
	}
	return behind, nil
}

// setAside names the changes that are set aside.
func (a *application) setAside() {
	for _, ch := range a.changes {
		dir := home.IsDirChange(ch)
		aside, state := a.aside.Has(ch.Path, dir)
		if state || aside && !a.gate.Allows(ch.Path, dir) {
			a.leaves = true
		}
		if aside && a.pick.Match(ch.Path, dir) && !a.gate.Allows(ch.Path, dir) {
			what, _ := secretfiles.ControlFile(ch.Path, dir)
			a.result.SetAside = append(a.result.SetAside, home.PathNote(ch.Path, cmp.Or(what, "masked in the session")))
		}
	}
}

// unforeseenConflicts returns the conflicts that were decided although the caller does not know
// of them. If known is nil, the caller knows of all.
func unforeseenConflicts(known []string, chosen []apply.Choice) (list []apply.Conflict) {
	if known == nil {
		return nil
	}
	is := map[string]bool{}
	for _, p := range known {
		is[p] = true
	}
	for _, c := range chosen {
		if !is[c.Path] {
			list = append(list, apply.Conflict{Path: c.Path, Reason: c.Reason, Forcible: true})
		}
	}
	return list
}

// describe adds the planned changes to the result.
func (a *application) describe() {
	planned := map[string]bool{}
	for _, op := range a.merge.Ops {
		planned[op.Path] = true
	}
	for _, ch := range a.changes {
		if planned[ch.Path] {
			a.result.Written = append(a.result.Written, home.NewChangeJSON(ch))
		}
	}
	a.result.Already = append(a.result.Already, a.merge.Already...)
	for _, c := range a.merge.Chosen {
		a.result.Chosen = append(a.result.Chosen, home.PathNote(c.Path, string(c.Took)+": "+c.Reason))
	}
}

// madeState is the record of a state that is sealed but not yet in the database.
type madeState struct {
	ID     string           `json:"id"`
	CellID string           `json:"cell_id"`
	Parent string           `json:"parent"`
	Layer  string           `json:"layer"`
	Doc    store.Checkpoint `json:"doc"`
}

func (m *madeState) checkpoint() store.Checkpoint {
	c := m.Doc
	c.ID, c.CellID, c.Parent, c.Layer = m.ID, m.CellID, m.Parent, m.Layer
	return c
}
