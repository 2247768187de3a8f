package remote

import (
	"context"

	"github.com/forkcell/forkcell/client"
	"github.com/forkcell/forkcell/internal/api"
)

// Checkpoint names the present state.
func (e *Engine) Checkpoint(ctx context.Context, cell, name string) (*api.CheckpointResult, error) {
	return asEngineError(e.client.Cells.Named(cell).Checkpoint(ctx, client.Checkpoint{Name: name}))
}

// CheckpointMemory captures the files and the memory of a live cell.
func (e *Engine) CheckpointMemory(ctx context.Context, cell, name string) (*api.CheckpointResult, error) {
	return asEngineError(e.client.Cells.Named(cell).Checkpoint(ctx, client.Checkpoint{Name: name, Memory: true}))
}

// Restore goes back to a state.
func (e *Engine) Restore(ctx context.Context, r api.RestoreRequest) (*api.MoveResult, error) {
	return asEngineError(e.client.Cells.Named(r.Cell).Restore(ctx, r))
}

// Reject rejects a run.
func (e *Engine) Reject(ctx context.Context, cell, run, reason string) (*api.MoveResult, error) {
	return asEngineError(e.client.Cells.Named(cell).Reject(ctx, client.Reject{Run: run, Reason: reason}))
}
