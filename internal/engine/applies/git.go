package applies

import (
	"context"
	"maps"
	"path"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/engine/merge"
	"github.com/forkcell/forkcell/internal/storage/apply"
	"github.com/forkcell/forkcell/internal/storage/gitread"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// untrackedControls lists the masked control files that git tracked and tracks no more. A session
// does not see them, so that `git commit -a` in it removes them from the commit.
func (a *application) untrackedControls(was, now secretfiles.Claims) (notes []api.PathNote) {
	for _, p := range slices.Sorted(maps.Keys(was.Paths)) {
		_, still := now.Paths[p]
		if aside, _ := a.aside.Has(p, false); aside && !still {
			notes = append(notes, home.PathNote(p, "the session did not see it, and its commits do not have it"))
		}
	}
	return notes
}

// heldRepositories names the planned changes that make a repository track paths the
// rules leave out. allowed reports the paths that the operator allows.
func (a *application) heldRepositories(ctx context.Context, allowed func(path string) bool) ([]api.Obstacle, error) {
	changed := map[string][]string{} // the changes in repositories, by the directories of those
	for _, op := range a.merge.Ops {
		repo, err := a.repos.Of(op.Path)
		if err != nil {
			return nil, err
		}
		if repo != "" {
			changed[repo] = append(changed[repo], op.Path)
		}
	}
	if len(changed) == 0 {
		return nil, nil
	}
	was, now, err := merge.TrackedPaths(ctx, a.Cell, a.base, a.theirs)
	if err != nil {
		return nil, err
	}
	a.result.Untracked = a.untrackedControls(was, now)
	broken, err := a.brokenRefs()
	if err != nil {
		return nil, err
	}
	var held []api.Obstacle
	for _, c := range append(merge.NewlyTracked(a.Cell, was, now), broken...) {
		dir, err := a.repos.Of(c.Source + "/.")
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(changed[dir], func(p string) bool { return !allowed(p) }) {
			held = append(held, api.Obstacle{Path: c.Source, Reason: c.What, Allow: dir})
		}
	}
	return held, nil
}

// brokenRefs lists the refs of the target's repositories that would lose their commit:
// the plan removes objects, leaves the ref, and the cell does not have the commit.
func (a *application) brokenRefs() ([]merge.Claim, error) {
	base, err := a.Home.StateTree(a.Record, a.base)
	if err != nil {
		return nil, err
	}
	theirs, err := a.Home.StateTree(a.Record, a.theirs)
	if err != nil {
		return nil, err
	}
	var found []merge.Claim
	removed, err := objectsRemoved(a.repos, a.merge.Ops)
	if err != nil {
		return nil, err
	}
	for _, dir := range slices.Sorted(maps.Keys(removed)) {
		refs, err := brokenIn(dir, base, theirs, secretfiles.InDir(a.target))
		if err != nil {
			return nil, api.Refusef(api.CodeConflict, "--except .git applies the files alone", "the branches of %s cannot be read, and objects that they may need would be removed: %v", quote.Path(dir), err)
		}
		found = append(found, refs...)
	}
	return found, nil
}

// objectsRemoved returns the removals of git objects, by the repositories that lose
// them and stay.
func objectsRemoved(repos *secretfiles.GitDirs, ops []apply.Op) (map[string][]apply.Op, error) {
	removed, lost := map[string]bool{}, map[string][]apply.Op{}
	for _, op := range ops {
		removed[op.Path] = op.New == nil
	}
	for _, op := range ops {
		dir, is := gitread.InObjects(op.Path)
		if !is || op.New != nil || removed[dir] {
			continue
		}
		is, err := repos.Is(dir)
		if err != nil {
			return nil, err
		}
		if is {
			lost[dir] = append(lost[dir], op)
		}
	}
	return lost, nil
}

func brokenIn(dir string, base, theirs, ours gitread.Files) ([]merge.Claim, error) {
	was, err := refsOf(base, dir)
	if err != nil {
		return nil, err
	}
	now, err := refsOf(ours, dir)
	if err != nil {
		return nil, err
	}
	cell, err := gitread.Open(theirs, dir)
	if err != nil {
		return nil, err
	}
	defer cell.Close()
	var found []merge.Claim
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if was[name] != now[name] && !cell.Has(now[name]) {
			found = append(found, merge.Claim{Source: path.Join(dir, name), What: "is newer than the last apply, and this one would remove objects that it may need"})
		}
	}
	return found, nil
}

// refsOf returns the refs of the repository at a directory.
func refsOf(files gitread.Files, dir string) (map[string]string, error) {
	repo, err := gitread.Open(files, dir)
	if err != nil {
		return nil, err
	}
	defer repo.Close()
	return repo.Refs()
}
