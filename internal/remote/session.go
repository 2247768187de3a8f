package remote

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"
)

// CellRuns lists all runs of a cell, the oldest first.
func (e *Engine) CellRuns(ctx context.Context, cell string) ([]api.RunInfo, error) {
	return all(e.client.Cells.Named(cell).Runs(ctx))
}
