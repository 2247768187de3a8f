package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/evidence/statements"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// decision has the reason and the options of a decision by a person or a flag.
type decision struct {
	Reason       string
	Automatic    bool
	Forced       bool
	Only, Except []string
	Race         *receipt.Race // if the run has won one
}

// Accept records that a run's result is accepted.
func (e *Engine) Accept(ctx context.Context, req api.AcceptRequest) (*api.AcceptResult, error) {
	s, err := e.hold(ctx, req.Cell, "accept", 0)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	res, err := s.accept(ctx, req)
	if err != nil || !req.Apply {
		return res, err
	}
	applied, err := s.e.ApplyHeld(ctx, s.Cell, req.Applier)
	if err != nil {
		return res, AfterAccept(err, s.Record.Name)
	}
	res.Applied = applied
	return res, nil
}

// AfterAccept replaces the hint of a refused apply when the run is already
// accepted: accept has no flags for the apply.
func AfterAccept(err error, cell string) error {
	if errors.Is(err, context.Canceled) {
		return &api.Error{Kind: api.Failed, Code: api.CodeInterrupted, Message: "the apply was interrupted", Hint: fmt.Sprintf("the run is accepted, and nothing was written; `forkcell apply %s` writes it", cell), Err: err}
	}
	err = api.WithHint(err, api.CodeConflict, fmt.Sprintf("the run is accepted; `forkcell apply %s --on-conflict ours` keeps the directory's side, `forkcell apply %s --on-conflict theirs --except PATTERN` takes the cell's and leaves some out", cell, cell))
	return api.WithHint(err, api.CodeHeldBack, fmt.Sprintf("the run is accepted; look at them, then `forkcell apply %s --except PATTERN` leaves them out, `forkcell apply %s --allow-control PATTERN` writes control files, `forkcell apply %s --allow-setuid` files that give rights", cell, cell, cell))
}

func (s *heldCell) accept(ctx context.Context, req api.AcceptRequest) (*api.AcceptResult, error) {
	if req.Run != "" {
		return s.acceptRun(ctx, req)
	}
	var state *store.Checkpoint
	done := false
	err := s.e.Store.View(func(tx *store.Tx) (err error) {
		if len(req.Runs) > 0 {
			state, req.Run, err = s.newestOf(tx, req.Runs)
			return err
		}
		if state, err = s.stateToAccept(tx); err == nil && state == nil {
			done, err = s.isAcceptedState(tx)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case state != nil:
		return s.acceptState(ctx, *state, req)
	case done && !req.Selects():
		return &api.AcceptResult{Cell: s.Record.Name, Decision: accepted, CheckpointID: s.Head.ID, Root: s.Head.Root(), Also: []string{}}, nil
	}
	return s.acceptRun(ctx, req)
}

// newestOf returns the newest of the named runs and captured states that wait for a
// decision: a captured state, or the id of a run.
func (s *heldCell) newestOf(tx *store.Tx, ids []string) (*store.Checkpoint, string, error) {
	_, work, err := home.UndecidedWork(tx, s.Record, s.Head.ID)
	if err != nil {
		return nil, "", err
	}
	for _, w := range slices.Backward(work) {
		switch {
		case !slices.Contains(ids, w.ID):
		case w.Run != nil:
			return nil, w.ID, nil
		default:
			state := w.After()
			return &state, "", nil
		}
	}
	return nil, ids[len(ids)-1], nil
}

func (s *heldCell) acceptRun(ctx context.Context, req api.AcceptRequest) (*api.AcceptResult, error) {
	r, err := s.acceptable(req)
	if err != nil {
		return nil, err
	}
	res := &api.AcceptResult{Cell: s.Record.Name, RunID: r.ID, Decision: accepted, CheckpointID: r.After, Also: []string{}}
	if d := home.DecisionIn(s.Record, r); d == accepted || d == partial {
		res.Decision, res.CheckpointID, res.Root = d, s.Head.ID, s.Head.Root()
		return res, nil
	}
	if d := home.DecisionIn(s.Record, r); home.IsUndone(d) {
		res.Before = d
	}
	p, err := s.propose(r.ID, r.After, req)
	if err != nil {
		return nil, err
	}
	if res.Skipped, err = s.skippedRuns(r); err != nil {
		return nil, err
	}
	d := decision{Reason: req.Reason, Forced: req.Force && r.Failed(), Only: req.Only, Except: slices.Clone(req.Except)}
	for _, p := range req.ExceptPaths {
		d.Except = append(d.Except, "/"+p)
	}
	if req.Selects() || p.leaves() {
		err = s.acceptPart(ctx, r, p, req, d, res)
	} else {
		err = s.acceptWhole(ctx, r, p, d, res)
	}
	if err != nil {
		return nil, err
	}
	return res, nil
}

// skippedRuns lists the undecided runs after a run that failed and changed nothing.
func (s *heldCell) skippedRuns(chosen store.Run) (ids []string, err error) {
	err = s.e.Store.View(func(tx *store.Tx) error {
		runs, err := home.UndecidedRuns(tx, s.Record, s.Head.ID)
		for _, r := range slices.Backward(runs) {
			if r.Ord > chosen.Ord && r.Before == r.After && r.Failed() {
				ids = append(ids, r.ID)
			}
		}
		return err
	})
	return ids, err
}

// acceptWhole accepts a run, and the undecided work before it.
func (s *heldCell) acceptWhole(ctx context.Context, r store.Run, p *proposal, d decision, res *api.AcceptResult) error {
	tip, err := s.State(r.After)
	if err != nil {
		return err
	}
	if res.Elsewhere, err = s.e.CountOutside(ctx, p.before, tip); err != nil {
		return err
	}
	err = s.Move(ctx, s.Head, func(tx *store.Tx) (err error) {
		if res.DecisionID, err = s.decideRun(tx, r, accepted, s.Head, d); err != nil {
			return err
		}
		also, err := s.acceptEarlier(tx, r.ID, tip, s.Head, decision{Reason: d.Reason})
		res.Also = append(res.Also, also...)
		return err
	})
	res.CheckpointID, res.Root = tip.ID, tip.Root()
	return err
}

// acceptPart accepts the selected part of a run and of the undecided work before it. Each
// piece of work gets a state of its own, so that the history says where changes are from.
func (s *heldCell) acceptPart(ctx context.Context, r store.Run, p *proposal, req api.AcceptRequest, d decision, res *api.AcceptResult) error {
	made, err := s.part(ctx, p, req)
	if err != nil {
		return err
	}
	if res.ElsewhereLeft, err = s.e.CountOutside(ctx, made.head, s.Head); err != nil {
		return err
	}
	if req.Selects() {
		res.Decision = partial
	}
	if made.head.ID != s.Head.ID {
		res.Left = s.Head.ID
	}
	err = s.Move(ctx, made.head, func(tx *store.Tx) error {
		if err := s.recordRefreshed(tx, made); err != nil {
			return err
		}
		for _, m := range made.parts {
			if err := s.decidePart(tx, r, m, d, res); err != nil {
				return err
			}
		}
		for _, w := range p.work {
			if !p.left[w.ID] || w.Run == nil {
				continue
			}
			if _, err := s.decideRun(tx, *w.Run, restored, made.head, decision{Reason: "left out when " + r.ID + " was accepted"}); err != nil {
				return err
			}
			res.Also = append(res.Also, w.ID+" "+restored)
		}
		also, err := s.acceptEarlier(tx, r.ID, made.head, made.head, decision{Reason: req.Reason})
		res.Also = append(res.Also, also...)
		return err
	})
	for _, name := range made.whole {
		res.Whole = append(res.Whole, home.PathNote(name, "changed by work that was left out, too"))
	}
	res.CheckpointID, res.Root = made.head.ID, made.head.Root()
	return err
}

// recordRefreshed records the state with what refreshes brought in.
func (s *heldCell) recordRefreshed(tx *store.Tx, c *composition) error {
	if c.refreshed == nil {
		return nil
	}
	if err := tx.PutCheckpoint(*c.refreshed); err != nil {
		return err
	}
	state, err := statements.StateDetail(c.source)
	if err != nil {
		return err
	}
	return s.e.Evidence.Change(tx, s.Record, *c.refreshed, receipt.OpRefresh, map[string]string{"state": state})
}

// decidePart records a state with the accepted part of a run, and the decision about it.
func (s *heldCell) decidePart(tx *store.Tx, chosen store.Run, m madePart, d decision, res *api.AcceptResult) error {
	if m.added {
		if err := tx.PutCheckpoint(m.state); err != nil {
			return err
		}
	}
	if m.run.ID == chosen.ID {
		id, err := s.decideRun(tx, chosen, res.Decision, m.state, d)
		res.DecisionID = id
		return err
	}
	result := res.Decision
	switch {
	case m.run.Failed():
		result = superseded
	case !m.added && result == partial:
		result = restored // none of it was selected
	}
	_, err := s.decideRun(tx, m.run, result, m.state, decision{Reason: "part of " + chosen.ID, Only: d.Only, Except: d.Except})
	res.Also = append(res.Also, m.run.ID+" "+result)
	return err
}

// acceptable finds the run to accept, or returns the reason why it cannot be
// accepted.
func (s *heldCell) acceptable(req api.AcceptRequest) (store.Run, error) {
	var r store.Run
	var after store.Checkpoint
	var part bool
	err := s.e.Store.View(func(tx *store.Tx) (err error) {
		if r, err = s.runToAccept(tx, req.Run); err != nil {
			return err
		}
		if after, err = tx.Checkpoint(r.After); err != nil {
			return err
		}
		part, err = home.InLineage(tx, r.After, s.Head.ID)
		return err
	})
	if err != nil {
		return r, err
	}
	name, decision := s.Record.Name, home.DecisionIn(s.Record, r)
	bringBack := "`forkcell restore " + name + " " + r.After + "`"
	switch {
	case decision == accepted || decision == partial:
		if req.Selects() {
			return r, api.Refusef(api.CodeDecided, "`forkcell restore "+name+" --run "+r.ID+"` takes it back", "run %s is %s already", r.ID, decision)
		}
		return r, nil
	case after.Freed:
		return r, api.Refusef(api.CodeNotHead, "`forkcell log "+name+"` shows its runs and states", "the work of run %s was freed by gc", r.ID)
	case !part || decision == restored && r.After != r.Before && s.Head.ID == r.Before:
		return r, api.Refusef(api.CodeNotHead, bringBack+" brings it back first", "run %s is not part of the present state of %s", r.ID, name)
	case r.Failed() && !req.Force:
		return r, api.Refusef(api.CodeFailedRun, "`forkcell accept "+name+" --run "+r.ID+" --force` accepts it all the same, `forkcell reject "+name+" --run "+r.ID+"` takes it back",
			"run %s did not succeed (%s, exit %d)", r.ID, r.Outcome, r.ExitCode)
	case (req.Selects() || len(req.LeaveOut) > 0) && s.Head.ID != r.After:
		return r, api.Refusef(api.CodeNotLast, bringBack+" makes its state the present one",
			"--only, --except and --leave-out need the run that made the present state, and %s did not", r.ID)
	}
	return r, nil
}
