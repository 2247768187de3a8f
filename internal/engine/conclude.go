package engine

import (
	"context"
	"errors"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// decide concludes a run: the receipt, the decision that its flags made, and the
// cell's head are one transaction.
func (r *run) decide(ctx context.Context, p proof) error {
	begin := time.Now()
	defer func() { r.timings.DecideUS += since(begin) }()
	r.rec.Decision = r.automaticDecision()
	if err := r.waitForEarlier(); err != nil {
		return err
	}
	head := r.after
	if r.rec.Decision == restored {
		head = r.before
		if err := r.e.Workspace.RemoveRefused(r.At, r.refused); err != nil {
			r.noteOutcome()
			return api.Failf(api.CodeConclude, r.LiveError(err), "take the run %s back", r.rec.ID)
		}
	}
	if err := r.move(ctx, head, p); err != nil {
		r.noteOutcome()
		return api.Failf(api.CodeConclude, err, "record the run %s", r.rec.ID)
	}
	failpoint.Hit("run.concluded")
	if r.work != nil && r.sealed.Unchanged {
		return r.work.Discard()
	}
	return nil
}

// move records the run and moves the cell's head.
func (r *run) move(ctx context.Context, head store.Checkpoint, p proof) error {
	// A live directory holds the state after the run, possibly with later changes
	// by others.
	r.Head = r.after
	if r.found != nil {
		r.Head = r.found.Checkpoint
	}
	record := func(tx *store.Tx) error { return r.record(tx, p) }
	err := r.Move(ctx, head, record)
	if long, ok := errors.AsType[*tree.LongPathError](err); ok && r.rec.Decision == restored {
		// The directory stays unchanged, and the run stays pending.
		r.rec.Decision = pending
		r.notes = append(r.notes, "it could not be taken back: "+quote.Line(long.Error()))
		err = r.Move(ctx, r.Head, record)
	}
	return err
}

// automaticDecision returns the decision that the flags of the run make; without such a
// flag it is pending.
func (r *run) automaticDecision() string {
	failing := r.rec.Failed()
	switch {
	case r.givenUp:
		return pending // nothing can be taken back
	case failing && r.rec.RestoreOnFail:
		return restored
	case !failing && r.rec.AcceptOnSuccess:
		return accepted
	}
	return pending
}

// waitForEarlier leaves a run pending that would be accepted by a flag, if undecided work
// before it would be accepted with it, and was not shown.
func (r *run) waitForEarlier() error {
	if r.rec.Decision != accepted {
		return nil
	}
	return r.e.Store.View(func(tx *store.Tx) error {
		_, work, err := home.UndecidedWork(tx, r.Record, r.before.ID)
		if err != nil || len(work) == 0 {
			return err
		}
		r.rec.Decision = pending
		r.notes = append(r.notes, "it was not accepted: the state has earlier undecided work, which `forkcell diff "+r.Record.Name+"` shows and `forkcell accept "+r.Record.Name+"` accepts with it")
		return nil
	})
}

func (r *run) record(tx *store.Tx, p proof) error {
	if r.found != nil {
		if err := r.RecordDrift(tx, r.found); err != nil {
			return err
		}
	}
	if r.after.ID != r.before.ID {
		if err := tx.PutCheckpoint(r.after); err != nil {
			return err
		}
	}
	r.checkPause()
	r.rec.State, r.rec.ReceiptID = "done", store.NewID("rcpt")
	statement, err := r.predicate(p)
	if err != nil {
		return err
	}
	if err := r.e.Evidence.Run(tx, r.Record, statement); err != nil {
		return err
	}
	if err := r.recordPause(tx); err != nil {
		return err
	}
	rec := r.rec
	rec.Pause, rec.Resumed = nil, nil
	rec.Asked, rec.Branch, rec.Degraded, rec.Ceiling = nil, nil, nil, "" // the receipt has them now
	rec.Given, rec.Starter, rec.Loan = nil, "", nil
	rec.Runtime, rec.Paused, rec.Template, rec.Memory, rec.CPUsMilli = "", false, false, 0, 0
	if err := tx.PutRun(rec); err != nil {
		return err
	}
	if r.rec.Decision != accepted {
		return nil
	}
	r.earlier, err = r.acceptEarlier(tx, r.rec.ID, r.after, r.after, decision{Automatic: true})
	return err
}
