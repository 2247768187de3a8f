// Package history answers what happened in a home: the log and the runs of cells,
// receipts and their verification, decisions, keys, events, the journal of requests, and
// what a policy would have to allow.
package history

import (
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/engine/inventory"
	"github.com/forkcell/forkcell/internal/evidence/eventquery"
)

// History carries out the verbs that show what happened.
type History struct {
	*home.Home
	cells *inventory.Inventory
	kept  *State
}

// State is the state that all histories of one home share, for every caller. The zero value
// is ready to use.
type State struct {
	journals eventquery.Notices
	events   eventquery.Index
	runs     knownRuns
}

// New makes a History.
func New(h *home.Home, cells *inventory.Inventory, kept *State) *History {
	return &History{h, cells, kept}
}
