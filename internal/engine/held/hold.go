package held

import (
	"cmp"
	"context"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// Holder holds cells of a home.
type Holder struct {
	*home.Home
	// Left ends what processes that died left.
	Left Leftovers
}

// Request says which cell to hold, and how.
type Request struct {
	Name string
	For  string        // the verb, as the cell's lock says it
	Wait time.Duration // for another process that holds the cell

	// Abandon reports whether to give up an operation that cannot be finished
	// because its directory is gone.
	Abandon bool
	// Resumes reports whether the cell is held to end its pause.
	Resumes bool
}

// Hold takes a cell's lock, and first finishes or undoes the work of a process that
// died.
func (h *Holder) Hold(ctx context.Context, req Request) (*Cell, error) {
	c, err := h.FindCell(req.Name)
	if err != nil {
		return nil, err
	}
	if err := h.makeRoom(req.For); err != nil {
		return nil, err
	}
	lock, err := h.Store.LockCell(ctx, c.ID, c.Name, req.For, req.Wait)
	if err != nil {
		// Waiting does not help a caller who expects another revision.
		return nil, cmp.Or(h.CheckRevision(c), h.BusyError(c, req.For, err))
	}
	s := &Cell{Home: h.Home, Record: c, Abandon: req.Abandon, resumes: req.Resumes, cellLock: lock}
	races, err := h.open(ctx, s, req)
	if err == nil && races && req.For != home.HeldByRemove {
		s.UnlockHome()
		h.Left.Races(ctx)
		err = s.RelockHome()
	}
	if err != nil {
		s.Release()
		return nil, err
	}
	return s, nil
}

// makeRoom checks the free disk space. A new command needs more than the reserve;
// everything else may use the reserve.
func (h *Holder) makeRoom(what string) error {
	if what == "run" || what == home.HeldByStart {
		return home.Explain(h.Store.RefuseFull())
	}
	return h.Store.MakeRoom()
}

// open takes the home's lock, and reads the cell. It reports whether the home has races
// that are under way or were cut off.
func (h *Holder) open(ctx context.Context, s *Cell, req Request) (races bool, err error) {
	if err := s.RelockHome(); err != nil {
		return false, err
	}
	unfinished, races, err := s.recheck()
	if err != nil {
		return false, err
	}
	if s.Record.Name != req.Name {
		return false, api.Missing("cell", req.Name, "it was renamed or removed meanwhile")
	}
	if err := h.MayRunIn(s.Record); err != nil {
		return false, err
	}
	if unfinished {
		if err := h.Left.settle(ctx, s); err != nil {
			return false, err
		}
	}
	if err := h.CheckRevision(s.Record); err != nil {
		return false, err
	}
	return races, s.refusePaused(req.For)
}

// recheck reads the cell again, and reports whether work on it was left unfinished, and
// whether the home has races.
func (s *Cell) recheck() (unfinished, races bool, err error) {
	err = s.Home.Store.View(func(tx *store.Tx) error {
		if err := s.read(tx); err != nil {
			return err
		}
		if unfinished, err = tx.HasUnfinished(s.Record.ID); err != nil {
			return err
		}
		if races, err = tx.HasIntent(store.IntentRace); err != nil {
			return err
		}
		return s.Home.Evidence.KeyUsable(tx)
	})
	if err == nil {
		s.At, err = s.Home.Layout(s.Record)
	}
	return unfinished, races, err
}

// keptWhilePaused reports whether a verb may hold a paused cell: it leaves the state of
// the cell alone, or ends the pause.
func keptWhilePaused(what string) bool {
	switch what {
	case "accept", "apply", "checkpoint", "finish", "publish", "rename", "settle", home.HeldByRemove, home.HeldByExpiry, home.HeldByStop:
		return true
	}
	return false
}

// refusePaused refuses a verb that would change the files of a paused cell, or start
// something in it.
func (s *Cell) refusePaused(what string) error {
	if s.Record.Paused == nil || s.resumes || keptWhilePaused(what) {
		return nil
	}
	return api.Refusef(api.CodePaused, "`forkcell resume "+s.Record.Name+"` continues it, `forkcell stop "+s.Record.Name+"` ends it", "cell %s is paused", s.Record.Name)
}
