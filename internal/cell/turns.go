package cell

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/store"
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
	// begin is the state before the first of them; "" without turns.
	begin string
}

func (k *knownTurns) newest() int {
	if len(k.turns) == 0 {
		return 0
	}
	return k.turns[len(k.turns)-1].Turn
}

// turnsOf reads the turns of a cell from its statements.
func (e *Engine) turnsOf(c store.Cell) (*knownTurns, error) {
	k := &knownTurns{turns: []api.TurnInfo{}, runs: []string{}}
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
	k.turns = append(k.turns, api.TurnInfo{CheckpointID: k.begin, At: runs[0].StartedAt, RunID: runs[0].ID})
	for _, r := range runs {
		k.runs = append(k.runs, r.ID)
		if err := e.leave(k, r.Before); err != nil {
			return nil, err
		}
		for _, t := range taken {
			if t.RunID == r.ID {
				k.turns = append(k.turns, t)
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

// leave marks the turns after the one that a cell was rewound to. at is the state
// that the cell went on with, or its head: the state of a turn, or one that was made
// from it. Any other state leaves no turn.
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
		if t := k.turns[i]; !t.Left && (t.CheckpointID == at || t.CheckpointID == parent) {
			for j := i + 1; j < len(k.turns); j++ {
				k.turns[j].Left = true
			}
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
