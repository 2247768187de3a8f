package cell

import (
	"sync"

	"github.com/forkcell/forkcell/internal/store"
)

// maxMemo bounds the number of cells of which a memo keeps a value.
const maxMemo = 10_000

// memo keeps a value that was computed of each cell's history, until the history
// changes. So the cost of showing a cell does not follow its history.
type memo[T any] struct {
	mu     sync.Mutex
	values map[string]memoized[T]
}

type memoized[T any] struct {
	at    memoStamp
	value T
}

// memoStamp is what a value depends on.
type memoStamp struct {
	history       store.History
	head, applied string
	// log is the number of the newest statement of the home, for a cell that has
	// states of other cells: decisions there count.
	log int64
}

// get returns the value of a cell at a stamp, and computes it if it has changed.
func (m *memo[T]) get(cellID string, at memoStamp, compute func() (T, error)) (T, error) {
	m.mu.Lock()
	kept, ok := m.values[cellID]
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
		m.values = map[string]memoized[T]{}
	}
	m.values[cellID] = memoized[T]{at, value}
	return value, nil
}

// memos are the values that are kept.
type memos struct {
	ownBytes  memo[int64]
	foreign   memo[bool] // a state of the cell's line is of another cell
	undecided memo[undecidedWork]
}

// undecidedWork is the work in a cell that waits for a decision, the oldest first.
type undecidedWork struct{ runs, states []string }
