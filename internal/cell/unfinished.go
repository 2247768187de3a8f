package cell

import "github.com/forkcell/forkcell/internal/store"

// unfinishedRuns returns the runs of a cell that have not ended.
func (e *Engine) unfinishedRuns(c store.Cell) (runs []store.Run, err error) {
	err = e.view(func(tx *store.Tx) error {
		runs, err = tx.UnfinishedRuns(c.ID)
		return err
	})
	return runs, err
}
