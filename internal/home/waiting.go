package home

import (
	"errors"
	"slices"

	"github.com/forkcell/forkcell/internal/store"
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
	line, err := tx.Lineage(tip)
	if err != nil {
		return before, nil, err
	}
	known := map[string]int{} // the places of the work in the list
	for i, state := range slices.Backward(line) {
		w, waits, err := undecidedWork(tx, c, state)
		if err != nil {
			return before, nil, err
		}
		if !waits {
			continue
		}
		if len(work) == 0 && i+1 < len(line) {
			before = line[i+1]
		}
		if at, ok := known[w.ID]; ok {
			work[at].States = append(work[at].States, state)
			continue
		}
		known[w.ID] = len(work)
		work = append(work, w)
	}
	if before.ID != "" {
		return before, work, nil
	}
	if len(work) == 0 && len(line) > 0 {
		return line[0], nil, nil
	}
	// The states before it are lost.
	before, err = tx.Checkpoint(c.Applied)
	if errors.Is(err, store.ErrNotFound) && len(line) > 0 {
		return line[len(line)-1], work, nil
	}
	return before, work, err
}

// undecidedWork returns the work that made a state, and reports whether it is undecided.
func undecidedWork(tx *store.Tx, c store.Cell, state store.Checkpoint) (Work, bool, error) {
	if waits, err := Unaccepted(tx, c, state); err != nil || waits {
		return Work{ID: state.ID, States: []store.Checkpoint{state}}, waits, err
	}
	if state.RunID == "" {
		return Work{}, false, nil
	}
	r, err := tx.Run(state.RunID)
	if err != nil {
		return Work{}, false, err
	}
	waits := r.State == "done" && UndecidedIn(c, r)
	return Work{ID: r.ID, Run: &r, States: []store.Checkpoint{state}}, waits, nil
}
