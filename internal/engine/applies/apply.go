// Package applies writes what a cell has accepted to directories of the host, and takes
// that back.
//
// It knows no runs of commands, no driver, and nothing of how work is accepted.
package applies

import (
	"context"
	"errors"
	"os"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/aside"
	"github.com/forkcell/forkcell/internal/engine/held"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/engine/merge"
	"github.com/forkcell/forkcell/internal/evidence/statements"
	"github.com/forkcell/forkcell/internal/storage/apply"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/outgoing"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/receipt"
)

// Applier writes accepted changes to directories.
type Applier struct {
	*home.Home
	holder *held.Holder
	masks  *aside.Memo
}

// New makes the Applier of a home.
func New(h *held.Holder, masks *aside.Memo) *Applier { return &Applier{h.Home, h, masks} }

// Apply writes the accepted changes to the source directory, or to another.
func (a *Applier) Apply(ctx context.Context, req api.ApplyRequest) (*api.ApplyResult, error) {
	s, err := a.holder.Hold(ctx, held.Request{Name: req.Cell, For: "apply"})
	if err != nil {
		return nil, err
	}
	defer s.Release()
	return a.ApplyHeld(ctx, s, req)
}

// application is the state of one apply while it is carried out.
type application struct {
	*held.Cell
	masks   *aside.Memo
	req     api.ApplyRequest
	to      string // the directory to write to
	source  bool   // to is the cell's source directory
	base    store.Checkpoint
	theirs  store.Checkpoint
	pick    *secretfiles.Selector
	aside   *aside.Rules
	gate    *outgoing.Gate
	repos   *secretfiles.GitDirs
	leaves  bool // some changes are no part of the work
	target  *fsx.Dir
	merge   merge.Result
	result  *api.ApplyResult
	intent  applyIntent
	changes []tree.Change
	kept    map[string]bool // see KeptNames
	behind  map[string]bool // see leftBehind
}

// applyIntent is the record to write once the files of an apply are written.
type applyIntent struct {
	Target  string      `json:"target"`
	Record  store.Apply `json:"record"`
	Applied string      `json:"applied"`         // the cell's applied state afterwards; "" = unchanged
	State   string      `json:"state,omitempty"` // that state in full, where no run made it
	Undoes  string      `json:"undoes,omitempty"`
	Made    *madeState  `json:"made,omitempty"` // that state's record, where it is new
}

func newMadeState(c store.Checkpoint) *madeState {
	return &madeState{ID: c.ID, CellID: c.CellID, Parent: c.Parent, Layer: c.Layer, Doc: c}
}

// ApplyHeld is Apply of a cell that is held.
func (a *Applier) ApplyHeld(ctx context.Context, s *held.Cell, req api.ApplyRequest) (*api.ApplyResult, error) {
	w := &application{Cell: s, masks: a.masks, req: req}
	if err := w.prepare(); err != nil {
		return nil, err
	}
	if w.target == nil {
		return w.result, nil
	}
	defer w.target.Close()
	if err := w.plan(ctx); err != nil {
		return nil, err
	}
	if err := w.holdBackHazards(ctx); err != nil {
		return nil, err
	}
	if req.DryRun || len(w.merge.Ops) == 0 {
		if req.DryRun {
			return w.result, nil
		}
		return w.result, w.nothingToWrite()
	}
	return w.result, w.write(ctx)
}

// prepare finds the two states to compare and opens the directory.
func (a *application) prepare() error {
	var err error
	if a.to, err = a.Home.Caller.AbsPath(a.req.To); err != nil {
		return err
	}
	a.source = a.req.To == ""
	if a.source {
		a.to = a.Record.Source
		if a.Record.SourceKind == statements.SourceLost {
			return api.Refusef(api.CodeNoSource, "`--to DIR` names a directory", "the record of the source of cell %s is lost", a.Record.Name)
		}
		if a.Record.SourceKind != "dir" {
			return api.Refusef(api.CodeNoSource, "`--to DIR` names a directory", "cell %s has no source directory", a.Record.Name)
		}
	}
	if err := a.refuseOverlap("--to", a.to); err != nil {
		return err
	}
	if a.pick, err = secretfiles.NewSelector(a.req.Only, a.req.Except); err != nil {
		return api.Usagef("patterns are gitignore-style", "bad pattern: %v", err)
	}
	if a.gate, err = home.Gate(a.to, a.req.AllowControl); err != nil {
		return err
	}
	if guest := a.Home.Caller.Guest; guest != nil {
		if err := a.gate.Restrict(guest.AllowControl); err != nil {
			return err
		}
	}
	if err := a.states(); err != nil {
		return err
	}
	a.result = &api.ApplyResult{
		Cell: a.Record.Name, To: a.to, DryRun: a.req.DryRun, Checkpoint: a.theirs.ID,
		Written: []api.ChangeJSON{}, Already: []string{}, Chosen: []api.PathNote{}, Kept: []api.PathNote{}, Dropped: []api.PathNote{},
	}
	if a.Record.Live != "" && a.source && a.Record.Live == a.Record.Source {
		a.result.Already = append(a.result.Already, ".")
		return nil
	}
	a.target, err = a.Home.OpenHost(a.to)
	if refused, ok := errors.AsType[*api.Error](err); ok {
		return refused
	}
	if err != nil && a.source {
		return home.SourceGone(a.Record, err, "`forkcell apply "+quote.Arg(a.Record.Name)+" --to DIR` names where it is now")
	}
	if err != nil {
		return api.Usagef("give an existing directory with --to", "%s: %v", quote.Path(a.to), quote.Cause(err))
	}
	return nil
}

func (a *application) refuseOverlap(flag, path string) error { return a.Home.RefuseOverlap(flag, path) }

// write carries the plan out: intent, files, database.
func (a *application) write(ctx context.Context) error {
	applied, err := a.appliedState(ctx)
	if err != nil {
		return err
	}
	id := store.NewID("apply")
	a.result.ApplyID = id
	a.intent = applyIntent{Target: a.to, Record: store.Apply{
		ID: id, CellID: a.Record.ID, To: a.to, From: a.base.ID, Checkpoint: a.theirs.ID, Partial: applied.ID != a.theirs.ID,
	}}
	if a.source {
		a.intent.Applied = applied.ID
	}
	if applied.ID != a.theirs.ID && applied.ID != a.base.ID {
		a.intent.Made = newMadeState(applied)
	}
	if applied.ID != a.theirs.ID {
		if a.intent.State, err = statements.StateDetail(applied); err != nil {
			return err
		}
	}
	theirs, err := a.Home.Tree(a.theirs, workspace.AreaWorkspace)
	if err != nil {
		return err
	}
	links, err := theirs.Links()
	if err != nil {
		return err
	}
	report, err := execute(ctx, a.Cell, id, a.intent, apply.Plan{
		ID: id, Target: a.to, Ops: a.merge.Ops, Links: links.Groups, Owners: os.Geteuid() == 0,
	}, a.Home.Contents(a.Record, a.theirs, theirs), apply.Options{Keep: a.leftOut})
	for _, k := range report.Kept {
		a.result.Kept = append(a.result.Kept, home.PathNote(k, "holds files that were left out"))
	}
	return err
}

// nothingToWrite records the accepted state as applied when the source already has
// all changes.
func (a *application) nothingToWrite() error {
	if !a.source || a.theirs.ID == a.base.ID || a.selective() {
		return nil
	}
	a.Record.Applied = a.theirs.ID
	return a.Home.Store.Update(func(tx *store.Tx) error {
		if err := tx.PutCell(a.Record); err != nil {
			return err
		}
		return a.Home.Evidence.Change(tx, a.Record, a.Head, receipt.OpApply, map[string]string{"to": quote.UTF8(a.to), "applied": a.theirs.ID})
	})
}
