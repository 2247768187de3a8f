package home

import (
	"github.com/forkcell/forkcell/internal/storage/store"
)

// Lineage has the ids of a state and its ancestors, and of the runs that made them.
type Lineage map[string]bool

// HasWork reports whether a lineage has a run's work, or the accepted part of it.
func (l Lineage) HasWork(r store.Run) bool { return l[r.After] || l[r.ID] }

// LineageOf returns the lineage of a state.
func LineageOf(tx *store.Tx, tip string) (Lineage, error) {
	line, err := tx.Lineage(tip)
	set := Lineage{}
	for _, c := range line {
		set[c.ID] = true
		if c.RunID != "" {
			set[c.RunID] = true
		}
	}
	return set, err
}
