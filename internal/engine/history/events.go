package history

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/evidence/eventquery"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// Events calls fn for the events that match a query, newest last. A journal that
// cannot be read does not stop the others: the error names it in the end.
func (h *History) Events(_ context.Context, q api.EventQuery, fn func(event.Record) error) error {
	if event.Class(q.Class) == event.APIActivity {
		return h.requestEvents(q, fn)
	}
	runs, err := h.eventRuns(q)
	if err != nil || len(runs) == 0 {
		return err
	}
	f := event.Filter{Class: event.Class(q.Class), Action: event.Action(q.Action), Since: q.Since, Limit: q.Limit}
	return h.kept.events.Read(h.Store, runs, f, fn)
}

// eventRuns returns the runs of a query.
func (h *History) eventRuns(q api.EventQuery) ([]eventquery.Run, error) {
	if h.Store == nil && q.Cell == "" && q.Run == "" {
		return nil, nil
	}
	cellID := ""
	if q.Cell != "" {
		c, err := h.FindRecorded(q.Cell)
		if err != nil {
			return nil, err
		}
		cellID = c.ID
	}
	if q.Run == "" {
		return cellRuns{store: h.Store, known: &h.kept.runs, cellID: cellID, sees: q.Sees}.Runs()
	}
	var r store.Run
	err := h.View(func(tx *store.Tx) (err error) {
		r, err = h.runByPrefix(tx, q.Run)
		if err == nil && cellID != "" && r.CellID != cellID {
			err = api.Missing("run of "+q.Cell, q.Run, "`forkcell log "+q.Cell+"` shows them")
		}
		if err == nil {
			err = coveredRun(tx, r, q)
		}
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, api.Missing("run", q.Run, "there is no state directory yet")
	}
	return []eventquery.Run{eventRun(r)}, err
}

// coveredRun refuses a run of a cell that a query does not cover, as one that does not exist.
func coveredRun(tx *store.Tx, r store.Run, q api.EventQuery) error {
	cells := visibleCells{tx: tx, sees: q.Sees}
	visible, err := cells.has(r.CellID)
	if err == nil && !visible {
		err = home.IDError("run", q.Run, store.ErrNotFound, logHint)
	}
	return err
}

// logHint says where the ids of runs are.
const logHint = "`forkcell log CELL` shows them"

func (h *History) runByPrefix(tx *store.Tx, ref string) (store.Run, error) {
	id, err := h.CompleteID(tx, "runs", ref, nil)
	if err != nil {
		return store.Run{}, home.IDError("run", ref, err, logHint)
	}
	return tx.Run(id)
}

// eventRun describes the journal of a run. The last event of a run whose process died is
// written by the process that finishes it, shortly before that makes the receipt.
func eventRun(r store.Run) eventquery.Run {
	ended := r.FinishedAt
	if made := store.IDTime(r.ReceiptID); made.After(ended) {
		ended = made
	}
	kinds, err := event.ParseKinds(r.Kinds)
	if err != nil {
		kinds = nil // the journal has them
	}
	return eventquery.Run{ID: r.ID, Started: r.StartedAt, Ended: r.State == "done", EndedTime: ended, Kinds: kinds}
}

// FollowEvents calls fn for the last events of a cell, or of all with "", and then for
// each new one as it happens, also those of runs that begin later. It ends with ctx,
// whose error it returns, or with an error of fn.
func (h *History) FollowEvents(ctx context.Context, name string, last int, fn func(event.Record) error) error {
	if h.Store == nil {
		return api.Missing("cell", "there is no state directory yet", "`forkcell init NAME --from DIR` makes it")
	}
	runs := cellRuns{store: h.Store, known: &h.kept.runs}
	if name != "" {
		c, err := h.FindRecorded(name)
		if err != nil {
			return err
		}
		runs.cellID = c.ID
	}
	return eventquery.Follow(ctx, h.Store, runs, last, fn)
}

// cellRuns lists the runs of a cell, or of all cells with "", that the caller sees.
type cellRuns struct {
	store  *store.Store
	known  *knownRuns
	cellID string
	sees   func(cell string) bool
}

// Runs implements eventquery.Runs.
func (r cellRuns) Runs() ([]eventquery.Run, error) {
	var out []eventquery.Run
	err := r.store.View(func(tx *store.Tx) error {
		known, err := r.known.list(tx)
		if err != nil {
			return err
		}
		seen := visibleCells{tx: tx, sees: r.sees}
		for _, run := range known {
			if r.cellID != "" && run.cellID != r.cellID {
				continue
			}
			visible, err := seen.has(run.cellID)
			if err != nil {
				return err
			}
			if visible {
				out = append(out, run.Run)
			}
		}
		return nil
	})
	return out, err
}

// knownRuns keeps the times of the runs of a home. Those of a run that has ended do not
// change any more, so a query reads only the runs that had not, and those after.
type knownRuns struct {
	mu   sync.Mutex
	runs []knownRun // by their numbers; it is never changed in place
}

type knownRun struct {
	eventquery.Run
	cellID string
	ord    int64
}

// maxKnown bounds the runs that are kept.
const maxKnown = 50_000

// list returns all runs, oldest first. The caller does not change the list.
func (k *knownRuns) list(tx *store.Tx) ([]knownRun, error) {
	k.mu.Lock()
	kept := k.runs
	k.mu.Unlock()
	runs := make([]knownRun, 0, len(kept))
	for _, run := range kept {
		if !run.Ended {
			r, err := tx.Run(run.ID)
			if errors.Is(err, store.ErrNotFound) {
				continue // it never started
			}
			if err != nil {
				return nil, err
			}
			run = newKnownRun(r)
		}
		runs = append(runs, run)
	}
	last := int64(0)
	if len(runs) > 0 {
		last = runs[len(runs)-1].ord
	}
	err := tx.EachRunAfter(last, func(r store.Run) { runs = append(runs, newKnownRun(r)) })
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.runs = runs[:min(len(runs), maxKnown)]
	return runs, nil
}

func newKnownRun(r store.Run) knownRun { return knownRun{eventRun(r), r.CellID, r.Ord} }

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

// JournalOf reads the events of a run that match a filter.
func (h *History) JournalOf(run string, f event.Filter) iter.Seq2[event.Record, error] {
	return h.kept.events.Journal(h.Store, eventquery.Run{ID: run}, f)
}
