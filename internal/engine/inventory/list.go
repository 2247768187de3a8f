package inventory

import (
	"context"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// List describes every cell.
func (inv *Inventory) List(ctx context.Context) ([]api.CellInfo, error) {
	return inv.ListMatching(ctx, api.CellFilter{})
}

// ListMatching describes the cells that a filter selects, by name. Shared caches are
// left out.
func (inv *Inventory) ListMatching(_ context.Context, filter api.CellFilter) ([]api.CellInfo, error) {
	infos := []api.CellInfo{}
	if inv.Store == nil {
		return infos, nil
	}
	if filter.State == api.StateRemoved {
		return inv.removedCells(filter)
	}
	left, err := inv.findAbandoned("")
	if err != nil {
		return nil, err
	}
	records, err := inv.records()
	for _, r := range records {
		if !strings.HasPrefix(r.cell.Name, filter.Prefix) || !hasLabels(r.info.Labels, filter.Labels) {
			continue
		}
		info := inv.describe(r, left)
		if filter.State == "" || filter.State == info.State {
			infos = append(infos, info)
		}
	}
	return infos, err
}

// removedCells describes the removed cells that can be brought back.
func (inv *Inventory) removedCells(filter api.CellFilter) ([]api.CellInfo, error) {
	infos := []api.CellInfo{}
	err := inv.Store.View(func(tx *store.Tx) error {
		cells, err := inv.RemovedCells(tx)
		if err != nil {
			return err
		}
		for _, c := range cells {
			r, err := inv.record(tx, c)
			if err != nil {
				return err
			}
			if !strings.HasPrefix(c.LastName, filter.Prefix) || !hasLabels(r.info.Labels, filter.Labels) {
				continue
			}
			info := r.info
			info.Cell, info.Name, info.State = c.LastName, c.LastName, api.StateRemoved
			if inv.Caller.MaySee(r.forkedFrom) {
				info.ForkedFrom = r.forkedFrom
			}
			infos = append(infos, info)
		}
		return nil
	})
	return infos, err
}

// records reads what the database has about the ordinary cells, by name. The result is
// shared.
func (inv *Inventory) records() ([]*cellRecord, error) {
	inv.kept.listing.Lock() // of several readers the first reads for all
	defer inv.kept.listing.Unlock()
	return keep(inv, &inv.kept.memos.list, "", func() (list []*cellRecord, err error) {
		err = inv.Store.View(func(tx *store.Tx) error {
			cells, err := home.OrdinaryCells(tx)
			if err != nil {
				return err
			}
			for _, c := range cells {
				r, err := inv.record(tx, c)
				if err != nil {
					return err
				}
				list = append(list, r)
			}
			return nil
		})
		return list, err
	})
}

// KeepRecords makes the engine, and those made from it, keep what they read about cells
// until any process changes the database. It is for a process that answers many
// requests. What the first request needs is read meanwhile; the returned function waits
// for that.
func (inv *Inventory) KeepRecords() (wait func()) {
	inv.kept.records.Store(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = inv.records() // a request that needs them gets the error
	}()
	return func() { <-done }
}

func hasLabels(have, want map[string]string) bool {
	for key, value := range want {
		if got, ok := have[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// Status describes one cell. Like every reading verb it takes no lock and finishes
// no work.
func (inv *Inventory) Status(ctx context.Context, cell string) (*api.StatusResult, error) {
	if inv.Store == nil {
		_, err := inv.FindCell(cell)
		return nil, err
	}
	r, err := inv.statusRecord(cell)
	if err != nil {
		return nil, err
	}
	res := &api.StatusResult{}
	if holder, busy := inv.Store.CellHolder(r.cell.ID); busy {
		res.Holder = (&store.BusyError{Holder: holder}).Error()
		res.Live = inv.LiveInfo(ctx, r.cell, true)
		if r, err = inv.statusRecord(cell); err != nil { // what the supervisor does first is in it
			return nil, err
		}
	}
	left, err := inv.findAbandoned(r.cell.ID)
	if err != nil {
		return nil, err
	}
	res.CellInfo = inv.describe(r.cellRecord, left)
	res.BackendReason, res.Applied, res.LeftOut = r.cell.BackendReason, r.cell.Applied, home.LeftOut(r.cell)
	res.ReadOnly = append([]string{}, r.cell.ReadOnly...)
	res.Checkpoints, res.Runs, res.LastReceipt = int(r.history.Checkpoints), int(r.history.Runs), r.history.LastReceipt
	res.PendingRuns = append([]string{}, r.undecided.runs...)
	res.PendingStates = append([]string{}, r.undecided.states...)
	return res, nil
}

// statusRecord is the part of the database that the status of a cell needs.
type statusRecord struct {
	*cellRecord
	undecided undecidedWork
}

// statusRecord reads what the database has about a cell. The result is shared.
func (inv *Inventory) statusRecord(name string) (*statusRecord, error) {
	return keep(inv, &inv.kept.memos.status, name, func() (*statusRecord, error) { return inv.readStatus(name) })
}

func (inv *Inventory) readStatus(name string) (*statusRecord, error) {
	c, err := inv.FindCell(name)
	if err != nil {
		return nil, err
	}
	r := &statusRecord{}
	err = inv.Store.View(func(tx *store.Tx) error {
		if c, err = tx.CellByID(c.ID); err != nil {
			return err
		}
		if r.cellRecord, err = inv.record(tx, c); err != nil {
			return err
		}
		r.undecided, err = inv.undecidedWork(tx, c, r.history)
		return err
	})
	return r, err
}

// pendingRuns lists the undecided runs that a cell contains, inherited ones
// included, the oldest first.
func pendingRuns(tx *store.Tx, c store.Cell) ([]string, error) {
	runs, err := home.UndecidedRuns(tx, c, c.Head)
	ids := []string{}
	for _, r := range slices.Backward(runs) {
		ids = append(ids, r.ID)
	}
	return ids, err
}

// undecidedWork returns the work in a cell that waits for a decision.
func (inv *Inventory) undecidedWork(tx *store.Tx, c store.Cell, h store.History) (undecidedWork, error) {
	at := memoStamp{history: h, head: c.Head, applied: c.Applied}
	foreign, err := inv.kept.memos.foreign.get(c.ID, at, func() (bool, error) {
		line, err := tx.Ancestors(c.Head)
		return slices.ContainsFunc(line, func(a store.Ancestor) bool { return a.CellID != c.ID }), err
	})
	if err == nil && foreign {
		var last store.Statement
		last, err = tx.LastStatement()
		at.log = last.Seq
	}
	if err != nil {
		return undecidedWork{}, err
	}
	return inv.kept.memos.undecided.get(c.ID, at, func() (work undecidedWork, err error) {
		if work.runs, err = pendingRuns(tx, c); err != nil {
			return work, err
		}
		states, err := home.UnacceptedStates(tx, c, c.Head)
		for _, state := range slices.Backward(states) {
			work.states = append(work.states, state.ID)
		}
		if err == nil {
			work.before, work.work, err = home.UndecidedWork(tx, c, c.Head)
		}
		return work, err
	})
}

// UndecidedWork is home.UndecidedWork. That of the present state of a cell is kept while
// the cell does not change.
func (inv *Inventory) UndecidedWork(tx *store.Tx, c store.Cell, tip string) (before store.Checkpoint, work []home.Work, err error) {
	if tip != c.Head {
		return home.UndecidedWork(tx, c, tip)
	}
	h, err := tx.History(c.ID)
	if err != nil {
		return before, nil, err
	}
	u, err := inv.undecidedWork(tx, c, h)
	return u.before, u.work, err
}
