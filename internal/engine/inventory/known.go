package inventory

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"

	"github.com/forkcell/forkcell/internal/storage/store"
)

// KnownNames lists the names of cells and receipts, and the states and runs of one
// cell, newest first. Names that cannot be read are left out.
func (inv *Inventory) KnownNames(_ context.Context, cell string) (k api.KnownNames) {
	_ = inv.View(func(tx *store.Tx) error {
		cells, err := tx.Cells(false)
		if err != nil {
			return err
		}
		id := ""
		for _, c := range cells {
			if home.IsShared(c) {
				k.Caches = append(k.Caches, c.Name)
				continue
			}
			k.Cells = append(k.Cells, c.Name)
			if c.Name == cell {
				id = c.ID
			}
		}
		if err := addRuns(&k, tx, id); err != nil || id == "" {
			return err
		}
		return addCheckpoints(&k, tx, id)
	})
	return k
}

func addRuns(k *api.KnownNames, tx *store.Tx, cellID string) error {
	runs, err := tx.Runs("")
	for i := len(runs) - 1; i >= 0; i-- {
		r := runs[i]
		if r.ReceiptID != "" {
			k.Receipts = append(k.Receipts, r.ReceiptID+"\t"+r.Outcome+", "+r.Decision)
		}
		if r.CellID == cellID {
			k.Runs = append(k.Runs, r.ID+"\t"+r.Outcome+", "+r.Decision)
		}
	}
	return err
}

func addCheckpoints(k *api.KnownNames, tx *store.Tx, cellID string) error {
	k.Checkpoints = append(k.Checkpoints, "HEAD\tthe present state", "base\tthe first state", "applied\tthe state that the source has")
	names, err := tx.Names(cellID)
	if err != nil {
		return err
	}
	list, err := tx.Checkpoints(cellID)
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Freed {
			continue
		}
		for _, name := range names[list[i].ID] {
			k.Checkpoints = append(k.Checkpoints, name+"\t"+list[i].ID)
		}
		k.Checkpoints = append(k.Checkpoints, list[i].ID+"\t"+list[i].Kind)
	}
	return err
}
