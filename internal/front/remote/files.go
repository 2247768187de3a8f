package remote

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"
)

// Init makes a cell. A daemon on the local socket reads the directory itself; to others
// it is sent.
func (e *Engine) Init(ctx context.Context, r api.InitRequest) (*api.InitResult, error) {
	switch {
	case len(r.ReadOnly) > 0:
		return nil, refuse("--ro")
	case r.Cache == "standard":
		return nil, refuse("init --cache")
	case r.NoDefaultExcludes:
		return nil, refuse("init --no-default-excludes")
	}
	body := api.CreateCell{
		Name: r.Name, Backend: r.Backend, Runtime: r.Runtime, Policy: policyText(r.Policy), Exclude: r.Exclude,
		MountAt: r.MountAt, CellSettings: settingsBody(r.Settings),
	}
	if !e.client.Local() {
		return e.initByUpload(ctx, r, body)
	}
	body.Source, body.Sole = &api.Source{Path: e.path(r.From)}, r.Sole
	return e.create(ctx, body)
}

// Refresh brings changes of the source directory into a cell.
func (e *Engine) Refresh(ctx context.Context, r api.RefreshRequest) (*api.RefreshResult, error) {
	if !e.client.Local() {
		return e.refreshFromHere(ctx, r)
	}
	return asEngineError(e.client.Cells.Named(r.Cell).Refresh(ctx, r))
}

// Accept accepts a run, and may write it to the source directory.
func (e *Engine) Accept(ctx context.Context, r api.AcceptRequest) (*api.AcceptResult, error) {
	if r.Apply && !e.client.Local() {
		return e.acceptHere(ctx, r)
	}
	r.Applier = api.ApplyRequest{} // the daemon's own
	return asEngineError(e.client.Cells.Named(r.Cell).Accept(ctx, r))
}

// Apply writes accepted work to the source directory, or to another one.
func (e *Engine) Apply(ctx context.Context, r api.ApplyRequest) (*api.ApplyResult, error) {
	if !e.client.Local() {
		return e.applyHere(ctx, r)
	}
	r.To = e.path(r.To)
	return asEngineError(e.client.Cells.Named(r.Cell).Apply(ctx, r))
}

// Undo takes the last apply back.
func (e *Engine) Undo(ctx context.Context, r api.UndoRequest) (*api.ApplyResult, error) {
	if !e.client.Local() {
		return e.undoHere(ctx, r)
	}
	return asEngineError(e.client.Cells.Named(r.Cell).Undo(ctx, r))
}
