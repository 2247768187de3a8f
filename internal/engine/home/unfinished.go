package home

import "github.com/forkcell/forkcell/internal/storage/store"

// UnfinishedRuns returns the runs of a cell that have not ended.
func (h *Home) UnfinishedRuns(c store.Cell) (runs []store.Run, err error) {
	err = h.View(func(tx *store.Tx) error {
		runs, err = tx.UnfinishedRuns(c.ID)
		return err
	})
	return runs, err
}
