package inventory

import (
	"sync"

	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// maxMemo bounds the number of cells of which a memo keeps a value.
const maxMemo = 10_000

// memo keeps a value that was computed of each cell, until the stamp changes that it
// depends on.
type memo[S comparable, T any] struct {
	mu     sync.Mutex
	values map[string]memoized[S, T]
}

type memoized[S comparable, T any] struct {
	at    S
	value T
}

// memoStamp is what a value depends on that is computed of a cell's history. With it
// the cost of showing a cell does not follow its history.
type memoStamp struct {
	history       store.History
	head, applied string
	// log is the number of the newest statement of the home, for a cell that has
	// states of other cells: decisions there count.
	log int64
}

// get returns the value of a key at a stamp, and computes it if the stamp has changed.
func (m *memo[S, T]) get(key string, at S, compute func() (T, error)) (T, error) {
	m.mu.Lock()
	kept, ok := m.values[key]
	m.mu.Unlock()
	if ok && kept.at == at {
		return kept.value, nil
	}
	value, err := compute()
	if err != nil {
		return value, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.values == nil || len(m.values) >= maxMemo {
		m.values = map[string]memoized[S, T]{}
	}
	m.values[key] = memoized[S, T]{at, value}
	return value, nil
}

// memos are the values that are kept.
type memos struct {
	ownBytes  memo[memoStamp, int64]
	foreign   memo[memoStamp, bool] // a state of the cell's line is of another cell
	undecided memo[memoStamp, undecidedWork]

	// The following hold until the database changes.
	list   memo[store.Version, []*cellRecord] // every cell, under ""
	status memo[store.Version, *statusRecord] // by the cell's name
	work   memo[store.Version, abandonedWork] // work under way in all cells, under ""
}

// undecidedWork is the work in a cell that waits for a decision, the oldest first.
type undecidedWork struct {
	runs, states []string
	// before is the state before the oldest of the work that changed something.
	before store.Checkpoint
	work   []home.Work
}
