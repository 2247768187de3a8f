package engine

import (
	"context"
	"errors"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// stateToAccept finds the captured state that accept means when no run is named:
// the newest state that is not accepted, if no undecided run changed anything after
// it.
func (s *heldCell) stateToAccept(tx *store.Tx) (*store.Checkpoint, error) {
	waiting, err := home.UnacceptedStates(tx, s.Record, s.Head.ID)
	if err != nil || len(waiting) == 0 {
		return nil, err
	}
	line, err := tx.Lineage(s.Head.ID)
	if err != nil {
		return nil, err
	}
	for _, state := range line {
		if state.ID == waiting[0].ID {
			return &waiting[0], nil
		}
		if state.RunID == "" {
			continue
		}
		r, err := tx.Run(state.RunID)
		if err != nil {
			return nil, err
		}
		if home.UndecidedIn(s.Record, r) {
			return nil, nil //nolint:nilnil // that run is accepted, and the state with it
		}
	}
	return nil, nil //nolint:nilnil // not reached: the state is in the lineage
}

// isAcceptedState reports whether the present state is a captured one, or was made from
// one, that is accepted already, and no run waits for a decision.
func (s *heldCell) isAcceptedState(tx *store.Tx) (bool, error) {
	if _, err := home.NewestUndecided(tx, s.Record); !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	line, err := tx.Lineage(s.Head.ID)
	if err != nil {
		return false, err
	}
	for _, state := range line {
		if home.IsCaptured(state) {
			waiting, err := home.IsUnaccepted(tx, s.Record, state)
			return !waiting, err
		}
		if state.RunID != "" {
			return false, nil
		}
	}
	return false, nil
}

// stateBeforeCaptured returns the state before the oldest captured one that is not
// accepted, or none if an undecided run is to be rejected first.
func (s *heldCell) stateBeforeCaptured(tx *store.Tx) (before store.Checkpoint, err error) {
	if _, err := home.NewestUndecided(tx, s.Record); !errors.Is(err, store.ErrNotFound) {
		return before, err
	}
	waiting, err := home.UnacceptedStates(tx, s.Record, s.Head.ID)
	if err != nil || len(waiting) == 0 {
		return before, err
	}
	return tx.Checkpoint(waiting[len(waiting)-1].Parent)
}

// acceptState accepts a captured state and its undecided ancestors.
func (s *heldCell) acceptState(ctx context.Context, state store.Checkpoint, req api.AcceptRequest) (*api.AcceptResult, error) {
	if req.Selects() {
		return nil, api.Refusef(api.CodeNotLast, "`forkcell accept "+s.Record.Name+"` accepts all of it; `forkcell apply` takes --only and --except, too",
			"--only and --except need the run that made the present state, and %s was captured of a live cell", state.ID)
	}
	if len(req.LeaveOut) > 0 {
		return nil, api.Refusef(api.CodeNotLast, "`forkcell accept "+s.Record.Name+"` accepts all of it", "%s was captured of a live cell: nothing before it can be left out", state.ID)
	}
	if err := home.CheckUsable(state); err != nil {
		return nil, err
	}
	p, err := s.propose(state.ID, state.ID, req)
	if err != nil {
		return nil, err
	}
	res := &api.AcceptResult{Cell: s.Record.Name, Decision: accepted, CheckpointID: state.ID, Root: state.Root(), Also: []string{}}
	if res.Elsewhere, err = s.e.CountOutside(ctx, p.before, state); err != nil {
		return nil, err
	}
	err = s.e.Store.Update(func(tx *store.Tx) error {
		also, err := s.acceptEarlier(tx, state.ID, state, s.Head, decision{Reason: req.Reason})
		res.Also = append(res.Also, also...)
		if err != nil {
			return err
		}
		return tx.PutCell(s.Record)
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}
