package history

import (
	"context"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// Graph returns the lineage of all cells, parents first.
func (h *History) Graph(context.Context) ([]api.GraphNode, error) {
	nodes := []api.GraphNode{}
	if h.Store == nil {
		return nodes, nil
	}
	err := h.Store.View(func(tx *store.Tx) error {
		cells, err := tx.Cells(true)
		if err != nil {
			return err
		}
		heads, called := map[string][]string{}, map[string]string{}
		for _, c := range cells {
			called[c.ID] = c.LastName
			if c.Name != "" {
				heads[c.Head] = append(heads[c.Head], c.Name)
			}
		}
		names, err := tx.Names("")
		if err != nil {
			return err
		}
		chks, err := tx.Checkpoints("")
		if err != nil {
			return err
		}
		for _, chk := range chks {
			node := api.GraphNode{
				CheckpointID: chk.ID, Parent: chk.Parent, Cell: called[chk.CellID], Kind: chk.Kind, Root: chk.Root(),
				Names: append([]string{}, names[chk.ID]...), Heads: append([]string{}, heads[chk.ID]...),
				RunID: chk.RunID, Freed: chk.Freed, CreatedAt: chk.CreatedAt,
			}
			if chk.RunID != "" {
				r, err := tx.Run(chk.RunID)
				if err != nil {
					return err
				}
				node.Outcome, node.Decision = r.Outcome, r.Decision
			}
			nodes = append(nodes, node)
		}
		return nil
	})
	return nodes, err
}

// RecentStates returns the newest states of a cell, at most limit, besides its head
// and the states that its forks began with, parents first. Forks that the caller does
// not see are left out.
func (h *History) RecentStates(_ context.Context, name string, limit int) (nodes []api.GraphNode, err error) {
	c, err := h.FindCell(name)
	if err != nil {
		return nil, err
	}
	err = h.View(func(tx *store.Tx) error {
		states, err := tx.NewestCheckpoints(c.ID, limit)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(states, func(s store.Checkpoint) bool { return s.ID == c.Head }) {
			head, err := tx.Checkpoint(c.Head)
			if err != nil {
				return err
			}
			states = append(states, head)
		}
		slices.SortFunc(states, func(a, b store.Checkpoint) int { return int(a.Ord - b.Ord) })
		names, err := tx.Names(c.ID)
		if err != nil {
			return err
		}
		heads, err := h.forkPoints(tx, c)
		if err != nil {
			return err
		}
		heads[c.Head] = append([]string{c.Name}, heads[c.Head]...)
		for _, s := range states {
			node, err := recentNode(tx, c, s)
			if err != nil {
				return err
			}
			node.Names, node.Heads = append(node.Names, names[s.ID]...), append(node.Heads, heads[s.ID]...)
			nodes = append(nodes, node)
		}
		return nil
	})
	return nodes, err
}

// forkPoints maps states of a cell to the names of the cells that were forked there.
func (h *History) forkPoints(tx *store.Tx, c store.Cell) (map[string][]string, error) {
	cells, err := tx.Cells(false)
	points := map[string][]string{}
	for _, fork := range cells {
		if fork.ForkedCell == c.ID && !home.IsShared(fork) && (h.Caller.Sees == nil || h.Caller.Sees(fork.Name)) {
			points[fork.ForkedCheckpoint] = append(points[fork.ForkedCheckpoint], fork.Name)
		}
	}
	return points, err
}

func recentNode(tx *store.Tx, c store.Cell, s store.Checkpoint) (api.GraphNode, error) {
	node := api.GraphNode{
		CheckpointID: s.ID, Parent: s.Parent, Cell: c.Name, Kind: s.Kind, Root: s.Root(), Names: []string{}, Heads: []string{},
		RunID: s.RunID, Freed: s.Freed, CreatedAt: s.CreatedAt,
	}
	if s.RunID == "" {
		return node, nil
	}
	r, err := tx.Run(s.RunID)
	node.Outcome, node.Decision = r.Outcome, r.Decision
	return node, err
}
