package cell

import (
	"context"
	"time"

	"github.com/forkcell/forkcell/receipt"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/store"
)

// Reject records that a run's result does not stand, and takes it back.
func (e *Engine) Reject(ctx context.Context, cell, run, reason string) (*api.MoveResult, error) {
	s, err := e.hold(ctx, cell, "reject", 0)
	if err != nil {
		return nil, err
	}
	defer s.release()
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	var r store.Run
	var part bool
	var to store.Checkpoint
	err = e.store.View(func(tx *store.Tx) (err error) {
		if r, err = s.runToReject(tx, run); err != nil {
			return err
		}
		if to, err = tx.Checkpoint(r.Before); err != nil {
			return err
		}
		here, err := lineageSet(tx, s.head.ID)
		part = here.hasWork(r)
		return err
	})
	if err != nil {
		return nil, err
	}
	if decisionIn(s.cell, r) == rejected && !(part && undecidedIn(s.cell, r)) {
		return nil, api.Refusef(api.CodeDecided, "`forkcell status "+s.cell.Name+"` shows what is undecided", "run %s is rejected already", r.ID)
	}
	if !part || r.Before == r.After {
		// The present state has nothing of it: only the word is missing.
		to = s.head
	}
	return s.moveBack(ctx, to, &r, rejected, reason)
}

// Restore moves a cell to an earlier, or any, of its states.
func (e *Engine) Restore(ctx context.Context, req api.RestoreRequest) (*api.MoveResult, error) {
	if req.Checkpoint != "" && req.Run != "" {
		return nil, api.Usagef("give one of them", "a checkpoint and --run exclude each other")
	}
	wait := time.Duration(0)
	if req.Force {
		if err := e.stopFirst(ctx, req.Cell); err != nil {
			return nil, err
		}
		wait = forceWait
	}
	s, err := e.hold(ctx, req.Cell, "restore", wait)
	if err != nil {
		return nil, withForce(err)
	}
	defer s.release()
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	var to store.Checkpoint
	var first *store.Run
	err = e.store.View(func(tx *store.Tx) (err error) {
		if req.Checkpoint != "" {
			to, err = e.findCheckpoint(tx, s.cell, req.Checkpoint)
			return err
		}
		r, err := e.findRun(tx, s.cell, req.Run)
		if err != nil {
			return err
		}
		if !isUndone(decisionIn(s.cell, r)) {
			first = &r
		}
		to, err = s.behind(tx, r, req.Run != "")
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.moveBack(ctx, to, first, restored, req.Reason)
}

// behind is the state before a run. The last run, which nobody named, may be taken
// back already and more besides: then the head stays, because what is before that
// run would bring back what was taken back.
func (s *session) behind(tx *store.Tx, r store.Run, named bool) (store.Checkpoint, error) {
	here, err := lineageSet(tx, s.head.ID)
	if err != nil {
		return store.Checkpoint{}, err
	}
	if !named && isUndone(decisionIn(s.cell, r)) && !here[r.Before] {
		return s.head, nil
	}
	return tx.Checkpoint(r.Before)
}

// moveBack moves the head to a state and decides every run that is thereby
// undone. first, if given, gets the given result; the others are restored.
func (s *session) moveBack(ctx context.Context, to store.Checkpoint, first *store.Run, result, reason string) (*api.MoveResult, error) {
	if err := usable(to); err != nil {
		return nil, err
	}
	res := &api.MoveResult{
		Cell: s.cell.Name, CheckpointID: to.ID, Root: to.Root(), Left: s.head.ID, Decision: result,
		Also: []string{}, Notes: []string{},
	}
	undone, err := s.undone(to, first)
	if err != nil {
		return nil, err
	}
	if to.ID == s.head.ID && len(undone) == 0 {
		res.Notes = append(res.Notes, "it was there already")
		return res, nil
	}
	err = s.moveHead(ctx, to, func(tx *store.Tx) error {
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
		s.cell.Head = to.ID
		return s.e.log.Change(tx, s.cell, to, receipt.OpRestore, map[string]string{"reason": printable(reason), detailLeft: res.Left})
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// detailLeft names, in the statement of a restore that decides about no run, the
// state that the cell was in before.
const detailLeft = "left"

// undone lists the runs, newest first, whose work is in the present state and
// not in the one that is moved to.
func (s *session) undone(to store.Checkpoint, first *store.Run) ([]store.Run, error) {
	var out []store.Run
	err := s.e.store.View(func(tx *store.Tx) error {
		runs, err := tx.Runs(s.cell.ID)
		if err != nil {
			return err
		}
		here, err := lineageSet(tx, s.head.ID)
		if err != nil {
			return err
		}
		there, err := lineageSet(tx, to.ID)
		if err != nil {
			return err
		}
		if first != nil {
			out = append(out, *first)
		}
		for i := len(runs) - 1; i >= 0; i-- {
			r := runs[i]
			if r.State != "done" || first != nil && r.ID == first.ID || isUndone(r.Decision) {
				continue
			}
			if here.hasWork(r) && !there.hasWork(r) {
				out = append(out, r)
			}
		}
		return nil
	})
	return out, err
}

// lineage has the states that led to one, and the runs that made them.
type lineage map[string]bool

// hasWork tells whether a run's work is in it, or the part of it that was
// accepted.
func (l lineage) hasWork(r store.Run) bool { return l[r.After] || l[r.ID] }

func lineageSet(tx *store.Tx, tip string) (lineage, error) {
	line, err := tx.Lineage(tip)
	set := lineage{}
	for _, c := range line {
		set[c.ID] = true
		if c.RunID != "" {
			set[c.RunID] = true
		}
	}
	return set, err
}
