package cell

import (
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
	found, err := e.workUnderWay(cellID)
	for cell := range found {
		if _, busy := e.store.CellHolder(cell); busy {
			delete(found, cell)
		}
	}
	if err != nil || len(found) == 0 {
		return found, err
	}
	again, err := e.workUnderWay(cellID)
	for cell, id := range found {
		if again[cell] != id {
			delete(found, cell)
		}
	}
	return found, err
}

// workUnderWay lists the work in a cell, or in all with "", that was begun and not
// finished, whether or not its process still exists.
func (e *Engine) workUnderWay(cellID string) (abandonedWork, error) {
	found := abandonedWork{}
	err := e.store.View(func(tx *store.Tx) error {
		intents, err := tx.Intents(cellID)
		if err != nil {
			return err
		}
		for _, in := range intents {
			found[in.CellID] = in.ID
		}
		runs, err := tx.UnfinishedRuns(cellID)
		for _, r := range runs {
			found[r.CellID] = r.ID
		}
		return err
	})
	return found, err
}

// show marks a cell that still has abandoned work.
func (w abandonedWork) show(tx *store.Tx, info *api.CellInfo) error {
	id := w[info.CellID]
	if id == "" || info.State != api.StateIdle {
		return nil
	}
	unfinished, err := tx.Unfinished(info.CellID)
	if err != nil || !unfinished {
		return err
	}
	info.State = unfinishedState
	runs, err := tx.UnfinishedRuns(info.CellID)
	for _, r := range runs {
		if r.ID == id {
			info.LastRun, info.LastOutcome, info.LastDecision = r.ID, unfinishedState, pending
		}
	}
	return err
}
