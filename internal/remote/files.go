package remote

import (
	"context"

	"github.com/forkcell/forkcell/client"
	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/quote"
)

// Init makes a cell. A daemon on the local socket reads the directory itself; to others
// it is sent.
func (e *Engine) Init(ctx context.Context, r api.InitRequest) (*api.InitResult, error) {
	if len(r.ReadOnly) > 0 || r.Cache == "standard" || r.NoDefaultExcludes {
		return nil, unsupported("use it on the machine of the daemon", "init: a daemon takes no --ro, --cache and --no-default-excludes")
	}
	body := api.CreateCell{
		Name: r.Name, Backend: r.Backend, Runtime: r.Runtime, Policy: policyText(r.Policy), Exclude: r.Exclude,
		MountAt: r.MountAt, CellSettings: settingsBody(r.Settings),
	}
	if !e.client.Local() {
		return e.initByUpload(ctx, r, body)
	}
	body.Source = &api.Source{Path: e.path(r.From)}
	return e.create(ctx, body)
}

// onlyLocal refuses a verb that needs the source directory of a cell, unless the daemon
// sees the same files.
func (e *Engine) onlyLocal(verb string) error {
	if e.client.Local() {
		return nil
	}
	return unsupported("use it on the machine of the daemon; export writes an archive here", "%s: %s has no access to the files of this machine", verb, quote.Line(e.url))
}

// Refresh brings changes of the source directory into a cell.
func (e *Engine) Refresh(ctx context.Context, r api.RefreshRequest) (*api.RefreshResult, error) {
	if err := e.onlyLocal("refresh"); err != nil {
		return nil, err
	}
	return told(e.client.Cells.Named(r.Cell).Refresh(ctx, client.Refresh{OnConflict: r.OnConflict}))
}

// Accept accepts a run, and may write it to the source directory.
func (e *Engine) Accept(ctx context.Context, r api.AcceptRequest) (*api.AcceptResult, error) {
	if r.Apply {
		if err := e.onlyLocal("accept --apply"); err != nil {
			return nil, err
		}
	}
	return told(e.client.Cells.Named(r.Cell).Accept(ctx, client.Accept{
		Run: r.Run, Only: r.Only, Except: r.Except, Reason: r.Reason, Force: r.Force, Apply: r.Apply,
	}))
}

// Apply writes accepted work to the source directory, or to another one.
func (e *Engine) Apply(ctx context.Context, r api.ApplyRequest) (*api.ApplyResult, error) {
	if err := e.onlyLocal("apply"); err != nil {
		return nil, err
	}
	return told(e.client.Cells.Named(r.Cell).Apply(ctx, client.Apply{
		To: e.path(r.To), DryRun: r.DryRun, Only: r.Only, Except: r.Except, OnConflict: r.OnConflict, AllowControl: r.AllowControl, AllowSetuid: r.AllowSetuid,
	}))
}

// Undo takes the last apply back.
func (e *Engine) Undo(ctx context.Context, r api.UndoRequest) (*api.ApplyResult, error) {
	if err := e.onlyLocal("apply --undo"); err != nil {
		return nil, err
	}
	return told(e.client.Cells.Named(r.Cell).Undo(ctx, client.Undo{Except: r.Except, OnConflict: r.OnConflict, DryRun: r.DryRun}))
}

// CopyIn is for engines on a home.
func (e *Engine) CopyIn(context.Context, api.CopyRequest) (*api.CopyResult, error) {
	return nil, unsupported("forkcell exec -i CELL -- tar x takes an archive", "cp: files cannot be copied to a daemon")
}

// CopyOut is for engines on a home.
func (e *Engine) CopyOut(context.Context, api.CopyRequest) (*api.CopyResult, error) {
	return nil, unsupported("forkcell export writes an archive of the whole state", "cp: files cannot be copied from a daemon")
}
