package applies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/held"
	"github.com/forkcell/forkcell/internal/engine/merge"
	"github.com/forkcell/forkcell/internal/storage/apply"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/receipt"
)

// appliedState returns the state that the source has after the apply. With a
// selection it is a new state: the last applied one with the selected changes.
func (a *application) appliedState(ctx context.Context) (store.Checkpoint, error) {
	if !a.source || !a.selective() {
		return a.theirs, nil
	}
	edits, err := merge.Part(ctx, a.Cell, a.base, a.theirs, a.selects, apply.Ours)
	if err != nil {
		return a.theirs, err
	}
	return a.Derive(ctx, a.base, "applied", edits)
}

// execute writes files under an intent and then records what was done.
func execute(ctx context.Context, s *held.Cell, id string, in applyIntent, p apply.Plan, src apply.Source, opt apply.Options) (apply.Report, error) {
	err := s.Home.Store.Update(func(tx *store.Tx) error { return tx.PutIntent(id, s.Record.ID, kindApply, in) })
	if err != nil {
		return apply.Report{}, err
	}
	journal, err := applyJournal(s, id, true)
	if err != nil {
		return apply.Report{}, errors.Join(err, s.DropIntent(id))
	}
	defer journal.Close()
	report, err := apply.Execute(ctx, p, src, journal, opt)
	failpoint.Hit("apply.executed")
	if errors.Is(err, apply.ErrUnfinished) {
		// The intent stays: the next command takes it back, or finishes it.
		return report, unfinishedError(in.Target, report.Committed, err)
	}
	if err != nil {
		if bad, ok := errors.AsType[*apply.ConflictError](err); ok {
			return report, errors.Join(merge.Refuse(in.Target, bad.Conflicts), s.DropIntent(id))
		}
		return report, errors.Join(api.Failf(api.CodeApply, err, "write to %s; it is as it was", quote.Path(in.Target)), s.DropIntent(id))
	}
	return report, commitApply(s, id, in)
}

func unfinishedError(target string, committed bool, err error) error {
	e := &api.Error{Kind: api.Failed, Code: api.CodeUnfinished, Err: err}
	if committed {
		e.Message = fmt.Sprintf("write to %s; the files are written, but the cleanup failed: %v", quote.Path(target), err)
		e.Hint = "fix the cause; then any command on the cell finishes it"
		return e
	}
	e.Message = fmt.Sprintf("write to %s; it may be half written, which could not be taken back: %v", quote.Path(target), err)
	e.Hint = "fix the cause; then any command on the cell takes it back. Change nothing there before"
	return e
}

// commitApply records an apply whose files are written.
func commitApply(s *held.Cell, id string, in applyIntent) error {
	op := receipt.OpApply
	return s.Home.Store.Update(func(tx *store.Tx) error {
		rec := in.Record
		rec.ID, rec.CellID = id, s.Record.ID
		if in.Undoes != "" {
			op = receipt.OpUndo
			rec.ID, rec.Undone = in.Undoes, true
		}
		if err := tx.PutApply(rec); err != nil {
			return err
		}
		if in.Made != nil {
			if err := tx.PutCheckpoint(in.Made.checkpoint()); err != nil {
				return err
			}
		}
		if in.Applied != "" {
			s.Record.Applied = in.Applied
		}
		if err := tx.PutCell(s.Record); err != nil {
			return err
		}
		doc, err := json.Marshal(rec)
		if err != nil {
			return err
		}
		if err := tx.DropIntent(id); err != nil {
			return err
		}
		return s.Home.Evidence.Change(tx, s.Record, s.Head, op, map[string]string{
			"apply": string(doc), "apply_id": rec.ID, "to": quote.UTF8(in.Target), "applied": in.Applied, "state": in.State,
		})
	})
}

func applyJournal(s *held.Cell, id string, create bool) (*fsx.Dir, error) {
	if create {
		if err := s.Home.Store.Dir().MkdirAll("applies/"+id, 0o700); err != nil {
			return nil, err
		}
	}
	return s.Home.Store.Dir().OpenDir("applies/" + id)
}

// kindApply is the kind of the intent of an apply.
const kindApply = "apply"

// Finisher returns the finisher of applies.
func Finisher() held.Finisher {
	return held.Finisher{Kind: kindApply, Finish: finishApply, Needs: func(in store.Intent, needed held.Holdings) error {
		var a applyIntent
		err := json.Unmarshal(in.Doc, &a)
		needed.States[a.Applied], needed.States[a.Record.From] = true, true
		if a.Made != nil {
			needed.Layers[a.Made.Layer] = true
		}
		return err
	}}
}

// finishApply ends an apply that its process did not finish: it takes the apply
// back, or records it.
func finishApply(ctx context.Context, s *held.Cell, in store.Intent) error {
	var doc applyIntent
	if err := json.Unmarshal(in.Doc, &doc); err != nil {
		return err
	}
	journal, err := applyJournal(s, in.ID, false)
	if errors.Is(err, os.ErrNotExist) {
		return s.DropIntent(in.ID)
	}
	if err != nil {
		return err
	}
	defer journal.Close()
	back, err := apply.Recover(ctx, doc.Target, journal)
	if errors.Is(err, apply.ErrTarget) {
		if s.Abandon {
			return s.DropIntent(in.ID)
		}
		return s.MissingDir(doc.Target, err)
	}
	if err != nil {
		return fmt.Errorf("recover the apply to %s: %w", quote.Path(doc.Target), err)
	}
	if back {
		return s.DropIntent(in.ID)
	}
	return commitApply(s, in.ID, doc)
}
