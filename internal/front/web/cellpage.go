package web

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

const (
	runsOnPage   = 50
	statesInView = 40
	pendingShown = 20
	// unappliedShown bounds the number of files that are counted.
	unappliedShown = 1000
)

func (s *Site) addCell() {
	s.get("/cells/{cell}", (*request).cellPage)
	s.get("/cells/{cell}/apply", (*request).applyPage)
	s.post("/cells/{cell}/apply", (*request).apply)
	s.post("/cells/{cell}/undo", (*request).undo)
	s.post("/cells/{cell}/restore", (*request).restore)
	s.get("/cells/{cell}/policy", (*request).cellPolicy)
	s.post("/cells/{cell}/policy", (*request).setPolicy)
}

// cellBody is the page of one cell.
type cellBody struct {
	*api.StatusResult
	Graph  lineage
	Runs   []api.RunInfo
	Before int64 // the number to go on from, 0 at the end
	Later  bool  // the newest runs are not on the page
	// Unapplied counts files that the source directory does not have; -1 is unknown, and
	// Incomparable says why.
	Unapplied    int
	Incomparable string
	// Undoable reports whether there is an apply to undo.
	Undoable bool
	Decides  bool
	MayRun   bool
	States   []api.GraphNode
	Policy   *api.PolicyResult // nil if it cannot be read
	// BadPolicy says why the policy cannot be read.
	BadPolicy string
}

// HasAgent reports whether one of the runs is a session of a coding agent.
func (b cellBody) HasAgent() bool { return slices.ContainsFunc(b.Runs, isAgent) }

// NewestPending returns the newest of the runs that wait for a decision, the oldest of
// them first.
func (b cellBody) NewestPending() []string { return b.PendingRuns[b.EarlierPending():] }

// EarlierPending counts the runs that wait for a decision and are not named.
func (b cellBody) EarlierPending() int { return max(0, len(b.PendingRuns)-pendingShown) }

// Idle reports whether the cell is not in use.
func (b cellBody) Idle() bool { return b.State == api.StateIdle }

func (q *request) cellPage() error {
	name, err := q.cell()
	if err != nil {
		return err
	}
	ctx := q.Context()
	body := cellBody{Unapplied: -1, Decides: q.may(op.Apply), MayRun: q.may(op.Restore)}
	if body.StatusResult, err = q.engine.Status(ctx, name); err != nil {
		return err
	}
	before, _ := strconv.ParseInt(q.URL.Query().Get("before"), 10, 64) // anything else is the newest
	body.Later = before > 0
	if body.Runs, body.Before, err = q.engine.RecentRuns(ctx, name, max(before, 0), runsOnPage); err != nil {
		return err
	}
	if body.States, err = q.engine.RecentStates(ctx, name, statesInView); err != nil {
		return err
	}
	body.Graph = newLineage(name, body.Head, body.States)
	nameFewer(body.States)
	slices.Reverse(body.States)
	if body.Policy, err = q.engine.Policy(ctx, name); err != nil {
		body.BadPolicy = q.problem(err)
	}
	if body.Undoable, err = q.engine.HasApply(ctx, name); err != nil {
		return err
	}
	if body.Idle() && body.Applied != "" {
		if n, err := q.countUnapplied(ctx, name); err != nil {
			body.Incomparable = q.problem(err)
		} else {
			body.Unapplied = n
		}
	}
	return q.show("cell", frame{Title: name, Nav: "cells", Live: path("live") + query("cell", name), Body: body})
}

// countUnapplied counts the files that the source directory does not have yet, up to a
// limit. It fails if the states cannot be compared, as after gc.
func (q *request) countUnapplied(ctx context.Context, name string) (int, error) {
	r := api.DiffRequest{Cell: name, SinceApply: true, Stream: true, Unpaired: true}
	n, renames, err := q.countChanges(ctx, r)
	if err != nil || n >= unappliedShown || !renames {
		return n, err
	}
	r.Unpaired = false // a renamed file is one; to find its names is for changes that are few
	n, _, err = q.countChanges(ctx, r)
	return n, err
}

// countChanges counts changes, up to the limit of the page of a cell. renames reports
// that some of them may be the two names of a file.
func (q *request) countChanges(ctx context.Context, r api.DiffRequest) (n int, renames bool, err error) {
	res, err := q.engine.Diff(ctx, r)
	if err != nil {
		return 0, false, err
	}
	added, deleted := false, false
	err = res.Each(func(c tree.Change) error {
		added = added || c.Kind == tree.Added
		deleted = deleted || c.Kind == tree.Deleted
		if n++; n >= unappliedShown {
			return errFound
		}
		return nil
	})
	if err != nil && !errors.Is(err, errFound) {
		return 0, false, err
	}
	return n, added && deleted, nil
}

// Many reports that not all were counted, and that renamed files were counted twice.
func (b cellBody) Many() bool { return b.Unapplied >= unappliedShown }

// shownForks is how many forks of a state the page names.
const shownForks = 20

// nameFewer keeps the first forks of each state.
func nameFewer(states []api.GraphNode) {
	for i := range states {
		if len(states[i].Heads) > shownForks {
			states[i].Heads = states[i].Heads[:shownForks]
		}
	}
}
