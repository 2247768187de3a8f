package inventory

import (
	"context"

	"github.com/forkcell/forkcell/internal/storage/store"
)

// Lineage returns the names of all cells, also of removed ones, and whether each belongs
// to the lineage of a cell, by its id: the cell, what was made for it (with its id as
// prefix), and the forks of any of these. A name that a cell outside has had does not
// belong.
func (inv *Inventory) Lineage(_ context.Context, root string) (map[string]bool, error) {
	var cells []store.Cell
	// The caller may be asked about a name in the middle of another look.
	err := inv.Store.ViewApart(func(tx *store.Tx) (err error) {
		cells, err = tx.Cells(true)
		return err
	})
	if err != nil {
		return nil, err
	}
	byID := map[string]store.Cell{}
	for _, c := range cells {
		byID[c.ID] = c
	}
	names := map[string]bool{}
	for _, c := range cells {
		belongs := descends(byID, c, root)
		for _, name := range []string{c.Name, c.LastName} {
			if was, known := names[name]; known {
				names[name] = was && belongs
			} else if name != "" {
				names[name] = belongs
			}
		}
	}
	return names, nil
}

// descends reports whether a cell, or one that it was forked from, is the root or was made
// for it.
func descends(byID map[string]store.Cell, c store.Cell, root string) bool {
	for range len(byID) { // a damaged record could name a circle
		if c.ID == root || c.Prefix == root {
			return true
		}
		from, known := byID[c.ForkedCell]
		if !known {
			return false
		}
		c = from
	}
	return false
}
