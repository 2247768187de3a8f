package engine

import (
	"context"
	"slices"
	"time"

	"github.com/forkcell/forkcell/receipt"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Reject records that a run's result is rejected, and undoes it. If no run is named
// and none is undecided, it goes back to before the captured states that are not
// accepted.
func (e *Engine) Reject(ctx context.Context, cell, run, reason string) (*api.MoveResult, error) {
	s, err := e.hold(ctx, cell, "reject", 0)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	if err := s.CatchUp(ctx); err != nil {
		return nil, err
	}
	var r store.Run
	var part bool
	var to store.Checkpoint
	err = e.Store.View(func(tx *store.Tx) (err error) {
		if run == "" {
			if to, err = s.stateBeforeCaptured(tx); to.ID != "" || err != nil {
				return err
			}
		}
		if r, err = s.runToReject(tx, run); err != nil {
			return err
		}
		if to, err = tx.Checkpoint(r.Before); err != nil {
			return err
		}
		here, err := home.LineageOf(tx, s.Head.ID)
		part = here.HasWork(r)
		return err
	})
	if err != nil {
		return nil, err
	}
	if r.ID == "" {
		return s.moveBack(ctx, to, nil, rejected, reason)
	}
	if home.DecisionIn(s.Record, r) == rejected && !(part && home.UndecidedIn(s.Record, r)) {
		return nil, api.Refusef(api.CodeDecided, "`forkcell status "+s.Record.Name+"` shows what is undecided", "run %s is rejected already", r.ID)
	}
	if !part || r.Before == r.After {
		// The present state has none of its work: only the decision is missing.
		to = s.Head
	}
	return s.moveBack(ctx, to, &r, rejected, reason)
}

// Restore moves a cell to an earlier state, or any other of its states.
func (e *Engine) Restore(ctx context.Context, req api.RestoreRequest) (*api.MoveResult, error) {
	if req.Checkpoint != "" && req.Run != "" {
		return nil, api.Usagef("give one of them", "a checkpoint and --run exclude each other")
	}
	wait := time.Duration(0)
	if req.Force {
		var err error
		if e, _, err = e.stopFirst(ctx, req.Cell, api.EndedByStop); err != nil {
			return nil, err
		}
		wait = forceWait
	}
	s, err := e.hold(ctx, req.Cell, "restore", wait)
	if err != nil {
		return nil, withForce(err)
	}
	defer s.Release()
	if err := s.CatchUp(ctx); err != nil {
		return nil, err
	}
	var to store.Checkpoint
	var first *store.Run
	err = e.Store.View(func(tx *store.Tx) (err error) {
		if req.Checkpoint != "" {
			to, err = e.FindCheckpoint(tx, s.Record, req.Checkpoint)
			return err
		}
		r, err := e.FindRun(tx, s.Record, req.Run)
		if err != nil {
			return err
		}
		if !home.IsUndone(home.DecisionIn(s.Record, r)) {
			first = &r
		}
		to, err = s.stateBeforeRun(tx, r, req.Run != "")
		return err
	})
	if err == nil {
		err = s.takesBackOnly(to, first, req.Runs)
	}
	if err != nil {
		return nil, err
	}
	return s.moveBack(ctx, to, first, restored, req.Reason)
}

// stateBeforeRun returns the state before a run. If the run was not named, the last
// run may already be undone, and earlier runs with it. The head then stays: the
// state before that run would bring back undone work.
func (s *heldCell) stateBeforeRun(tx *store.Tx, r store.Run, named bool) (store.Checkpoint, error) {
	here, err := home.LineageOf(tx, s.Head.ID)
	if err != nil {
		return store.Checkpoint{}, err
	}
	if !named && home.IsUndone(home.DecisionIn(s.Record, r)) && !here[r.Before] {
		return s.Head, nil
	}
	return tx.Checkpoint(r.Before)
}

// moveBack moves the head to a state and decides every run that this undoes. first,
// if set, gets the given result; the others are restored.
func (s *heldCell) moveBack(ctx context.Context, to store.Checkpoint, first *store.Run, result, reason string) (*api.MoveResult, error) {
	undone, err := s.mayMoveBack(to, first)
	if err != nil {
		return nil, err
	}
	res := &api.MoveResult{
		Cell: s.Record.Name, CheckpointID: to.ID, Root: to.Root(), Left: s.Head.ID, Decision: result,
		Also: []string{}, Notes: []string{},
	}
	if to.ID == s.Head.ID && len(undone) == 0 {
		res.Notes = append(res.Notes, "it was there already")
		return res, nil
	}
	if res.Elsewhere, err = s.e.CountOutside(ctx, s.Head, to); err != nil {
		return nil, err
	}
	err = s.Move(ctx, to, func(tx *store.Tx) error {
		for i, r := range undone {
			word := restored
			if first != nil && r.ID == first.ID {
				word = result
			}
			id, err := s.decideRun(tx, r, word, to, decision{Reason: reason})
			if err != nil {
				return err
			}
			if i == 0 {
				res.DecisionID, res.RunID = id, r.ID
			} else {
				res.Also = append(res.Also, r.ID+" "+word)
			}
		}
		if len(undone) > 0 {
			return nil
		}
		s.Record.Head = to.ID
		return s.e.Evidence.Change(tx, s.Record, to, receipt.OpRestore, map[string]string{"reason": quote.UTF8(reason), detailLeft: res.Left})
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// takesBackOnly refuses a move to a state that takes back other runs than those that were
// shown, if a request names those.
func (s *heldCell) takesBackOnly(to store.Checkpoint, first *store.Run, shown []string) error {
	if len(shown) == 0 {
		return nil
	}
	undone, err := s.undoneRuns(to, first)
	for _, r := range undone {
		if !slices.Contains(shown, r.ID) {
			return api.Refusef(api.CodeNotShown, "`forkcell diff "+s.Record.Name+"` shows all that waits", "this would also take back run %s, which the request does not name", r.ID)
		}
	}
	return err
}

// mayMoveBack returns the runs that a move to a state undoes. It refuses a state that
// was freed, and a caller who may not leave accepted work.
func (s *heldCell) mayMoveBack(to store.Checkpoint, first *store.Run) ([]store.Run, error) {
	if err := home.CheckUsable(to); err != nil {
		return nil, err
	}
	undone, err := s.undoneRuns(to, first)
	if err != nil {
		return nil, err
	}
	for _, r := range undone {
		if home.DecisionIn(s.Record, r) != accepted {
			continue
		}
		if err := s.e.Caller.MayDecide("leaving work that was accepted"); err != nil {
			return nil, err
		}
	}
	return undone, nil
}

// detailLeft is the detail with the previous state of the cell, in the statement of
// a restore that decides about no run.
const detailLeft = "left"

// undoneRuns lists the runs, newest first, whose work is in the present state and not
// in the new one.
func (s *heldCell) undoneRuns(to store.Checkpoint, first *store.Run) ([]store.Run, error) {
	var out []store.Run
	err := s.e.Store.View(func(tx *store.Tx) error {
		runs, err := tx.Runs(s.Record.ID)
		if err != nil {
			return err
		}
		here, err := home.LineageOf(tx, s.Head.ID)
		if err != nil {
			return err
		}
		there, err := home.LineageOf(tx, to.ID)
		if err != nil {
			return err
		}
		if first != nil {
			out = append(out, *first)
		}
		for i := len(runs) - 1; i >= 0; i-- {
			r := runs[i]
			if r.State != "done" || first != nil && r.ID == first.ID || home.IsUndone(r.Decision) {
				continue
			}
			if here.HasWork(r) && !there.HasWork(r) {
				out = append(out, r)
			}
		}
		return nil
	})
	return out, err
}
