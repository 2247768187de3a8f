package merge

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/forkcell/forkcell/internal/engine/held"
	"github.com/forkcell/forkcell/internal/storage/apply"
	"github.com/forkcell/forkcell/internal/storage/gitread"
	"github.com/forkcell/forkcell/internal/storage/outgoing"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// GitDirs returns the directories of repositories that are in any of several views.
func GitDirs(views ...*outgoing.View) *secretfiles.GitDirs {
	all := views[0]
	for _, v := range views[1:] {
		all = outgoing.Overlay(all, v)
	}
	return secretfiles.FindGitDirs(all.Names)
}

// GitDirsOf returns the directories of repositories that are in one of two states.
func GitDirsOf(s *held.Cell, one, other store.Checkpoint) (*secretfiles.GitDirs, error) {
	a, b, err := s.Home.Trees(one, other, workspace.AreaWorkspace)
	return GitDirs(s.Home.WorkspaceView(s.Record, one, a), s.Home.WorkspaceView(s.Record, other, b)), err
}

// Indexes compares the indexes of git by their entries, because each `git status`
// rewrites the file times in them. An index that cannot be read is compared by its
// bytes.
func Indexes(repos *secretfiles.GitDirs, sides map[apply.Side]gitread.Files) func(apply.Side, string) (tree.Hash, bool, error) {
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

// Claim is a file of a repository that makes git track another path, or can no
// longer be read.
type Claim struct{ Source, What string }

// TrackedPaths returns what the repositories of two states track.
func TrackedPaths(ctx context.Context, s *held.Cell, from, to store.Checkpoint) (was, now secretfiles.Claims, err error) {
	base, err := s.Home.StateTree(s.Record, from)
	if err != nil {
		return was, now, err
	}
	theirs, err := s.Home.StateTree(s.Record, to)
	if err != nil {
		return was, now, err
	}
	if was, err = secretfiles.ClaimedPaths(ctx, base, nil); err == nil {
		now, err = secretfiles.ClaimedPaths(ctx, theirs, &was)
	}
	return was, now, err
}

// NewlyTracked lists the paths that repositories of a state track although the
// rules leave them out, and that an earlier state did not track: the next import or
// commit would include them. Repositories that can no longer be read are listed
// too.
func NewlyTracked(s *held.Cell, was, now secretfiles.Claims) []Claim {
	var found []Claim
	for p, source := range now.Paths {
		rule, out := s.At.Rules.Match(p, false)
		if _, before := was.Paths[p]; out && !before && !slices.Contains(s.Record.Kept, p) {
			found = append(found, Claim{source, fmt.Sprintf("makes git track %s, which the rule %s leaves out", quote.Path(p), rule)})
		}
	}
	for source, why := range now.Bad {
		if was.Bad[source] == nil {
			found = append(found, Claim{source, "says what git tracks and cannot be read: " + quote.Line(why.Error())})
		}
	}
	slices.SortFunc(found, func(a, b Claim) int { return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.What, b.What)) })
	return found
}
