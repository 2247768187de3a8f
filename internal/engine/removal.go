package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/held"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// holdToRemove holds a cell without the home's lock. Many cells are removed at once:
// who has that lock and waits for it again also waits for a gc that came between,
// which waits for the first one.
func (e *Engine) holdToRemove(ctx context.Context, name string, wait time.Duration, abandon bool) (*heldCell, error) {
	s, err := e.holdBy(ctx, held.Request{Name: name, For: home.HeldByRemove, Wait: wait, Abandon: abandon})
	if err != nil {
		return nil, err
	}
	s.UnlockHome()
	return s, nil
}

// removeHeld removes cells that are held. With now their states are not kept. also runs in the same transaction. race is
// the id of the race that they belong to, if any.
func (e *Engine) removeHeld(held []*heldCell, race string, now bool, also func(*store.Tx) error) error {
	lock, err := e.Store.LockHome(false)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	var paused []*store.Pause
	err = e.Store.Update(func(tx *store.Tx) error {
		paused = nil
		for _, s := range held {
			paused = append(paused, s.Record.Paused)
			e.markRemoved(&s.Record)
			if now {
				s.Record.RemovedAt = time.Time{}
			}
			if err := tx.PutCell(s.Record); err != nil {
				return err
			}
			if err := e.Evidence.Change(tx, s.Record, s.Head, receipt.OpRemove, raceDetail(race)); err != nil {
				return err
			}
		}
		return also(tx)
	})
	if err != nil {
		return err
	}
	for _, p := range paused {
		e.dropPause(p)
	}
	return nil
}

// markRemoved makes a record that of a removed cell, whose states are kept for a while.
func (e *Engine) markRemoved(c *store.Cell) {
	c.Name, c.Paused, c.RemovedAt = "", nil, e.Now().UTC().Truncate(time.Microsecond)
}

// raceDetail is the detail of a statement about a cell of a race; nil for no race.
func raceDetail(race string) map[string]string {
	if race == "" {
		return nil
	}
	return map[string]string{detailRace: race}
}

// detailRace is the id of the race that made or removed a cell, in a statement.
const detailRace = "race"

// raceIntent lists the cells to remove when a race has ended.
type raceIntent struct {
	Cell  string     `json:"cell"` // the name of the raced cell
	Forks []raceFork `json:"forks"`
	// Live reports that the cells are live, as branches are. They are stopped first.
	Live bool `json:"live,omitempty"`
}

type raceFork struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// putRace replaces the intent of a race.
func putRace(tx *store.Tx, id string, in raceIntent) error {
	if err := tx.DropIntent(id); err != nil || len(in.Forks) == 0 {
		return err
	}
	return tx.PutIntent(id, id, store.IntentRace, in)
}

// removeForks removes the cells of a race and drops the intent, in one transaction.
// It leaves out cells to keep, and cells that others use or have renamed. A cell that
// cannot be removed now stays in the intent.
func (e *Engine) removeForks(ctx context.Context, id string, in raceIntent, keep func(raceFork) (bool, error)) (stay []string, err error) {
	var held []*heldCell
	defer func() {
		for _, s := range held {
			s.Release()
		}
	}()
	left := raceIntent{Cell: in.Cell, Live: in.Live}
	for _, f := range in.Forks {
		s, why := e.holdFork(ctx, f, in.Live, keep)
		switch {
		case s != nil:
			held = append(held, s)
			continue
		case why == nil || api.KindOf(why) == api.Busy:
		case api.KindOf(why) == api.NotFound:
			continue // it was removed or renamed
		default:
			left.Forks, err = append(left.Forks, f), errors.Join(err, why)
		}
		stay = append(stay, f.Name)
	}
	return stay, errors.Join(err, e.removeHeld(held, id, false, func(tx *store.Tx) error { return putRace(tx, id, left) }))
}

// holdFork takes a cell of a race to remove it. The result is nil if the cell stays.
func (e *Engine) holdFork(ctx context.Context, f raceFork, live bool, keep func(raceFork) (bool, error)) (*heldCell, error) {
	if stays, err := keep(f); err != nil || stays {
		return nil, err
	}
	wait := time.Duration(0)
	if live {
		if err := e.endLive(ctx, f); err != nil {
			return nil, err
		}
		wait = forceWait
	}
	s, err := e.holdToRemove(ctx, f.Name, wait, false)
	if err != nil {
		return nil, err
	}
	if s.Record.ID != f.ID {
		s.Release()
		return nil, api.Missing("cell", f.Name, "")
	}
	return s, nil
}

// endLive stops a cell of a race if it is live.
func (e *Engine) endLive(ctx context.Context, f raceFork) error {
	c := store.Cell{ID: f.ID, Name: f.Name}
	if _, live := e.Supervisor(c); !live {
		return nil
	}
	_, err := e.Client(c).Stop(ctx, api.StopRequest{Grace: -1})
	return err
}

// settleRaces removes the cells of races whose process died. A failure is not one of
// the present command: it is logged, and the next command tries again.
func (e *Engine) settleRaces(ctx context.Context) {
	if e.Store == nil {
		return
	}
	races, err := e.racesUnderWay()
	for _, in := range races {
		lock, busy := e.Store.LockCell(ctx, in.ID, "", "clean up", 0)
		if busy != nil {
			continue // it is under way
		}
		err = errors.Join(err, e.settleRace(ctx, in.ID))
		lock.Unlock()
	}
	if err != nil {
		e.Logger.Warn("cells of a race whose process died could not be removed", "error", err)
	}
}

func (e *Engine) racesUnderWay() (races []store.Intent, err error) {
	err = e.Store.View(func(tx *store.Tx) error {
		all, err := tx.Intents("")
		races = slices.DeleteFunc(all, func(in store.Intent) bool { return in.Kind != store.IntentRace })
		return err
	})
	return races, err
}

// settleRace removes the cells that a dead race left. The intent is read again: the
// race may have ended since it was found.
func (e *Engine) settleRace(ctx context.Context, id string) error {
	races, err := e.racesUnderWay()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(races, func(in store.Intent) bool { return in.ID == id })
	if at < 0 {
		return nil
	}
	var in raceIntent
	if err := json.Unmarshal(races[at].Doc, &in); err != nil {
		return fmt.Errorf("intent %s: %w", id, err)
	}
	e.Logger.Info("remove the cells of a race whose process died", "cell", in.Cell, "race", id)
	stay, err := e.removeForks(ctx, id, in, e.isAdopted)
	if len(stay) > 0 {
		e.Logger.Info("cells of that race stay: they were used since", "cells", strings.Join(stay, " "))
	}
	return err
}

// isAdopted reports whether a cell of a race was used for anything else since: then it
// is no longer the race's to remove.
func (e *Engine) isAdopted(f raceFork) (used bool, err error) {
	err = e.Store.View(func(tx *store.Tx) error {
		runs, err := tx.Runs(f.ID)
		used = len(runs) > 1 || len(runs) == 1 && runs[0].Decision != pending
		return err
	})
	return used, err
}
