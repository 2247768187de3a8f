package cell

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/store"
)

// Checkpoint names the present state. Every run ends with a sealed state, so the
// state of an idle cell is already a checkpoint. A live cell is captured.
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
