package cell

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/event"
	"github.com/forkcell/forkcell/internal/eventquery"
	"github.com/forkcell/forkcell/internal/store"
)

// Events calls fn for the events that match a query, newest last. A journal that
// cannot be read does not stop the others: the error names it in the end.
func (e *Engine) Events(_ context.Context, q api.EventQuery, fn func(event.Record) error) error {
	if event.Class(q.Class) == event.APIActivity {
		return e.requestEvents(q, fn)
	}
	runs, err := e.eventRuns(q)
	if err != nil || len(runs) == 0 {
		return err
	}
	f := event.Filter{Class: event.Class(q.Class), Action: event.Action(q.Action), Since: q.Since, Limit: q.Limit}
	return e.shared.events.Read(e.store, runs, f, fn)
}

// eventRuns returns the runs of a query.
func (e *Engine) eventRuns(q api.EventQuery) ([]eventquery.Run, error) {
	if e.store == nil && q.Cell == "" && q.Run == "" {
		return nil, nil
	}
	cellID := ""
	if q.Cell != "" {
		c, err := e.findCell(q.Cell)
		if err != nil {
			return nil, err
		}
		cellID = c.ID
	}
	if q.Run == "" {
		return cellRuns{store: e.store, ended: &e.shared.ended, cellID: cellID, sees: q.Sees}.Runs()
	}
	var r store.Run
	err := e.view(func(tx *store.Tx) (err error) {
		r, err = runByPrefix(tx, q.Run)
		if err == nil && cellID != "" && r.CellID != cellID {
			err = api.Missing("run of "+q.Cell, q.Run, "`forkcell log "+q.Cell+"` shows them")
		}
		if err == nil {
			err = visibleRun(tx, r, q.Sees)
		}
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, api.Missing("run", q.Run, "there is no state directory yet")
	}
	return []eventquery.Run{eventRun(r)}, err
}

func runByPrefix(tx *store.Tx, ref string) (store.Run, error) {
	id, err := tx.Complete("runs", ref)
	if err != nil {
		return store.Run{}, idError("run", ref, err, "`forkcell log CELL` shows them")
	}
	return tx.Run(id)
}

// visibleRun refuses a run of a cell that the caller does not see.
func visibleRun(tx *store.Tx, r store.Run, sees func(cell string) bool) error {
	cells := visibleCells{tx: tx, sees: sees}
	visible, err := cells.has(r.CellID)
	if err == nil && !visible {
		err = api.Missing("run", r.ID, "`forkcell log CELL` shows them")
	}
	return err
}

func eventRun(r store.Run) eventquery.Run {
	return eventquery.Run{ID: r.ID, Started: r.StartedAt, Ended: r.State == "done", EndedTime: r.FinishedAt}
}

// FollowEvents calls fn for the last events of a cell, or of all with "", and then for
// each new one as it happens, also those of runs that begin later. It ends with ctx,
// whose error it returns, or with an error of fn.
func (e *Engine) FollowEvents(ctx context.Context, name string, last int, fn func(event.Record) error) error {
	if e.store == nil {
		return api.Missing("cell", "there is no state directory yet", "`forkcell init NAME --from DIR` makes it")
	}
	runs := cellRuns{store: e.store, ended: &e.shared.ended}
	if name != "" {
		c, err := e.findCell(name)
		if err != nil {
			return err
		}
		runs.cellID = c.ID
	}
	return eventquery.Follow(ctx, e.store, runs, last, fn)
}

// cellRuns lists the runs of a cell, or of all cells with "", that the caller sees.
type cellRuns struct {
	store  *store.Store
	ended  *endedRuns
	cellID string
	sees   func(cell string) bool
}

// Runs implements eventquery.Runs.
func (r cellRuns) Runs() ([]eventquery.Run, error) {
	var out []eventquery.Run
	err := r.store.View(func(tx *store.Tx) error {
		refs, err := tx.RunRefs(r.cellID)
		if err != nil {
			return err
		}
		seen := visibleCells{tx: tx, sees: r.sees}
		for _, ref := range refs {
			visible, err := seen.has(ref.CellID)
			if err != nil {
				return err
			}
			if !visible {
				continue
			}
			run, err := r.ended.get(tx, ref)
			if err != nil {
				return err
			}
			out = append(out, run)
		}
		return nil
	})
	return out, err
}

// endedRuns keeps the times of runs that have ended, which do not change any more.
type endedRuns struct {
	mu   sync.Mutex
	runs map[string]eventquery.Run
}

// maxEnded bounds the runs that are kept.
const maxEnded = 50_000

func (k *endedRuns) get(tx *store.Tx, ref store.RunRef) (eventquery.Run, error) {
	k.mu.Lock()
	run, ok := k.runs[ref.ID]
	k.mu.Unlock()
	if ok {
		return run, nil
	}
	r, err := tx.Run(ref.ID)
	if err != nil {
		return run, err
	}
	run = eventRun(r)
	if run.Ended {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.runs == nil || len(k.runs) >= maxEnded {
			k.runs = map[string]eventquery.Run{}
		}
		k.runs[ref.ID] = run
	}
	return run, nil
}

// visibleCells finds out which cells the caller sees, by their names.
type visibleCells struct {
	tx    *store.Tx
	sees  func(cell string) bool // nil: all
	known map[string]bool
}

func (v *visibleCells) has(cellID string) (bool, error) {
	if v.sees == nil {
		return true, nil
	}
	visible, known := v.known[cellID]
	if known {
		return visible, nil
	}
	c, err := v.tx.CellByID(cellID)
	if v.known == nil {
		v.known = map[string]bool{}
	}
	v.known[cellID] = err == nil && v.sees(c.LastName)
	return v.known[cellID], err
}

// Includes implements eventquery.Runs.
func (r cellRuns) Includes(run string) (bool, error) {
	if r.cellID == "" {
		return true, nil
	}
	var found store.Run
	err := r.store.View(func(tx *store.Tx) (err error) {
		found, err = tx.Run(run)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return found.CellID == r.cellID, err
}

// journalOf reads the events of a run that match a filter.
func (e *Engine) journalOf(run string, f event.Filter) iter.Seq2[event.Record, error] {
	return e.shared.events.Journal(e.store, eventquery.Run{ID: run}, f)
}
