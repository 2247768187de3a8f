package home

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// Work is undecided work that a state contains: what a run changed, or what was
// captured from a live cell.
type Work struct {
	// ID is that of the run, or of the captured state.
	ID string
	// Run is nil if the work was captured.
	Run *store.Run
	// States are those that the work made, the oldest first.
	States []store.Checkpoint
}

// After is the state that the work ended with.
func (w Work) After() store.Checkpoint { return w.States[len(w.States)-1] }

// UndecidedWork lists the undecided work that a state contains, the oldest first: all
// that an acceptance of the state decides about, but for runs that changed nothing.
// before is the state before the oldest of it, or the state itself if there is none.
func UndecidedWork(tx *store.Tx, c store.Cell, tip string) (before store.Checkpoint, work []Work, err error) {
	line, err := tx.Ancestors(tip)
	if err != nil {
		return before, nil, err
	}
	places := map[string]int{} // of the work in the list
	for i, a := range slices.Backward(line) {
		w, waits, err := undecidedWork(tx, c, a)
		if err != nil {
			return before, nil, err
		}
		if !waits {
			continue
		}
		if len(work) == 0 && i+1 < len(line) {
			if before, err = tx.Checkpoint(line[i+1].ID); err != nil {
				return before, nil, err
			}
		}
		if at, ok := places[w.ID]; ok {
			work[at].States = append(work[at].States, w.States...)
			continue
		}
		places[w.ID] = len(work)
		work = append(work, w)
	}
	switch {
	case before.ID != "":
		return before, work, nil
	case len(line) == 0:
		before, err = tx.Checkpoint(c.Applied)
		return before, work, err
	case len(work) == 0:
		before, err = tx.Checkpoint(tip)
		return before, nil, err
	}
	// The states before it are lost.
	before, err = tx.Checkpoint(c.Applied)
	if errors.Is(err, store.ErrNotFound) {
		before, err = tx.Checkpoint(line[len(line)-1].ID)
	}
	return before, work, err
}

// undecidedWork returns the work that made a state, and reports whether it is undecided.
func undecidedWork(tx *store.Tx, c store.Cell, a store.Ancestor) (w Work, waits bool, err error) {
	if waits, err = isUnaccepted(tx, c, a.ID, a.Kind); err != nil {
		return w, false, err
	}
	w.ID = a.ID
	if !waits {
		r, undecided, err := undecidedRun(tx, c, a)
		if err != nil || !undecided {
			return w, false, err
		}
		w.ID, w.Run = r.ID, &r
	}
	state, err := tx.Checkpoint(a.ID)
	w.States = []store.Checkpoint{state}
	return w, err == nil, err
}

// undecidedRun returns the run that made a state, and reports whether it is undecided.
func undecidedRun(tx *store.Tx, c store.Cell, a store.Ancestor) (r store.Run, undecided bool, err error) {
	if a.RunID == "" || a.RunCell != "" && KeepsWork(decisionIn(c, a.RunID, a.RunCell, a.Decision)) {
		return r, false, nil
	}
	r, err = tx.Run(a.RunID)
	return r, err == nil && r.State == "done" && UndecidedIn(c, r), err
}

// UndecidedRuns lists the undecided runs whose work is part of a state, the newest first:
// those of Contained that are undecided.
func UndecidedRuns(tx *store.Tx, c store.Cell, tip string) ([]store.Run, error) {
	line, err := tx.Ancestors(tip)
	if err != nil {
		return nil, err
	}
	found, states := map[string]store.Run{}, map[string]bool{}
	for _, a := range line {
		states[a.ID] = true
		r, undecided, err := undecidedRun(tx, c, a)
		if err != nil {
			return nil, err
		}
		if undecided {
			found[r.ID] = r
		}
	}
	own, err := tx.RunsDecided(c.ID, string(receipt.Pending))
	for _, r := range own {
		if r.Before == r.After && states[r.After] {
			found[r.ID] = r
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b store.Run) int { return cmp.Compare(b.Ord, a.Ord) }), err
}

// ContainedIDs returns the ids of all runs and states that a state contains: of its ancestors, of
// the runs that made them, and of the cell's own runs that changed nothing.
func ContainedIDs(tx *store.Tx, c store.Cell, tip string) (map[string]bool, error) {
	line, err := tx.Ancestors(tip)
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for _, a := range line {
		ids[a.ID], ids[a.RunID] = true, true
	}
	delete(ids, "")
	own, err := tx.RunEnds(c.ID)
	for id, after := range own {
		if ids[after] {
			ids[id] = true
		}
	}
	return ids, err
}
