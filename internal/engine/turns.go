package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// Turn takes a turn of a live cell.
func (e *Engine) Turn(ctx context.Context, cell string) (*api.TurnInfo, error) {
	client, err := e.DialLive(ctx, cell)
	if err != nil {
		return nil, err
	}
	return client.Turn(ctx)
}

// Turns lists the turns of a cell, the oldest first. Turn 0 is the state before the
// first run that takes turns.
func (e *Engine) Turns(_ context.Context, cell string) (*api.TurnList, error) {
	c, err := e.FindAny(cell)
	if err != nil {
		return nil, err
	}
	known, err := e.turnsOf(c)
	if err != nil {
		return nil, err
	}
	return &api.TurnList{Cell: c.Name, Turns: known.turns, RunIDs: known.runs}, nil
}

// knownTurns are the turns of a cell.
type knownTurns struct {
	turns []api.TurnInfo
	runs  []string
	// after has, for each turn, the index of the one that it followed; -1 for none.
	after []int
	// tip is the index of the turn that the cell is at, or went on from.
	tip int
	// begin is the state before the first of them; "" without turns.
	begin string
}

// add adds a turn that was taken after the present one.
func (k *knownTurns) add(t api.TurnInfo) {
	k.after = append(k.after, k.tip)
	k.tip = len(k.turns)
	k.turns = append(k.turns, t)
}

// goTo makes a turn the present one. All that it does not follow are left.
func (k *knownTurns) goTo(i int) {
	for j := range k.turns {
		k.turns[j].Left = true
	}
	for k.tip = i; i >= 0; i = k.after[i] {
		k.turns[i].Left = false
	}
}

func (k *knownTurns) newest() int {
	if len(k.turns) == 0 {
		return 0
	}
	return k.turns[len(k.turns)-1].Turn
}

// turnsOf reads the turns of a cell from its statements.
func (e *Engine) turnsOf(c store.Cell) (*knownTurns, error) {
	k := &knownTurns{turns: []api.TurnInfo{}, runs: []string{}, tip: -1}
	var taken []api.TurnInfo
	var runs []store.Run
	err := e.View(func(tx *store.Tx) error {
		all, err := tx.Runs(c.ID)
		if err != nil {
			return err
		}
		for _, r := range all {
			if r.Turns != nil {
				runs = append(runs, r)
			}
		}
		if len(runs) == 0 {
			return nil
		}
		statements, err := tx.Statements(c.ID)
		if err != nil {
			return err
		}
		for _, st := range statements {
			info, err := e.turnIn(st)
			if err != nil {
				return err
			}
			if info != nil {
				taken = append(taken, *info)
			}
		}
		return nil
	})
	if err != nil || len(runs) == 0 {
		return k, err
	}
	k.begin = runs[0].Before
	k.add(api.TurnInfo{CheckpointID: k.begin, At: runs[0].StartedAt, RunID: runs[0].ID})
	for _, r := range runs {
		k.runs = append(k.runs, r.ID)
		if err := e.leave(k, r.Before); err != nil {
			return nil, err
		}
		for _, t := range taken {
			if t.RunID == r.ID {
				k.add(t)
			}
		}
	}
	if runs[len(runs)-1].State == "running" {
		return k, nil // the head is the state that it began with
	}
	return k, e.leave(k, c.Head)
}

// turnIn returns the turn that a statement is about; nil if it is about none.
func (e *Engine) turnIn(st store.Statement) (*api.TurnInfo, error) {
	env, err := e.Evidence.Envelope(st.Seq)
	if err != nil {
		return nil, err
	}
	p, ok := env.Statement.Predicate.(*receipt.Change)
	if !ok || p.Details[detailTurn] == "" {
		return nil, nil //nolint:nilnil // as documented
	}
	var info api.TurnInfo
	if err := json.Unmarshal([]byte(p.Details[detailInfo]), &info); err != nil {
		return nil, fmt.Errorf("turn %s of cell %s: %w", p.Details[detailTurn], p.CellID, err)
	}
	info.CheckpointID = p.Checkpoint.ID
	return &info, nil
}

// leave marks the turns that are left when a cell is rewound to one, which may have been
// left itself. at is the state that the cell went on with, or its head: the state of a
// turn, or one that was made from it. Any other state leaves no turn.
func (e *Engine) leave(k *knownTurns, at string) error {
	parent := ""
	err := e.View(func(tx *store.Tx) error {
		c, err := tx.Checkpoint(at)
		if err == nil && c.Kind == kindRewound {
			parent = c.Parent
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := len(k.turns) - 1; i >= 0; i-- {
		if id := k.turns[i].CheckpointID; id == at || id == parent {
			k.goTo(i)
			return nil
		}
	}
	return nil
}

// find returns a turn by its number.
func (k *knownTurns) find(cell string, n int) (api.TurnInfo, error) {
	for _, t := range k.turns {
		if t.Turn == n {
			return t, nil
		}
	}
	return api.TurnInfo{}, api.Missing("turn", strconv.Itoa(n), "`forkcell session turns "+cell+"` lists them")
}
