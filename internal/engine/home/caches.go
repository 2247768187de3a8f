package home

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// The shared caches are cells, so that the log, recover, verify, gc and df treat
// them like every other: one for the home, and one for each source directory, and the
// same for each prefix of tokens.
// Nothing ever runs in them. No other cell can have their names, and only reading
// verbs find them.
const (
	SourceCache = "cache" // the source kind of shared caches
	CachePrefix = "cache:"
	AllCells    = "home" // follows the prefix in the name of the one for all cells
)

// AreaCache is the area of a cell's caches.
const AreaCache = "cache"

// DetailFromCell has the name of the promoted cell, in the statement about a promotion.
const DetailFromCell = "from_cell"

// IsShared reports whether a cell is a shared cache.
func IsShared(c store.Cell) bool { return c.SourceKind == SourceCache }

// OrdinaryCells returns the cells that are no shared caches, by name.
func OrdinaryCells(tx *store.Tx) ([]store.Cell, error) {
	cells, err := tx.Cells(false)
	return slices.DeleteFunc(cells, IsShared), err
}

// RemovedFor is how long the states of a removed cell are kept. Until then the cell can be
// brought back.
const RemovedFor = 7 * 24 * time.Hour

// RemovedCells returns the removed cells that can be brought back, by the name that they
// had, each with that name as LastName.
func (h *Home) RemovedCells(tx *store.Tx) ([]store.Cell, error) {
	cells, err := tx.RemovedCells()
	if err != nil {
		return nil, err
	}
	var found []store.Cell
	for _, c := range cells {
		if h.Now().Sub(c.RemovedAt) >= RemovedFor {
			continue
		}
		head, err := tx.Checkpoint(c.Head)
		if err != nil {
			return nil, err
		}
		if !head.Freed {
			found = append(found, c)
		}
	}
	return found, nil
}

// FindAny looks up a cell or a shared cache, for verbs that only read.
func (h *Home) FindAny(name string) (store.Cell, error) {
	if !strings.HasPrefix(name, CachePrefix) {
		return h.FindCell(name)
	}
	var c store.Cell
	err := h.View(func(tx *store.Tx) (err error) {
		c, err = tx.Cell(name)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return c, NoSharedCache(name)
	}
	return c, err
}

// NoSharedCache returns the error for a shared cache that does not exist.
func NoSharedCache(name string) error {
	return api.Missing("shared cache", quote.Arg(name), "`forkcell cache ls` shows them")
}
