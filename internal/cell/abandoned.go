package cell

import (
	"maps"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/store"
)

// unfinishedState is the state that reading verbs show for a run, or a cell, whose
// process died. The next verb that changes the cell finishes the run.
const unfinishedState = api.StateUnfinished

// abandonedWork maps the id of a cell to the run, or else the intent, that a dead
// process left unfinished in it.
type abandonedWork map[string]string

// abandoned finds unfinished work that no process is working on. It takes no lock.
// A process takes a cell's lock before it records its work, and keeps it until the
// work is finished. So work is abandoned if the same record exists before and after
// a check that finds the lock free.
func (e *Engine) abandoned() (abandonedWork, error) { return e.abandonedIn("") }

// abandonedIn finds the unfinished work of one cell, or of all with "".
func (e *Engine) abandonedIn(cellID string) (abandonedWork, error) {
	found, err := e.workUnderWay()
	left := abandonedWork{}
	for cell, id := range found {
		if cellID != "" && cell != cellID {
			continue
		}
		if _, busy := e.Store.CellHolder(cell); !busy {
			left[cell] = id
		}
	}
	if err != nil || len(left) == 0 {
		return left, err
	}
	again, err := e.workUnderWay()
	maps.DeleteFunc(left, func(cell, id string) bool { return again[cell] != id })
	return left, err
}

// workUnderWay lists the work in all cells that was begun and not finished, whether or
// not its process still exists. The result is shared.
func (e *Engine) workUnderWay() (abandonedWork, error) {
	return keep(e, &e.shared.memos.work, "", func() (abandonedWork, error) {
		found := abandonedWork{}
		err := e.Store.View(func(tx *store.Tx) error {
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
	info.State = unfinishedState
	if slices.ContainsFunc(r.running, func(run store.Run) bool { return run.ID == id }) {
		info.LastRun, info.LastOutcome, info.LastDecision = id, unfinishedState, pending
	}
}
