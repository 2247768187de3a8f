package applies

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/held"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/engine/merge"
	"github.com/forkcell/forkcell/internal/storage/apply"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/gitread"
	"github.com/forkcell/forkcell/internal/storage/outgoing"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// HasApply reports whether a cell has an apply that Undo would undo.
func (a *Applier) HasApply(_ context.Context, name string) (has bool, err error) {
	c, err := a.FindCell(name)
	if err != nil {
		return false, err
	}
	err = a.View(func(tx *store.Tx) error {
		_, err := tx.LastApply(c.ID)
		has = err == nil
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	})
	return has, err
}

// Undo undoes the last apply if no newer change would be lost. A dry run with
// conflicts returns the other changes together with the error.
func (a *Applier) Undo(ctx context.Context, req api.UndoRequest) (*api.ApplyResult, error) {
	s, err := a.holder.Hold(ctx, held.Request{Name: req.Cell, For: "undo"})
	if err != nil {
		return nil, err
	}
	defer s.Release()
	var last store.Apply
	err = a.Store.View(func(tx *store.Tx) (err error) {
		last, err = tx.LastApply(s.Record.ID)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, api.Refusef(api.CodeNothing, "", "cell %s has no apply to take back", s.Record.Name)
	}
	if err != nil {
		return nil, err
	}
	journal, err := applyJournal(s, last.ID, false)
	if err != nil {
		return nil, journalError(last, err)
	}
	defer journal.Close()
	plan, src, err := apply.Inverse(journal)
	if err != nil {
		return nil, journalError(last, err)
	}
	plan.ID = store.NewID("apply")
	res := &api.ApplyResult{
		Cell: s.Record.Name, ApplyID: last.ID, To: last.To, DryRun: req.DryRun, Checkpoint: last.From,
		Written: []api.ChangeJSON{}, Already: []string{}, Chosen: []api.PathNote{}, Kept: []api.PathNote{}, Dropped: []api.PathNote{},
	}
	err = fitUndo(ctx, s, req, last, &plan, src, res)
	if req.DryRun {
		return res, err
	}
	if err != nil {
		return nil, err
	}
	in := applyIntent{Target: last.To, Record: last, Undoes: last.ID}
	if last.To == s.Record.Source {
		in.Applied = last.From
	}
	_, err = execute(ctx, s, plan.ID, in, plan, src, apply.Options{})
	return res, err
}

// journalError returns the error for an apply whose replaced files are not known
// any more.
func journalError(last store.Apply, err error) error {
	e := api.Failf(api.CodeUndo, err, "the apply cannot be taken back: its journal applies/%s cannot be used", last.ID)
	e.Kind, e.Hint = api.Refused, "the files that it replaced are in old/ there, unless they were removed"
	return e
}

// fitUndo removes from the plan what stays, and finds the conflicts with newer
// changes.
func fitUndo(ctx context.Context, s *held.Cell, req api.UndoRequest, last store.Apply, plan *apply.Plan, src apply.Source, res *api.ApplyResult) error {
	mode, err := merge.Mode(req.OnConflict)
	if err != nil {
		return err
	}
	pick, err := secretfiles.NewSelector(nil, req.Except)
	if err != nil {
		return api.Usagef("patterns are gitignore-style", "bad pattern: %v", err)
	}
	target, err := s.Home.OpenHost(plan.Target)
	if refused, ok := errors.AsType[*api.Error](err); ok {
		return refused
	}
	if err != nil {
		return api.Usagef("", "%s: %v", quote.Path(plan.Target), quote.Cause(err))
	}
	defer target.Close()
	written, err := writtenState(s, last)
	if err != nil {
		return err
	}
	expected := map[string]*tree.Entry{}
	for _, op := range plan.Ops {
		expected[op.Path] = op.Old
	}
	repos := merge.GitDirs(outgoing.ViewOf(target))
	stays, err := gitObjects(repos, plan.Ops, res)
	if err != nil {
		return api.Failf(api.CodeCompare, err, "compare with %s", quote.Path(plan.Target))
	}
	now := func(path string) (*tree.Entry, error) { return apply.Probe(ctx, target, path, expected[path]) }
	conflicts, chosen, err := apply.Adjust(ctx, plan, now, apply.ThreeWayOptions{
		OnConflict: mode, Names: merge.NamesOf(target), Undo: true,
		Only: func(path string, isDir bool) bool { return pick.Match(path, isDir) && !stays[path] },
		Meaning: merge.Indexes(repos, map[apply.Side]gitread.Files{
			apply.BaseSide: written, apply.TheirSide: displacedFiles{src}, apply.OurSide: secretfiles.InDir(target),
		}),
	})
	if err != nil {
		return api.Failf(api.CodeCompare, err, "compare with %s", quote.Path(plan.Target))
	}
	for _, c := range chosen {
		res.Chosen = append(res.Chosen, home.PathNote(c.Path, string(c.Took)+": "+c.Reason))
	}
	for _, op := range plan.Ops {
		res.Written = append(res.Written, merge.OpJSON(op))
	}
	if conflicts = append(conflicts, unforeseenConflicts(req.Conflicts, chosen)...); len(conflicts) > 0 {
		return undoConflict(plan.Target, conflicts)
	}
	return nil
}

// gitObjects returns the objects of git repositories that an undo would remove. They
// stay, unless their repository goes as well: a commit or a branch that was made since
// the apply may need them, and git removes what nothing needs.
func gitObjects(repos *secretfiles.GitDirs, ops []apply.Op, res *api.ApplyResult) (map[string]bool, error) {
	stays := map[string]bool{}
	lost, err := objectsRemoved(repos, ops)
	for _, repo := range slices.Sorted(maps.Keys(lost)) {
		files := 0
		for _, op := range lost[repo] {
			stays[op.Path] = true
			if op.Old.Kind == tree.KindFile {
				files++
			}
		}
		res.Kept = append(res.Kept, home.PathNote(repo+"/objects", api.Counted(files, "object")+" that a newer commit may need; git removes them if nothing does"))
	}
	return stays, err
}

// undoConflict names the files that were changed since the apply.
func undoConflict(where string, conflicts []apply.Conflict) error {
	return merge.Conflicts(conflicts,
		fmt.Sprintf("%s in %s changed since the apply, nothing was undone", api.Counted(len(conflicts), "path"), quote.Path(where)),
		"--on-conflict ours keeps what is there now, --on-conflict theirs puts back what was there before the apply, --except PATTERN leaves paths as they are",
		"--on-conflict ours keeps what is there now, --except PATTERN leaves paths as they are")
}

// writtenState returns the state that an apply wrote. If gc has freed it, it returns nil
// and files are compared by their bytes.
func writtenState(s *held.Cell, last store.Apply) (gitread.Files, error) {
	c, err := s.State(last.Checkpoint)
	if err != nil || home.CheckUsable(c) != nil {
		return nil, nil //nolint:nilerr,nilnil // there is nothing to read
	}
	t, err := s.Home.Tree(c, workspace.AreaWorkspace)
	if err != nil {
		return nil, err
	}
	return s.Home.TreeOf(s.Record, c, t), nil
}

// displacedFiles reads the files that an apply replaced.
type displacedFiles struct{ src apply.Source }

func (d displacedFiles) Open(path string) (*os.File, error) {
	r, err := d.src.Open(path, tree.Entry{})
	if err != nil {
		return nil, err
	}
	f, ok := r.(*os.File)
	if !ok {
		return nil, errors.Join(fsx.ErrNotRegular, r.Close())
	}
	return f, nil
}

func (d displacedFiles) Names(string) ([]string, error) { return nil, errors.ErrUnsupported }
