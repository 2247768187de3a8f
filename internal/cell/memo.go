package cell

import (
	"slices"
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

// ownBytes returns the disk space of a cell's own states.
func (e *Engine) ownBytes(tx *store.Tx, c store.Cell, h store.History) (int64, error) {
	return e.shared.memos.ownBytes.get(c.ID, memoStamp{history: h}, func() (int64, error) {
		own, err := tx.Checkpoints(c.ID)
		return ownBytes(own), err
	})
}

// undecided returns the work in a cell that waits for a decision.
func (e *Engine) undecided(tx *store.Tx, c store.Cell, h store.History) (undecidedWork, error) {
	at := memoStamp{history: h, head: c.Head, applied: c.Applied}
	foreign, err := e.shared.memos.foreign.get(c.ID, at, func() (bool, error) {
		line, err := tx.Lineage(c.Head)
		return slices.ContainsFunc(line, func(s store.Checkpoint) bool { return s.CellID != c.ID }), err
	})
	if err == nil && foreign {
		var last store.Statement
		last, err = tx.LastStatement()
		at.log = last.Seq
	}
	if err != nil {
		return undecidedWork{}, err
	}
	return e.shared.memos.undecided.get(c.ID, at, func() (work undecidedWork, err error) {
		if work.runs, err = pendingRuns(tx, c); err != nil {
			return work, err
		}
		states, err := unacceptedStates(tx, c, c.Head)
		for _, state := range slices.Backward(states) {
			work.states = append(work.states, state.ID)
		}
		return work, err
	})
}
