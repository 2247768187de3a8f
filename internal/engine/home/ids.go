package home

import (
	"errors"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// CompleteID returns the one id of a table that a reference means, as store.Tx.Complete
// does. What belongs to a cell that the caller may not know of does not exist, unless own
// reports that a cell of the caller's has it too; nil for none. table is one of
// checkpoints, runs and statements; of statements only receipts exist for a caller who
// sees a part of the cells.
func (h *Home) CompleteID(tx *store.Tx, table, ref string, own func(id string) (bool, error)) (string, error) {
	if h.Caller.Sees == nil {
		return tx.Complete(table, ref, nil)
	}
	return tx.Complete(table, ref, func(id string) (bool, error) {
		cellID, err := ownerOf(tx, table, id)
		if errors.Is(err, store.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		name, err := tx.LastName(cellID)
		if err != nil || h.Caller.MaySee(name) || own == nil {
			return err == nil && h.Caller.MaySee(name), err
		}
		return own(id)
	})
}

// ownerOf returns the id of the cell that a checkpoint, a run or a receipt belongs to.
func ownerOf(tx *store.Tx, table, id string) (string, error) {
	switch table {
	case "checkpoints":
		c, err := tx.Checkpoint(id)
		return c.CellID, err
	case "runs":
		r, err := tx.Run(id)
		return r.CellID, err
	}
	r, err := tx.RunOfReceipt(id)
	return r.CellID, err
}

// IDError returns the error for an id that was not found, or that is not unique.
func IDError(what, ref string, err error, hint string) error {
	if errors.Is(err, store.ErrAmbiguous) {
		return api.Usagef("use more characters", "ambiguous %s id %s", what, quote.Arg(ref))
	}
	if errors.Is(err, store.ErrNotFound) {
		return api.Missing(what, ref, hint)
	}
	return err
}
