package remote

import (
	"context"

	"github.com/forkcell/forkcell/client"
	"github.com/forkcell/forkcell/internal/api"
)

// CellRuns lists all runs of a cell, the oldest first.
func (e *Engine) CellRuns(ctx context.Context, cell string) ([]api.RunInfo, error) {
	return all(e.client.Cells.Named(cell).Runs(ctx))
}

// Turns lists the turns of a session.
func (e *Engine) Turns(ctx context.Context, cell string) (*api.TurnList, error) {
	session := e.client.Sessions.Named(cell)
	info, err := told(session.Show(ctx))
	if err != nil {
		return nil, err
	}
	turns, err := all(session.Turns(ctx))
	return &api.TurnList{Cell: cell, Turns: append([]api.TurnInfo{}, turns...), RunIDs: info.RunIDs}, err
}

// Rewind takes a session back to a turn, and starts nothing.
func (e *Engine) Rewind(ctx context.Context, r api.RewindRequest) (*api.RewindResult, error) {
	res, err := told(e.client.Sessions.Named(r.Cell).Rewind(ctx, client.Rewind{To: &r.To, Reason: r.Reason, NoStart: true}))
	if err != nil {
		return nil, err
	}
	return &res.RewindResult, nil
}
