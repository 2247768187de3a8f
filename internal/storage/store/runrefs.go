package store

import (
	"errors"

	"zombiezen.com/go/sqlite"
)

// RunRef is a run without its document.
type RunRef struct {
	ID, CellID string
	// Ord is the number of the run: later ones have greater numbers.
	Ord   int64
	Ended bool
}

const refColumns = "id, cell_id, ord, state"

func scanRef(r *sqlite.Stmt) (RunRef, error) {
	return RunRef{ID: r.ColumnText(0), CellID: r.ColumnText(1), Ord: r.ColumnInt64(2), Ended: r.ColumnText(3) == "done"}, nil
}

// errEnough ends a query whose caller has what it needs.
var errEnough = errors.New("enough")

// RunsBackwards calls fn for the runs, the newest first, until it returns false.
func (tx *Tx) RunsBackwards(fn func(RunRef) (more bool)) error {
	err := tx.query(func(r *sqlite.Stmt) error {
		ref, err := scanRef(r)
		if err == nil && !fn(ref) {
			err = errEnough
		}
		return err
	}, "SELECT "+refColumns+" FROM runs ORDER BY rowid DESC")
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// EachRunAfter calls fn for the runs whose number is greater than after, oldest first.
func (tx *Tx) EachRunAfter(after int64, fn func(Run)) error {
	row, err := tx.rowOfRun(after)
	if err != nil {
		return err
	}
	return tx.query(func(r *sqlite.Stmt) error {
		run, err := scanRun(r)
		if err == nil {
			fn(run)
		}
		return err
	}, runsAfter, row, -1)
}

// RunRef finds a run by its whole id.
func (tx *Tx) RunRef(id string) (RunRef, error) {
	return one(tx, scanRef, "SELECT "+refColumns+" FROM runs WHERE id=?", id)
}

// Identity returns the random name of the database. A database that is rebuilt has
// another one.
func (tx *Tx) Identity() (string, error) {
	return one(tx, func(r *sqlite.Stmt) (string, error) { return r.ColumnText(0), nil }, "SELECT id FROM identity")
}
