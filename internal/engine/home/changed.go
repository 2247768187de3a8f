package home

import (
	"context"

	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// ChangedBetween counts the changes of the workspace between two states of a cell. It is 0
// if the first one is not known.
func (h *Home) ChangedBetween(ctx context.Context, c store.Cell, from, to store.Checkpoint) (n int, err error) {
	if from.ID == "" || from.Freed || to.Freed {
		return 0, nil
	}
	old, now, err := h.Trees(from, to, workspace.AreaWorkspace)
	if err != nil {
		return 0, h.ReadError(err, from, to)
	}
	err = tree.DiffFunc(old, now, tree.DiffOptions{SameBytes: func(p string, a, b tree.Entry) (bool, error) {
		return h.SameBytes(ctx, []store.Checkpoint{from, to}, []store.Cell{c, c}, workspace.AreaWorkspace, p, a, b)
	}}, func(tree.Change) error {
		n++
		return ctx.Err()
	})
	return n, h.ReadError(err, from, to)
}

// AddChanged adds the paths that differ between two states to a set.
func (h *Home) AddChanged(ctx context.Context, c store.Cell, from, to store.Checkpoint, set map[string]bool) error {
	a, b, err := h.Trees(from, to, workspace.AreaWorkspace)
	if err != nil {
		return err
	}
	return tree.DiffFunc(a, b, tree.DiffOptions{SameBytes: func(name string, old, now tree.Entry) (bool, error) {
		return h.SameBytes(ctx, []store.Checkpoint{from, to}, []store.Cell{c, c}, workspace.AreaWorkspace, name, old, now)
	}}, func(ch tree.Change) error {
		set[ch.Path] = true
		return ctx.Err()
	})
}
