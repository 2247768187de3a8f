package inventory

import (
	"maps"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// abandonedWork maps the id of a cell to the run, or else the intent, that a dead
// process left unfinished in it.
type abandonedWork map[string]string

// AbandonedWork returns the run, or else the intent, that a dead process left unfinished in
// a cell. It is "" if there is none.
func (inv *Inventory) AbandonedWork(cellID string) (string, error) {
	left, err := inv.findAbandoned(cellID)
	return left[cellID], err
}

// findAbandoned finds unfinished work that no process is working on, of one cell, or of all
// with "". It takes no lock.
// A process takes a cell's lock before it records its work, and keeps it until the
// work is finished. So work is abandoned if the same record exists before and after
// a check that finds the lock free.
func (inv *Inventory) findAbandoned(cellID string) (abandonedWork, error) {
	found, err := inv.workUnderWay()
	left := abandonedWork{}
	for cell, id := range found {
		if cellID != "" && cell != cellID {
			continue
		}
		if _, busy := inv.Store.CellHolder(cell); !busy {
			left[cell] = id
		}
	}
	if err != nil || len(left) == 0 {
		return left, err
	}
	again, err := inv.workUnderWay()
	maps.DeleteFunc(left, func(cell, id string) bool { return again[cell] != id })
	return left, err
}

// workUnderWay lists the work in all cells that was begun and not finished, whether or
// not its process still exists. The result is shared.
func (inv *Inventory) workUnderWay() (abandonedWork, error) {
	return keep(inv, &inv.kept.memos.work, "", func() (abandonedWork, error) {
		found := abandonedWork{}
		err := inv.Store.View(func(tx *store.Tx) error {
			intents, err := tx.Intents("")
			if err != nil {
				return err
			}
			for _, in := range intents {
				found[in.CellID] = in.ID
			}
			runs, err := tx.UnfinishedRuns("")
			for _, r := range runs {
				found[r.CellID] = r.ID
			}
			return err
		})
		return found, err
	})
}

// show marks a cell that still has abandoned work.
func (w abandonedWork) show(r *cellRecord, info *api.CellInfo) {
	id := w[info.CellID]
	if id == "" || info.State != api.StateIdle || !r.unfinished {
		return
	}
	info.State = api.StateUnfinished
	if slices.ContainsFunc(r.running, func(run store.Run) bool { return run.ID == id }) {
		info.LastRun, info.LastOutcome, info.LastDecision = id, api.StateUnfinished, string(receipt.Pending)
	}
}
