package cell

import (
	"context"
	"fmt"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/apply"
	"github.com/forkcell/forkcell/internal/evidence"
	"github.com/forkcell/forkcell/internal/home"
	"github.com/forkcell/forkcell/internal/store"
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
	defer s.release()
	res, err := s.accept(ctx, req)
	if err != nil || !req.Apply {
		return res, err
	}
	applied, err := s.apply(ctx, req.Applier)
	if err != nil {
		return res, AfterAccept(err, s.cell.Name)
	}
	res.Applied = applied
	return res, nil
}

// AfterAccept replaces the hint of a refused apply when the run is already
// accepted: accept has no flags for the apply.
func AfterAccept(err error, cell string) error {
	err = api.WithHint(err, "conflict", fmt.Sprintf("the run is accepted; `forkcell apply %s --on-conflict ours` keeps the directory's side, `forkcell apply %s --on-conflict theirs --except PATTERN` takes the cell's and leaves some out", cell, cell))
	return api.WithHint(err, "held_back", fmt.Sprintf("the run is accepted; look at them, then `forkcell apply %s --except PATTERN` leaves them out, `forkcell apply %s --allow-control PATTERN` writes control files, `forkcell apply %s --allow-setuid` files that give rights", cell, cell, cell))
}

func (s *session) accept(ctx context.Context, req api.AcceptRequest) (*api.AcceptResult, error) {
	if req.Run != "" {
		return s.acceptRun(ctx, req)
	}
	var state *store.Checkpoint
	done := false
	err := s.e.Store.View(func(tx *store.Tx) (err error) {
		if state, err = s.stateToAccept(tx); err == nil && state == nil {
			done, err = s.isAcceptedState(tx)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case state != nil:
		return s.acceptState(*state, req)
	case done && !req.Selects():
		return &api.AcceptResult{Cell: s.cell.Name, Decision: accepted, CheckpointID: s.head.ID, Root: s.head.Root(), Also: []string{}}, nil
	}
	return s.acceptRun(ctx, req)
}

func (s *session) acceptRun(ctx context.Context, req api.AcceptRequest) (*api.AcceptResult, error) {
	r, err := s.acceptable(req)
	if err != nil {
		return nil, err
	}
	res := &api.AcceptResult{Cell: s.cell.Name, RunID: r.ID, Decision: accepted, CheckpointID: r.After, Also: []string{}}
	if d := home.DecisionIn(s.cell, r); d == accepted || d == partial {
		res.Decision, res.CheckpointID, res.Root = d, s.head.ID, s.head.Root()
		return res, nil
	}
	if d := home.DecisionIn(s.cell, r); home.IsUndone(d) {
		res.Before = d
	}
	head := s.head
	d := decision{Reason: req.Reason, Forced: req.Force && r.Failed(), Only: req.Only, Except: slices.Clone(req.Except)}
	for _, p := range req.ExceptPaths {
		d.Except = append(d.Except, "/"+p)
	}
	if req.Selects() {
		if head, err = s.part(ctx, r, req); err != nil {
			return nil, err
		}
		res.Decision = partial
	}
	tip := head
	if res.Decision == accepted {
		if tip, err = s.state(r.After); err != nil {
			return nil, err
		}
	}
	err = s.moveHead(ctx, head, func(tx *store.Tx) error {
		if res.Decision == partial && head.ID != s.head.ID {
			if err := tx.PutCheckpoint(head); err != nil {
				return err
			}
		}
		var err error
		if res.DecisionID, err = s.decideRun(tx, r, res.Decision, head, d); err != nil {
			return err
		}
		also, err := s.acceptEarlier(tx, r.ID, tip, head, decision{Reason: req.Reason})
		res.Also = append(res.Also, also...)
		return err
	})
	if err != nil {
		return nil, err
	}
	res.CheckpointID, res.Root = tip.ID, tip.Root()
	return res, nil
}

func (s *session) state(id string) (c store.Checkpoint, err error) {
	err = s.e.Store.View(func(tx *store.Tx) error {
		c, err = tx.Checkpoint(id)
		return err
	})
	return c, err
}

// acceptable finds the run to accept, or returns the reason why it cannot be
// accepted.
func (s *session) acceptable(req api.AcceptRequest) (store.Run, error) {
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
		part, err = home.InLineage(tx, r.After, s.head.ID)
		return err
	})
	if err != nil {
		return r, err
	}
	name, decision := s.cell.Name, home.DecisionIn(s.cell, r)
	bringBack := "`forkcell restore " + name + " " + r.After + "`"
	switch {
	case decision == accepted || decision == partial:
		if req.Selects() {
			return r, api.Refusef(api.CodeDecided, "`forkcell restore "+name+" --run "+r.ID+"` takes it back", "run %s is %s already", r.ID, decision)
		}
		return r, nil
	case after.Freed:
		return r, api.Refusef(api.CodeNotHead, "`forkcell log "+name+"` shows its runs and states", "the work of run %s was freed by gc", r.ID)
	case !part || decision == restored && r.After != r.Before && s.head.ID == r.Before:
		return r, api.Refusef(api.CodeNotHead, bringBack+" brings it back first", "run %s is not part of the present state of %s", r.ID, name)
	case r.Failed() && !req.Force:
		return r, api.Refusef(api.CodeFailedRun, "`forkcell accept "+name+" --run "+r.ID+" --force` accepts it all the same, `forkcell reject "+name+" --run "+r.ID+"` takes it back",
			"run %s did not succeed (%s, exit %d)", r.ID, r.Outcome, r.ExitCode)
	case req.Selects() && s.head.ID != r.After:
		return r, api.Refusef(api.CodeNotLast, bringBack+" makes its state the present one",
			"--only and --except need the run that made the present state, and %s did not", r.ID)
	}
	return r, nil
}

// part makes a state that has only the selected changes of a run.
func (s *session) part(ctx context.Context, r store.Run, req api.AcceptRequest) (store.Checkpoint, error) {
	before, err := s.state(r.Before)
	if err != nil {
		return before, err
	}
	pick, err := s.picked(ctx, before, req)
	if err != nil {
		return before, err
	}
	edits, err := s.selected(ctx, before, s.head, pick, apply.Fail)
	if err != nil {
		return before, err
	}
	if len(edits) == 0 {
		return before, api.Refusef(api.CodeNothing, "`forkcell diff "+s.cell.Name+" --name-status` shows the changes",
			"no change of run %s matches the patterns", r.ID)
	}
	sealed, err := s.e.Workspace.Compose(ctx, s.at, before.Layer, store.NewID("op"), edits)
	if err != nil {
		return before, fmt.Errorf("compose the accepted part: %w", err)
	}
	if sealed.Unchanged {
		return before, nil
	}
	return s.e.NewCheckpoint(s.cell, before.ID, evidence.PartialState, r.ID, sealed), nil
}
