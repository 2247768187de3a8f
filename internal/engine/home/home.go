// Package home is a state directory as one caller uses it: the database, the
// workspaces and the log, and the ways to find cells, states and runs in them by the
// names that people use.
//
// It reads, and changes nothing. It knows no transaction and starts nothing.
package home

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/evidence/statements"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// Home is a state directory and its caller.
type Home struct {
	Store     *store.Store // nil for a home that does not exist, which reads as empty
	Workspace *workspace.Store
	Evidence  *statements.Log
	Caller    caller.Caller
	Path      string           // the path, which may not exist
	Version   string           // of this program
	Now       func() time.Time // the wall clock; it may jump
	Logger    *slog.Logger     // gets messages for the operator that no caller gets
}

// As returns the home for another caller.
func (h *Home) As(c caller.Caller) *Home {
	other := *h
	if c.Closed == nil {
		c.Closed = h.WrittenDirs
	}
	other.Caller, other.Evidence = c, h.Evidence.For(c.Actor, c.Request)
	return &other
}

// View reads the database; a home that does not exist has nothing in it.
func (h *Home) View(fn func(*store.Tx) error) error {
	if h.Store == nil {
		return store.ErrNotFound
	}
	return h.Store.View(fn)
}

// CheckUsable refuses a state whose bytes gc has freed.
func CheckUsable(c store.Checkpoint) error {
	if c.Freed {
		return api.Refusef(api.CodeFreed, "its receipt remains: `forkcell receipt list`", "checkpoint %s was freed by gc", c.ID)
	}
	return nil
}

// Layout returns a cell as the workspace describes it.
func (h *Home) Layout(c store.Cell) (workspace.Cell, error) {
	rules, err := secretfiles.New(secretfiles.Options{NoDefaults: c.Rules.NoDefaults, Extra: c.Rules.Extra, IgnoreFile: c.Rules.IgnoreFile, Above: c.Rules.Above})
	if err != nil {
		return workspace.Cell{}, fmt.Errorf("secret rules of %s: %w", c.Name, err)
	}
	return workspace.Cell{
		ID: c.ID, Backend: workspace.Backend(c.Backend), MountAt: c.MountAt, Live: c.Live, Rules: rules, Kept: c.Kept,
	}, nil
}

// NewCheckpoint returns the record of a sealed state.
func (h *Home) NewCheckpoint(c store.Cell, parent, kind, runID string, sealed workspace.Sealed) store.Checkpoint {
	areas := map[string]store.Area{}
	for name, a := range sealed.Areas {
		areas[name] = store.Area{Root: a.Root.String(), MetaRoot: a.Meta.String(), Files: a.Files, Dirs: a.Dirs, Bytes: a.Bytes}
	}
	return store.Checkpoint{
		ID: store.NewID("chk"), CellID: c.ID, Parent: parent, Layer: sealed.Layer, RunID: runID, Kind: kind,
		Areas: areas, OwnBytes: sealed.Bytes, CreatedAt: h.Now().UTC(),
	}
}

// WithProgress lets the workspace report to the caller.
func (h *Home) WithProgress(ctx context.Context) context.Context {
	return workspace.WithProgress(ctx, func(p workspace.Progress) {
		h.Caller.Report(api.Progress{What: p.What, Files: p.Files, Bytes: p.Bytes, CurrentPath: p.Path})
	})
}

// IsDiskFull reports whether a failure came from a full disk.
func IsDiskFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, store.ErrFull) }

// Explain adds a message and a hint to a failure that has none: a damaged database,
// a missing record in it, or a full disk.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*api.Error](err); ok && e.Hint != "" {
		return err
	}
	e := &api.Error{Message: err.Error(), Err: err}
	switch {
	case IsDiskFull(err):
		e.Kind, e.Code = api.Failed, api.CodeDiskFull
		e.Message = "the disk of the state directory is full: " + err.Error()
		e.Hint = "free some space there; `forkcell rm --force --now CELL` and `forkcell gc --removed` work on a full disk"
	case errors.Is(err, store.ErrDatabase):
		e.Kind, e.Code, e.Hint = api.Refused, api.CodeHome, "`forkcell recover` rebuilds it from the signed log"
	case errors.Is(err, store.ErrNotFound):
		e.Kind, e.Code = api.Refused, api.CodeHome
		e.Message = "the database lacks a record that another one refers to"
		e.Hint = "`forkcell recover` puts it back, or names what is lost"
	default:
		return err
	}
	return e
}
