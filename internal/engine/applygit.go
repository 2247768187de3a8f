package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/apply"
	"github.com/forkcell/forkcell/internal/storage/gitread"
	"github.com/forkcell/forkcell/internal/storage/outgoing"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// gitDirs returns the directories of repositories that are in any of several views.
func gitDirs(views ...*outgoing.View) *secretfiles.GitDirs {
	all := views[0]
	for _, v := range views[1:] {
		all = outgoing.Overlay(all, v)
	}
	return secretfiles.FindGitDirs(all.Names)
}

// gitDirsOf returns the directories of repositories that are in one of two states.
func (s *heldCell) gitDirsOf(one, other store.Checkpoint) (*secretfiles.GitDirs, error) {
	a, b, err := s.e.Trees(one, other, workspace.AreaWorkspace)
	return gitDirs(s.e.WorkspaceView(s.Record, one, a), s.e.WorkspaceView(s.Record, other, b)), err
}

// indexes compares the indexes of git by their entries, because each `git status`
// rewrites the file times in them. An index that cannot be read is compared by its
// bytes.
func indexes(repos *secretfiles.GitDirs, sides map[apply.Side]gitread.Files) func(apply.Side, string) (tree.Hash, bool, error) {
	return func(side apply.Side, p string) (tree.Hash, bool, error) {
		files := sides[side]
		if path.Base(p) != "index" || files == nil {
			return tree.Hash{}, false, nil
		}
		if is, err := repos.Is(path.Dir(p)); err != nil || !is {
			return tree.Hash{}, false, err
		}
		entries, err := gitread.ReadIndex(files, p)
		return gitread.Meaning(entries), err == nil, nil
	}
}

// claim is a file of a repository that makes git track another path, or can no
// longer be read.
type claim struct{ source, what string }

// trackedPaths returns what the repositories of two states track.
func (s *heldCell) trackedPaths(ctx context.Context, from, to store.Checkpoint) (was, now secretfiles.Claims, err error) {
	base, err := s.e.StateTree(s.Record, from)
	if err != nil {
		return was, now, err
	}
	theirs, err := s.e.StateTree(s.Record, to)
	if err != nil {
		return was, now, err
	}
	if was, err = secretfiles.ClaimedPaths(ctx, base, nil); err == nil {
		now, err = secretfiles.ClaimedPaths(ctx, theirs, &was)
	}
	return was, now, err
}

// newlyTracked lists the paths that repositories of a state track although the
// rules leave them out, and that an earlier state did not track: the next import or
// commit would include them. Repositories that can no longer be read are listed
// too.
func (s *heldCell) newlyTracked(was, now secretfiles.Claims) []claim {
	var found []claim
	for p, source := range now.Paths {
		rule, out := s.At.Rules.Match(p, false)
		if _, before := was.Paths[p]; out && !before && !slices.Contains(s.Record.Kept, p) {
			found = append(found, claim{source, fmt.Sprintf("makes git track %s, which the rule %s leaves out", quote.Path(p), rule)})
		}
	}
	for source, why := range now.Bad {
		if was.Bad[source] == nil {
			found = append(found, claim{source, "says what git tracks and cannot be read: " + quote.Line(why.Error())})
		}
	}
	slices.SortFunc(found, func(a, b claim) int { return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.what, b.what)) })
	return found
}

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
	for _, op := range a.merge.ops {
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
	was, now, err := a.trackedPaths(ctx, a.base, a.theirs)
	if err != nil {
		return nil, err
	}
	a.result.Untracked = a.untrackedControls(was, now)
	broken, err := a.brokenRefs()
	if err != nil {
		return nil, err
	}
	var held []api.Obstacle
	for _, c := range append(a.newlyTracked(was, now), broken...) {
		dir, err := a.repos.Of(c.source + "/.")
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(changed[dir], func(p string) bool { return !allowed(p) }) {
			held = append(held, api.Obstacle{Path: c.source, Reason: c.what, Allow: dir})
		}
	}
	return held, nil
}

// brokenRefs lists the refs of the target's repositories that would lose their commit:
// the plan removes objects, leaves the ref, and the cell does not have the commit.
func (a *application) brokenRefs() ([]claim, error) {
	base, err := a.e.StateTree(a.Record, a.base)
	if err != nil {
		return nil, err
	}
	theirs, err := a.e.StateTree(a.Record, a.theirs)
	if err != nil {
		return nil, err
	}
	var found []claim
	removed, err := objectsRemoved(a.repos, a.merge.ops)
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

func brokenIn(dir string, base, theirs, ours gitread.Files) ([]claim, error) {
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
	var found []claim
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if was[name] != now[name] && !cell.Has(now[name]) {
			found = append(found, claim{path.Join(dir, name), "is newer than the last apply, and this one would remove objects that it may need"})
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
