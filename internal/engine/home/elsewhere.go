package home

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// CountOutside counts what differs between two states outside the workspace, for each area,
// the home first. It is nil if gc has freed one of them.
func (h *Home) CountOutside(ctx context.Context, from, to store.Checkpoint) ([]api.AreaChange, error) {
	if from.Freed || to.Freed {
		return nil, nil
	}
	var list []api.AreaChange
	for _, area := range otherAreas(from, to) {
		n, err := h.countChanges(ctx, from, to, area)
		if err != nil && (h.WasFreed(from) || h.WasFreed(to)) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if n > 0 {
			list = append(list, api.AreaChange{Area: areaName(area), Files: n})
		}
	}
	return list, nil
}

// ElsewhereIn is Elsewhere for two states by their ids.
func (h *Home) ElsewhereIn(ctx context.Context, from, to string) (list []api.AreaChange, err error) {
	if from == to {
		return nil, nil
	}
	var sides [2]store.Checkpoint
	err = h.View(func(tx *store.Tx) error {
		for i, id := range []string{from, to} {
			if sides[i], err = tx.Checkpoint(id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return h.CountOutside(ctx, sides[0], sides[1])
}

// otherAreas lists the areas but the workspace in which two states may differ.
func otherAreas(a, b store.Checkpoint) []string {
	names := map[string]bool{}
	for _, areas := range []map[string]store.Area{a.Areas, b.Areas} {
		for name := range areas {
			if name != workspace.AreaWorkspace && a.Areas[name] != b.Areas[name] {
				names[name] = true
			}
		}
	}
	sorted := slices.Sorted(maps.Keys(names))
	if at := slices.Index(sorted, workspace.AreaHome); at > 0 {
		sorted = slices.Insert(slices.Delete(sorted, at, at+1), 0, workspace.AreaHome)
	}
	return sorted
}

// areaName returns what messages call an area: home, cache, or its path in the cell.
func areaName(area string) string {
	if _, dir, found := strings.Cut(area, ":"); found {
		return dir
	}
	return area
}

func (h *Home) countChanges(ctx context.Context, from, to store.Checkpoint, area string) (int, error) {
	sides := []store.Checkpoint{from, to}
	owners, err := h.Owners(sides)
	if err != nil {
		return 0, err
	}
	was, now, err := h.Trees(from, to, area)
	if err != nil {
		return 0, err
	}
	return tree.CountChanges(was, now, tree.DiffOptions{Renames: true, SameBytes: func(p string, old, now tree.Entry) (bool, error) {
		return h.SameBytes(ctx, sides, owners, area, p, old, now)
	}})
}
