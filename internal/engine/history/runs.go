package history

import (
	"context"
	"encoding/json"
	"errors"
	"math"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// RunInfo describes one run, by its whole id, with its result if it has ended.
func (h *History) RunInfo(ctx context.Context, id string) (*api.RunInfo, error) {
	var info api.RunInfo
	var r store.Run
	err := h.View(func(tx *store.Tx) (err error) {
		if r, err = tx.Run(id); err != nil {
			return err
		}
		if info, err = h.runInfo(tx, r); err == nil && !h.Caller.MaySee(info.Cell) {
			err = store.ErrNotFound
		}
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, api.Missing("run", id, "`forkcell log CELL` shows them")
	}
	if err != nil || info.State == "running" {
		return &info, err
	}
	info.Result, err = h.ResultOf(ctx, r)
	if api.CodeOf(err) == api.CodeBadReceipt {
		err = nil // what the database has of the run remains; the receipt says what is wrong with it
	}
	return &info, err
}

// Runs lists at most limit runs, of one cell or of all with "", after the one with
// the given number, the oldest first. next is the number to go on from, or 0 if
// there are no more.
func (h *History) Runs(_ context.Context, name string, after int64, limit int) (infos []api.RunInfo, next int64, err error) {
	return h.runs(name, after, limit, (*store.Tx).RunsAfter)
}

// RecentRuns lists at most limit runs, of one cell or of all with "", before the one
// with the given number, the newest first; 0 is the end. next is the number to go on
// from, or 0 if there are no more.
func (h *History) RecentRuns(_ context.Context, name string, before int64, limit int) (infos []api.RunInfo, next int64, err error) {
	if before == 0 {
		before = math.MaxInt64
	}
	return h.runs(name, before, limit, (*store.Tx).RunsBefore)
}

// hiddenRuns is how many runs are read at a time for a caller who does not see all.
const hiddenRuns = 500

// runs lists at most limit of the runs that list returns from a number on. Runs that the
// caller may not know of do not count.
func (h *History) runs(name string, from int64, limit int, list func(tx *store.Tx, cellID string, from int64, limit int) ([]store.Run, error)) (infos []api.RunInfo, next int64, err error) {
	cellID := ""
	if name != "" {
		c, err := h.findRecorded(name)
		if err != nil {
			return nil, 0, err
		}
		cellID = c.ID
	}
	many := limit + 1
	if h.Caller.Sees != nil {
		many = max(many, hiddenRuns)
	}
	err = h.View(func(tx *store.Tx) error {
		cells := visibleCells{tx: tx, sees: h.Caller.Sees}
		for {
			runs, err := list(tx, cellID, from, many)
			if err != nil {
				return err
			}
			for _, r := range runs {
				if visible, err := cells.has(r.CellID); err != nil {
					return err
				} else if !visible {
					continue
				}
				if len(infos) == limit {
					next = from
					return nil
				}
				info, err := h.runInfo(tx, r)
				if err != nil {
					return err
				}
				infos, from = append(infos, info), r.Ord
			}
			if len(runs) < many {
				return nil
			}
			from = runs[many-1].Ord
		}
	})
	if errors.Is(err, store.ErrNotFound) && h.Store == nil {
		err = nil
	}
	return infos, next, err
}

// CellRuns lists all runs of a cell, the oldest first.
func (h *History) CellRuns(ctx context.Context, name string) (all []api.RunInfo, err error) {
	const page = 256
	for after := int64(0); ; {
		infos, next, err := h.Runs(ctx, name, after, page)
		if err != nil {
			return nil, err
		}
		all = append(all, infos...)
		if after = next; next == 0 {
			return all, nil
		}
	}
}

func (h *History) runInfo(tx *store.Tx, r store.Run) (api.RunInfo, error) {
	c, err := tx.CellByID(r.CellID)
	if err != nil {
		return api.RunInfo{}, err
	}
	info := api.RunInfo{
		RunID: r.ID, Cell: c.LastName, State: "running", Command: r.Command, Actor: r.Actor, StartedAt: r.StartedAt, Before: r.Before, PolicyHash: r.Policy,
	}
	if r.Session != nil {
		if err := json.Unmarshal(r.Session, &info.Session); err != nil {
			return info, err
		}
	}
	info.Command = home.RanCommand(r.Command, (*receipt.Session)(info.Session))
	if info.Executed, err = h.executedCommands(r); err != nil {
		return info, err
	}
	if r.State == "done" {
		info.State, info.FinishedAt, info.ReceiptID, info.Outcome, info.ExitCode = "ended", &r.FinishedAt, r.ReceiptID, r.Outcome, &r.ExitCode
		info.Signal, info.Decision, info.After, info.ChangedFiles = r.Signal, r.Decision, r.After, r.Changed
	}
	return info, nil
}

// executedCommands returns the commands that were executed in a live cell: those of its receipt,
// or of the journal of an unfinished run so far.
func (h *History) executedCommands(r store.Run) (*api.Executed, error) {
	if r.State == "done" {
		if r.Executed == nil {
			return nil, nil //nolint:nilnil // no live cell, or an old receipt
		}
		var x api.Executed
		err := json.Unmarshal(r.Executed, &x)
		return &x, err
	}
	var x event.Executed
	for rec, err := range h.JournalOf(r.ID, event.Filter{Class: event.ProcessActivity}) {
		if err != nil {
			break // it has no journal yet, or a damaged one: its receipt will say so
		}
		x.Add(rec)
	}
	if x.Count == 0 {
		return nil, nil //nolint:nilnil // none yet
	}
	return &api.Executed{Count: int64(x.Count), Commands: x.Lines}, nil
}
