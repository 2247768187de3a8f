package cell

import (
	"context"
	"errors"

	"github.com/forkcell/forkcell/receipt"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/store"
)

// Checkpoint names the present state. Every run ends sealed, so an idle cell's
// state is a checkpoint already; a live cell's is captured.
func (e *Engine) Checkpoint(ctx context.Context, cell, name string) (*api.CheckpointResult, error) {
	if name != "" {
		if err := checkName("checkpoint", name); err != nil {
			return nil, err
		}
	}
	if res, err := e.checkpointLive(ctx, cell, name); res != nil || err != nil {
		return res, err
	}
	s, err := e.hold(ctx, cell, "checkpoint", 0)
	if err != nil {
		return nil, err
	}
	defer s.release()
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	if name != "" {
		if err := e.store.Update(func(tx *store.Tx) error { return s.name(tx, name) }); err != nil {
			return nil, err
		}
	}
	return &api.CheckpointResult{Cell: cell, CheckpointID: s.head.ID, Root: s.head.Root(), MetaRoot: s.head.MetaRoot(), Name: name}, nil
}

// name gives the head a name; a name never moves silently from one state to
// another.
func (s *session) name(tx *store.Tx, name string) error {
	old, err := tx.Named(s.cell.ID, name)
	if err == nil && old.ID == s.head.ID {
		return nil
	}
	if err := s.claim(tx, name); err != nil {
		return err
	}
	return s.e.log.Change(tx, s.cell, s.head, receipt.OpCheckpoint, map[string]string{"name": name})
}

// claim takes a name for the head, unless it is another's.
func (s *session) claim(tx *store.Tx, name string) error {
	old, err := tx.Named(s.cell.ID, name)
	if err == nil {
		return api.Refusef(api.CodeNameTaken, "choose another name", "checkpoint name %s is in use for %s", name, old.ID)
	}
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return tx.Name(s.cell.ID, name, s.head.ID)
}
