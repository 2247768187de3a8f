package engine

import (
	"context"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// Checkpoint names the present state. Every run ends with a sealed state, so the
// state of an idle cell is already a checkpoint. A live cell is captured.
func (e *Engine) Checkpoint(ctx context.Context, cell, name string) (*api.CheckpointResult, error) {
	if name != "" {
		if err := home.CheckName("checkpoint", name); err != nil {
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
	defer s.Release()
	if err := s.CatchUp(ctx); err != nil {
		return nil, err
	}
	if name != "" {
		if err := e.Store.Update(func(tx *store.Tx) error { return s.Name(tx, name) }); err != nil {
			return nil, err
		}
	}
	return &api.CheckpointResult{Cell: cell, CheckpointID: s.Head.ID, Root: s.Head.Root(), MetaRoot: s.Head.MetaRoot(), Name: name}, nil
}

// Checkpoints lists the states that a cell has made, and its head, the oldest first.
func (e *Engine) Checkpoints(_ context.Context, cell string) ([]api.CheckpointInfo, error) {
	c, err := e.FindCell(cell)
	if err != nil {
		return nil, err
	}
	var list []api.CheckpointInfo
	err = e.View(func(tx *store.Tx) error {
		names, err := tx.Names("")
		if err != nil {
			return err
		}
		states, err := tx.Checkpoints(c.ID)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(states, func(s store.Checkpoint) bool { return s.ID == c.Head }) {
			head, err := tx.Checkpoint(c.Head)
			if err != nil {
				return err
			}
			states = append([]store.Checkpoint{head}, states...)
		}
		for _, s := range states {
			list = append(list, api.CheckpointInfo{
				CheckpointID: s.ID, Parent: s.Parent, Kind: s.Kind, Root: s.Root(), MetaRoot: s.MetaRoot(), RunID: s.RunID,
				Names: append([]string{}, names[s.ID]...), Head: s.ID == c.Head, Freed: s.Freed, Memory: s.Memory, CreatedAt: s.CreatedAt,
			})
		}
		return nil
	})
	return list, err
}
