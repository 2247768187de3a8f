// Package inventory describes what a home has now: its cells, their states and shared
// caches, the disk space of each, and what live cells use.
//
// It reads, and changes nothing. It takes no lock and finishes no work of a dead
// process.
package inventory

import (
	"sync"
	"sync/atomic"

	"github.com/forkcell/forkcell/internal/engine/home"
)

// Inventory carries out the verbs that describe a home.
type Inventory struct {
	*home.Home
	kept *State
}

// State is the state that all inventories of one home share, for every caller. The zero value
// is ready to use.
type State struct {
	memos   memos
	records atomic.Bool // see KeepRecords
	listing sync.Mutex  // held while all records are read
}

// New makes an Inventory.
func New(h *home.Home, kept *State) *Inventory { return &Inventory{h, kept} }
