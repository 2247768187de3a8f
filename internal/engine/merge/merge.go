// Package merge compares three sides of a directory for applies, refreshes and
// acceptances: what was, what the cell made of it, and what is there now.
//
// It decides nothing and writes nothing.
package merge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/held"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/apply"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Result is the result of a three-way comparison without conflicts.
type Result struct {
	Ops     []apply.Op
	Already []string // paths that have the change
	Chosen  []apply.Choice
}

// ThreeWay compares three sides. A conflict that is not decided is an error.
func ThreeWay(ctx context.Context, where string, base, theirs *tree.Tree, ours func(string) (*tree.Entry, error), opt apply.ThreeWayOptions) (Result, error) {
	ops, already, conflicts, chosen, err := apply.ThreeWay(ctx, base, theirs, ours, opt)
	if err != nil {
		return Result{}, api.Failf(api.CodeCompare, err, "compare with %s", quote.Path(where))
	}
	if len(conflicts) > 0 {
		return Result{}, Refuse(where, conflicts)
	}
	return Result{ops, already, chosen}, nil
}

// Mode returns what is done with conflicts, by its word in a request.
func Mode(word string) (apply.OnConflict, error) {
	switch word {
	case "", "fail":
		return apply.Fail, nil
	case "ours":
		return apply.Ours, nil
	case "theirs":
		return apply.Theirs, nil
	}
	return apply.Fail, api.Usagef("one of fail, ours, theirs", "unknown --on-conflict %s", quote.Arg(word))
}

// Refuse is the error about conflicts, of which nothing was written.
func Refuse(where string, conflicts []apply.Conflict) error {
	hint := "settle them there, or give --on-conflict ours|theirs, or leave them out with --except"
	if !slices.ContainsFunc(conflicts, func(c apply.Conflict) bool { return !fsx.Within(c.Path, ".git") }) {
		hint = "both sides have used git: --except .git applies the files alone, publish makes a branch of the work"
	}
	return Conflicts(conflicts,
		fmt.Sprintf("%s in %s, nothing was written", api.Counted(len(conflicts), "conflict"), quote.Path(where)),
		hint,
		"leave out with --except what cannot be written, or give --on-conflict ours")
}

// Conflicts returns a refusal that names each conflict. unforcible is the hint
// for conflicts that cannot be decided in favour of the other side.
func Conflicts(conflicts []apply.Conflict, message, hint, unforcible string) error {
	e := &api.Error{Kind: api.Refused, Code: api.CodeConflict, Message: message, Hint: hint}
	if slices.ContainsFunc(conflicts, func(c apply.Conflict) bool { return !c.Forcible }) {
		e.Hint = unforcible
	}
	list := make([]api.Obstacle, len(conflicts))
	for i, c := range conflicts {
		list[i] = api.Obstacle{Path: c.Path, Reason: c.Reason}
	}
	return home.RefuseObstacles(e, list)
}

// Part returns the selected part of the changes from one state to another.
func Part(ctx context.Context, s *held.Cell, from, to store.Checkpoint, pick func(path string, isDir bool) bool, how apply.OnConflict) ([]workspace.Edit, error) {
	a, b, err := s.Home.Trees(from, to, workspace.AreaWorkspace)
	if err != nil {
		return nil, err
	}
	ops, conflicts, err := apply.Part(ctx, a, b, apply.ThreeWayOptions{OnConflict: how, Only: pick, Open: OpenSides(map[apply.Side]home.FileOpener{
		apply.BaseSide: s.Home.FilesOf(s.Record, from), apply.TheirSide: s.Home.FilesOf(s.Record, to), apply.OurSide: s.Home.FilesOf(s.Record, from),
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
		edits[i] = s.Home.Edit(s.Record, to, tree.Change{Path: op.Path, Old: op.Old, New: op.New})
	}
	return edits, nil
}

// OpenSides opens the files of each side.
func OpenSides(sides map[apply.Side]home.FileOpener) func(apply.Side, string, tree.Entry) (*os.File, error) {
	return func(side apply.Side, path string, e tree.Entry) (*os.File, error) { return sides[side](path, e) }
}

// FilesIn opens the files of a directory.
func FilesIn(d *fsx.Dir) home.FileOpener {
	return func(path string, _ tree.Entry) (*os.File, error) { return d.OpenFile(path) }
}

// NamesOf lists directories of a target. A missing directory is empty.
func NamesOf(target *fsx.Dir) func(path string) ([]string, error) {
	return func(path string) ([]string, error) {
		d, err := target.OpenDir(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		defer d.Close()
		return d.Names()
	}
}

// OpJSON describes an operation without comparing trees.
func OpJSON(op apply.Op) api.ChangeJSON {
	ch := tree.Change{Path: op.Path, Old: op.Old, New: op.New, Kind: tree.Modified}
	switch {
	case op.Old == nil:
		ch.Kind = tree.Added
	case op.New == nil:
		ch.Kind = tree.Deleted
	case op.Old.Kind != op.New.Kind:
		ch.Kind = tree.TypeChanged
	}
	return home.NewChangeJSON(ch)
}
