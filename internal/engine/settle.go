package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/forkcell/forkcell/internal/engine/applies"
	"github.com/forkcell/forkcell/internal/engine/held"
	"github.com/forkcell/forkcell/internal/engine/publication"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// leftovers lists what finishes the work of processes that died, for cells that an engine
// holds.
func leftovers(e *Engine) held.Leftovers {
	return held.Leftovers{
		Finishers: []held.Finisher{held.Switches(), applies.Finisher(), publication.Finisher()},
		Run:       func(ctx context.Context, c *held.Cell, r store.Run) error { return (&heldCell{c, e}).settleRun(ctx, r) },
		Races:     e.settleRaces,
	}
}

// recordStart stores the driver's record of the run's cell, for recovery after a
// crash.
func (r *run) recordStart(rec driver.Record) error {
	r.started.Store(&rec)
	return r.work.RecordInit(rec)
}

// settleRun finishes a run whose supervisor died: it seals the files, and the flags
// of the run decide.
func (s *heldCell) settleRun(ctx context.Context, rec store.Run) error {
	var before store.Checkpoint
	err := s.e.Store.View(func(tx *store.Tx) (err error) {
		before, err = tx.Checkpoint(rec.Before)
		return err
	})
	if err != nil {
		return err
	}
	r := &run{heldCell: s, rec: rec, runState: runState{before: before, after: before}}
	r.total = time.Now()
	work, sealed, lost := s.e.Workspace.Resume(ctx, s.At, before.Layer, rec.ID)
	if lost != nil && (!s.Abandon || ctx.Err() != nil) {
		return lost
	}
	if work == nil && sealed == nil && lost == nil {
		// The process died before anything was started.
		return errors.Join(s.e.Store.DropEvents(rec.ID), s.e.Store.Update(func(tx *store.Tx) error { return tx.DropRun(rec.ID) }))
	}
	r.controlsLost = true
	if rec.Resumed != nil && s.Record.Paused != nil {
		return r.dropResume(work)
	}
	switch {
	case rec.Outcome != "":
	case rec.Pause != nil:
		r.rec.Outcome = succeeded // all that it needs was kept before its process died
	default:
		r.rec.Outcome, r.rec.ExitCode = interrupted, 125
		r.fail("the supervising process died")
	}
	if rec.FinishedAt.IsZero() {
		r.rec.FinishedAt = s.e.Now().UTC()
	}
	if err := r.reap(work); err != nil {
		return err
	}
	if err := s.e.Images().RemoveRun(rec.ID); err != nil {
		r.notes = append(r.notes, "the memory that it had saved could not be removed: "+err.Error())
	}
	if err := s.DropSocket(); err != nil {
		r.notes = append(r.notes, "its socket could not be removed: "+err.Error())
	}
	if lost != nil {
		r.giveUp(lost)
	} else if err := r.resumeSeal(ctx, work, sealed); err != nil {
		return err
	}
	if err := r.reopenJournal(); err != nil {
		return fmt.Errorf("events of %s: %w", rec.ID, err)
	}
	r.closeJournal()
	p, err := r.prove()
	if err != nil {
		return err
	}
	return r.decide(ctx, p)
}

// resumeSeal seals the files that a dead process left, or takes over the state that
// it had sealed. The owner may have changed a live directory since then. Those
// changes do not belong to the run, and must be sealed before the directory is
// rewritten.
func (r *run) resumeSeal(ctx context.Context, work *workspace.Work, sealed *workspace.Sealed) error {
	r.givenUp = r.Abandon && r.Record.Live != "" && !fsx.IsDir(r.Record.Live)
	if sealed == nil {
		r.work = work
		if r.givenUp {
			r.take(workspace.Sealed{Unchanged: true})
			r.fail("its directory is gone; the run's changes there are lost")
			return nil
		}
		if dropped, err := r.dropToMakeRoom(); dropped || err != nil {
			return err
		}
		err := r.seal(ctx)
		if err != nil && r.Abandon && ctx.Err() == nil {
			r.giveUp(err)
			return nil
		}
		return err
	}
	r.take(*sealed)
	r.rec.Decision = r.automaticDecision()
	if r.Record.Live == "" || r.rec.Decision != restored {
		return nil
	}
	var err error
	r.found, err = r.Drift(ctx, r.after)
	return err
}

// dropToMakeRoom drops the work of a run whose cell is being removed by force, if the disk
// is full: to keep it would take more space than there is.
func (r *run) dropToMakeRoom() (dropped bool, err error) {
	if !r.Abandon || r.work == nil {
		return false, nil
	}
	if full, err := r.e.Store.NeedsReserve(); err != nil || !full {
		return false, err
	}
	if err := errors.Join(r.RelockHome(), r.work.Discard()); err != nil {
		return false, err
	}
	r.work = nil
	r.giveUp(errors.New("the disk of the state directory is full"))
	return true, nil
}

// giveUp ends a run whose cell is being removed: files that cannot be sealed must
// not prevent that.
func (r *run) giveUp(err error) {
	r.take(workspace.Sealed{Unchanged: true})
	r.fail("its changes could not be sealed, and were dropped: " + err.Error())
}

// reap waits until no process is left of a run whose supervisor died: a state must
// not be sealed while processes can change it. Other remains on the host are noted.
func (r *run) reap(work *workspace.Work) error {
	var rec driver.Record
	if work != nil {
		var err error
		if rec, err = work.InitRecord(); err != nil {
			return err
		}
	}
	err := r.e.driverOf(r.rec.Runtime).Reap(r.rec.ID, rec, 30*time.Second)
	if errors.Is(err, driver.ErrStillRunning) {
		return fmt.Errorf("its processes have not ended yet: %w", err)
	}
	if err != nil {
		r.notes = append(r.notes, "not everything of it could be removed from the host: "+err.Error())
	}
	return nil
}

// settleInits discards imports whose process died before the cell existed.
func (e *Engine) settleInits(ctx context.Context) error {
	var intents []store.Intent
	err := e.Store.View(func(tx *store.Tx) (err error) {
		intents, err = tx.Intents("")
		return err
	})
	if err != nil {
		return err
	}
	for _, in := range intents {
		if in.Kind != store.IntentInit {
			continue
		}
		lock, err := e.Store.LockCell(ctx, in.CellID, "", "clean up", 0)
		if err != nil {
			continue // another process is making it
		}
		err = e.dropInit(in.ID)
		lock.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// dropInit removes the files of an import. Nothing refers to its layer, if it has
// one; the next gc frees it.
func (e *Engine) dropInit(op string) error {
	if err := e.Workspace.DiscardPending(op); err != nil {
		return err
	}
	return e.Store.Update(func(tx *store.Tx) error { return tx.DropIntent(op) })
}

// dropResume undoes a resume whose process died before it was recorded: the cell is
// still paused.
func (r *run) dropResume(work *workspace.Work) error {
	if err := r.reap(work); err != nil {
		return err
	}
	err := errors.Join(r.e.Images().RemoveRun(r.rec.ID), r.DropSocket(), r.e.Store.DropEvents(r.rec.ID))
	if work != nil {
		err = errors.Join(err, work.Discard())
	}
	if err != nil {
		return err
	}
	return r.e.Store.Update(func(tx *store.Tx) error { return tx.DropRun(r.rec.ID) })
}
