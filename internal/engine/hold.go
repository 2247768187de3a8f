package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// hold takes a cell's lock, and first finishes or undoes the work of a process that
// died.
func (e *Engine) hold(ctx context.Context, name, what string, wait time.Duration) (*held, error) {
	return e.holdFor(ctx, name, what, wait, false)
}

func (e *Engine) holdFor(ctx context.Context, name, what string, wait time.Duration, abandon bool) (*held, error) {
	return e.holdWith(ctx, name, what, wait, &held{abandon: abandon})
}

// holdWith fills a session that says how the cell is held.
func (e *Engine) holdWith(ctx context.Context, name, what string, wait time.Duration, s *held) (*held, error) {
	c, err := e.FindCell(name)
	if err != nil {
		return nil, err
	}
	if err := e.makeRoom(what); err != nil {
		return nil, err
	}
	lock, err := e.Store.LockCell(ctx, c.ID, c.Name, what, wait)
	if err != nil {
		// Waiting does not help a caller who expects another revision.
		return nil, cmp.Or(e.checkRevision(c), e.busyError(c, what, err))
	}
	s.e, s.cell, s.cellLock = e, c, lock
	if err := s.open(ctx, name, what); err != nil {
		s.release()
		return nil, err
	}
	if s.races && what != heldByRemove {
		s.unlockHome()
		e.settleRaces(ctx)
		if err := s.relockHome(); err != nil {
			s.release()
			return nil, err
		}
	}
	return s, nil
}

// makeRoom checks the free disk space. A new command needs more than the reserve;
// everything else may use the reserve.
func (e *Engine) makeRoom(what string) error {
	if what == "run" || what == home.HeldByStart {
		return home.Explain(e.Store.RefuseFull())
	}
	return e.Store.MakeRoom()
}

// codeLive is the code of errors about a cell that is live.
const codeLive = api.CodeLive

// busyError names the process that holds a cell, and what the caller can do.
func (e *Engine) busyError(c store.Cell, wanted string, err error) error {
	name := c.Name
	if busy, ok := errors.AsType[*store.BusyError](err); ok {
		text := fmt.Sprintf("cell %s is busy: %v", name, busy)
		switch h := busy.Holder; {
		case h.What == home.HeldByStart && h.Ending:
			text = fmt.Sprintf("cell %s is being stopped by its supervisor, process %d", name, h.PID)
		case h.What == home.HeldByStart:
			return &api.Error{
				Kind: api.Busy, Code: codeLive, Err: err,
				Message: fmt.Sprintf("cell %s is live: its supervisor is process %d, since %s", name, h.PID, h.Since.UTC().Format(time.RFC3339)),
				Hint:    fmt.Sprintf("%s, `forkcell stop %s` ends it", e.useOf(c), name),
			}
		}
		hint := "`forkcell status " + name + "` shows when it has ended"
		if wanted == "run" || wanted == home.HeldByStart {
			hint = "give --wait to wait for it"
		}
		return &api.Error{Kind: api.Busy, Code: api.CodeBusy, Message: text, Hint: hint, Err: err}
	}
	return err
}

// useOf names the command that works with a live cell: nothing is executed in one that
// is paused, or a template.
func (e *Engine) useOf(c store.Cell) string {
	runs, err := e.UnfinishedRuns(c)
	switch {
	case err != nil || len(runs) == 0:
	case runs[len(runs)-1].Paused:
		return "`forkcell resume " + c.Name + "` continues it"
	case runs[len(runs)-1].Template:
		return "`forkcell branch " + c.Name + "` makes a cell to use"
	}
	return "`forkcell exec " + c.Name + " -- CMD` runs a command in it"
}

// mayRunIn refuses a caller who may not run commands in a cell with the backend delta:
// what they write is in its directory at once.
func (e *Engine) mayRunIn(c store.Cell) error {
	if err := e.mayMakeLike(c); err != nil || c.Live == "" {
		return err
	}
	if c.Live == e.Workspace.LivePath(c.ID) {
		return nil // that of a fork is in the home
	}
	return e.Caller.MayUsePath(c.Live)
}

// mayMakeLike refuses a caller who may not make a cell with the backend of another one.
func (e *Engine) mayMakeLike(c store.Cell) error {
	if c.Live == "" {
		return nil
	}
	return e.Caller.MayDecide("a cell with the backend delta")
}

func (s *held) open(ctx context.Context, name, what string) error {
	var err error
	if s.homeLock, err = s.e.Store.LockHome(false); err != nil {
		return err
	}
	unfinished, err := s.recheck()
	if err != nil {
		return err
	}
	if s.cell.Name != name {
		return api.Missing("cell", name, "it was renamed or removed meanwhile")
	}
	if err := s.e.mayRunIn(s.cell); err != nil {
		return err
	}
	if unfinished {
		if err := s.settle(ctx); err != nil {
			return err
		}
	}
	if err := s.e.checkRevision(s.cell); err != nil {
		return err
	}
	return s.refusePaused(what)
}

// checkRevision refuses a cell that does not have the revision that the caller expects.
func (e *Engine) checkRevision(c store.Cell) error {
	if e.Caller.Expect == nil {
		return nil
	}
	return e.Store.View(func(tx *store.Tx) error { return checkRevision(tx, c, e.Caller.Expect) })
}

// checkRevision refuses a cell that does not have a revision; nil is any.
func checkRevision(tx *store.Tx, c store.Cell, expect *int64) error {
	return unchangedBut(tx, c, expect, 0)
}

// unchangedBut is unchanged for a cell about which the caller has made statements since.
func unchangedBut(tx *store.Tx, c store.Cell, expect *int64, own int) error {
	if expect == nil {
		return nil
	}
	now, err := tx.LastOfCell(c.ID, own)
	if err == nil && now != *expect {
		err = api.Refusef(api.CodeChanged, "read the cell again", "cell %s changed: its revision is %d, not %d", c.Name, now, *expect)
	}
	return err
}

// recheck reads the cell again and reports whether work on it was left unfinished.
func (s *held) recheck() (unfinished bool, err error) {
	err = s.e.Store.View(func(tx *store.Tx) error {
		if err := s.read(tx); err != nil {
			return err
		}
		if unfinished, err = tx.HasUnfinished(s.cell.ID); err != nil {
			return err
		}
		if s.races, err = tx.HasIntent(store.IntentRace); err != nil {
			return err
		}
		return s.e.Evidence.KeyUsable(tx)
	})
	if err == nil {
		s.at, err = s.e.Layout(s.cell)
	}
	return unfinished, err
}
