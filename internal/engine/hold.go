package engine

import (
	"cmp"
	"context"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// hold takes a cell's lock, and first finishes or undoes the work of a process that
// died.
func (e *Engine) hold(ctx context.Context, name, what string, wait time.Duration) (*heldCell, error) {
	return e.holdFor(ctx, name, what, wait, false)
}

func (e *Engine) holdFor(ctx context.Context, name, what string, wait time.Duration, abandon bool) (*heldCell, error) {
	return e.holdWith(ctx, name, what, wait, &heldCell{Abandon: abandon})
}

// holdWith fills a session that says how the cell is held.
func (e *Engine) holdWith(ctx context.Context, name, what string, wait time.Duration, s *heldCell) (*heldCell, error) {
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
		return nil, cmp.Or(e.CheckRevision(c), e.BusyError(c, what, err))
	}
	s.e, s.Record, s.cellLock = e, c, lock
	if err := s.open(ctx, name, what); err != nil {
		s.Release()
		return nil, err
	}
	if s.races && what != home.HeldByRemove {
		s.UnlockHome()
		e.settleRaces(ctx)
		if err := s.RelockHome(); err != nil {
			s.Release()
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

func (s *heldCell) open(ctx context.Context, name, what string) error {
	var err error
	if s.homeLock, err = s.e.Store.LockHome(false); err != nil {
		return err
	}
	unfinished, err := s.recheck()
	if err != nil {
		return err
	}
	if s.Record.Name != name {
		return api.Missing("cell", name, "it was renamed or removed meanwhile")
	}
	if err := s.e.MayRunIn(s.Record); err != nil {
		return err
	}
	if unfinished {
		if err := s.settle(ctx); err != nil {
			return err
		}
	}
	if err := s.e.CheckRevision(s.Record); err != nil {
		return err
	}
	return s.refusePaused(what)
}

// recheck reads the cell again and reports whether work on it was left unfinished.
func (s *heldCell) recheck() (unfinished bool, err error) {
	err = s.e.Store.View(func(tx *store.Tx) error {
		if err := s.read(tx); err != nil {
			return err
		}
		if unfinished, err = tx.HasUnfinished(s.Record.ID); err != nil {
			return err
		}
		if s.races, err = tx.HasIntent(store.IntentRace); err != nil {
			return err
		}
		return s.e.Evidence.KeyUsable(tx)
	})
	if err == nil {
		s.At, err = s.e.Layout(s.Record)
	}
	return unfinished, err
}
