package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/diff"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/engine/merge"
	"github.com/forkcell/forkcell/internal/storage/outgoing"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// seal makes a state of the files that the run left. Files that no state can hold
// make the run an error and the cell stays at its state, except for a live
// directory, which stays as the command left it.
func (r *run) seal(ctx context.Context) error {
	begin := time.Now()
	defer func() { r.timings.SealUS = since(begin) }()
	if err := errors.Join(r.RelockHome(), r.e.Store.MakeRoom()); err != nil {
		return err
	}
	r.noteUncovered()
	r.takeBack(ctx)
	sealed, err := r.work.Seal(ctx)
	bad, unkeepable := errors.AsType[*workspace.UnsealableError](err)
	if unkeepable {
		r.failUnsealable(bad)
		if r.Record.Live == "" {
			return nil
		}
		sealed, r.refused, err = r.work.SealLive(ctx, store.NewID("op"))
	}
	if errors.Is(err, context.Canceled) {
		r.noteOutcome()
		return &api.Error{
			Kind: api.Failed, Code: api.CodeInterrupted, Message: "interrupted while the run " + r.rec.ID + " was sealed",
			Hint: "its work is kept: the next command that changes the cell finishes it", Err: err,
		}
	}
	if err != nil {
		r.noteOutcome()
		return &api.Error{
			Kind: api.Failed, Code: api.CodeSeal,
			Message: fmt.Sprintf("seal the run %s: %v", r.rec.ID, err),
			Hint:    "its work is kept; fix the cause (see `df`), then any command on the cell finishes it", Err: err,
		}
	}
	r.take(sealed)
	r.noteLiveChanges(ctx)
	if unkeepable { // the remaining files stay until gc
		r.sealed.Unchanged = false
	}
	failpoint.Hit("run.sealed")
	return nil
}

func (r *run) take(sealed workspace.Sealed) {
	r.sealed = sealed
	r.rec.Changed = sealed.Changed
	if !sealed.Unchanged {
		r.after = r.e.NewCheckpoint(r.Record, r.before.ID, "run", r.rec.ID, sealed)
	}
	r.rec.After = r.after.ID
}

func (r *run) failUnsealable(bad *workspace.UnsealableError) {
	r.rec.Outcome, r.rec.ExitCode = errored, 125
	r.fail("the result cannot be kept: " + strings.Join(bad.Problems, "; "))
	e := &api.Error{
		Kind: api.Failed, Code: api.CodeUnsealable, Message: "the run's result cannot be kept; the cell stays as it was before",
		Hint: "the files are in " + r.work.Dir() + " until gc", Details: bad.Problems, Err: bad,
	}
	switch {
	case r.Record.Live != "" && r.rec.RestoreOnFail:
		e.Message, e.Hint = "the run's result cannot be kept; the directory is again as it was before", ""
	case r.Record.Live != "":
		e.Message = "a part of the run's result cannot be kept; the state after the run lacks it"
		e.Hint = "it is still in " + quote.Path(r.Record.Live) + ": remove it there"
	}
	r.startError = e
}

// noteOutcome records how the command ended, for the process that will finish this
// transaction. If that fails, the run will count as interrupted. The automatic
// decision of this process is dropped.
func (r *run) noteOutcome() {
	r.rec.State, r.rec.Decision, r.rec.ReceiptID = "running", pending, ""
	if err := r.e.Store.Update(func(tx *store.Tx) error { return tx.PutRun(r.rec) }); err != nil {
		r.e.Logger.Warn("the outcome of a run is not recorded", "cell", r.Record.Name, "run", r.rec.ID, "error", err)
	}
}

// hiddenByName is the degradation of every run in a live directory with left-out
// files: their masks work for the cell, not for the host.
const hiddenByName = "left-out files of a live directory are hidden by name"

// noteMasked notes hiddenByName where it applies.
func (r *run) noteMasked() {
	if len(r.spec.Mounts.Masks) > 0 {
		r.degraded = append(r.degraded, hiddenByName)
	}
}

// noteUncovered notes which left-out files the host has changed while the cell
// could see their names.
func (r *run) noteUncovered() {
	paths, err := r.work.UncoveredPaths()
	if err != nil {
		r.degraded = append(r.degraded, "it is not known whether left-out files could be seen: "+err.Error())
		return
	}
	if len(paths) == 0 {
		return
	}
	r.degrade("left-out files changed during the run, and may have been seen", quote.AllUTF8(paths))
}

// degrade notes a degradation with some of the names that it concerns.
func (r *run) degrade(what string, list []string) {
	const shown = 5
	if len(list) == 0 {
		return
	}
	more := ""
	if n := len(list) - shown; n > 0 {
		list, more = list[:shown], fmt.Sprintf(", and %d more", n)
	}
	r.degraded = append(r.degraded, what+": "+strings.Join(list, ", ")+more)
}

// takeBack makes the operator the owner of the files of a live directory again.
func (r *run) takeBack(ctx context.Context) {
	taken, err := r.work.TakeBack(ctx)
	if err != nil {
		r.degraded = append(r.degraded, "owners and ACLs of the live directory could not all be taken back: "+err.Error())
	}
	var list []string
	for _, t := range taken {
		list = append(list, quote.Path(t.Path)+" ("+quote.Line(t.What)+")")
	}
	r.degrade("owners and ACLs were taken back in the live directory", list)
}

// noteLiveChanges names the changes that an apply would have held back: a live
// directory already has them.
func (r *run) noteLiveChanges(ctx context.Context) {
	if r.Record.Live == "" || r.Record.Live != r.Record.Source || r.sealed.Unchanged {
		return
	}
	control, tracked, err := r.controlChanges(ctx, r.before, r.after)
	if err != nil {
		r.degraded = append(r.degraded, "it is not known whether control files of the live directory changed: "+err.Error())
	}
	r.degrade("control files of the live directory changed", control)
	r.degrade("git repositories of the live directory changed", tracked)
}

// controlChanges lists the control files that differ between two states, and the
// left-out paths that their repositories track.
func (s *heldCell) controlChanges(ctx context.Context, from, to store.Checkpoint) (control, tracked []string, err error) {
	a, b, err := s.e.Trees(from, to, workspace.AreaWorkspace)
	if err != nil {
		return nil, nil, err
	}
	before, after := s.e.WorkspaceView(s.Record, from, a), s.e.WorkspaceView(s.Record, to, b)
	repos := merge.GitDirs(before, after)
	gate, err := diff.LiveGate(s.Record, before, after)
	if err != nil {
		return nil, nil, err
	}
	git := false
	err = tree.DiffFunc(a, b, tree.DiffOptions{}, func(ch tree.Change) error {
		repo, err := repos.Of(ch.Path)
		if err != nil {
			return err
		}
		git = git || repo != ""
		verdict, _, err := gate.Judge(ctx, home.Outgoing(ch.Path, ch.Old, ch.New))
		if verdict == outgoing.Held && err == nil {
			control = append(control, quote.Path(ch.Path))
		}
		return err
	})
	if !git || err != nil {
		return control, nil, err
	}
	was, now, err := merge.TrackedPaths(ctx, s.Cell, from, to)
	if err != nil {
		return control, nil, err
	}
	for _, c := range merge.NewlyTracked(s.Cell, was, now) {
		tracked = append(tracked, quote.Path(c.Source)+" "+c.What)
	}
	return control, tracked, nil
}
