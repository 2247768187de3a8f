package diff

import (
	"context"
	"sync"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// CountChanges counts the changes that Diff lists. A live cell is not captured for it: its
// newest captured state, such as a turn, stands for the present one.
func (e *Comparer) CountChanges(ctx context.Context, req api.DiffRequest) (int, error) {
	c, err := e.FindCell(req.Cell)
	if err != nil {
		return 0, err
	}
	d := &comparison{e: e, cell: c, req: req, captured: true}
	if err := d.resolve(ctx); err != nil {
		return 0, err
	}
	key, err := d.countKey()
	if err != nil {
		return 0, err
	}
	whole := d.only == nil && !req.All && len(req.Paths) == 0
	if n, known := e.counts.get(key); known && whole {
		return n, nil
	}
	n, err := d.count(ctx)
	if err == nil && whole {
		e.counts.put(key, n)
	}
	return n, err
}

// count compares the two states.
func (d *comparison) count(ctx context.Context) (n int, err error) {
	res := &Result{}
	if err := d.compare(ctx, res); err != nil {
		return 0, err
	}
	err = res.Each(func(tree.Change) error {
		n++
		return nil
	})
	return n, err
}

// countKey is what the number of changes depends on: two states, and the last run that
// masked files of the cell, whose changes are set aside.
type countKey struct{ from, to, masked string }

func (d *comparison) countKey() (countKey, error) {
	key := countKey{from: d.from.ID, to: d.to.ID}
	err := d.e.View(func(tx *store.Tx) error {
		masks, err := d.e.masks.Runs(tx, d.cell.ID)
		if len(masks) > 0 {
			key.masked = masks[len(masks)-1].ID
		}
		return err
	})
	return key, err
}

// maxCounts bounds a Counts.
const maxCounts = 10_000

// Counts keeps the numbers of changes between states, which never change.
type Counts struct {
	mu    sync.Mutex
	known map[countKey]int
}

func (m *Counts) get(key countKey) (n int, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, known = m.known[key]
	return n, known
}

func (m *Counts) put(key countKey, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= maxCounts {
		m.known = map[countKey]int{}
	}
	m.known[key] = n
}
