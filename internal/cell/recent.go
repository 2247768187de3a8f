package cell

import (
	"context"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/home"
	"github.com/forkcell/forkcell/internal/store"
)

// RecentStates returns the newest states of a cell, at most limit, besides its head
// and the states that its forks began with, parents first. Forks that the caller does
// not see are left out.
func (e *Engine) RecentStates(_ context.Context, name string, limit int) (nodes []api.GraphNode, err error) {
	c, err := e.FindCell(name)
	if err != nil {
		return nil, err
	}
	err = e.View(func(tx *store.Tx) error {
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
		heads, err := e.forkPoints(tx, c)
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
func (e *Engine) forkPoints(tx *store.Tx, c store.Cell) (map[string][]string, error) {
	cells, err := tx.Cells(false)
	points := map[string][]string{}
	for _, fork := range cells {
		if fork.ForkedCell == c.ID && !home.IsShared(fork) && (e.Caller.Sees == nil || e.Caller.Sees(fork.Name)) {
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
