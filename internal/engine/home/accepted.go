package home

import (
	"errors"
	"fmt"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/statements"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// Kinds of states.
const (
	KindSource = "source" // of the source, that a refresh sealed
	KindDrift  = "drift"  // with changes that were found in a live directory
)

// OldestUndecided is the oldest state in a lineage that a cell has not accepted.
type OldestUndecided struct {
	state store.Checkpoint
	run   *store.Run // the run that made the state; nil if it was captured from a live cell
}

// Describe says what waits in a cell.
func (u *OldestUndecided) Describe(c store.Cell) string {
	if u.run == nil && u.state.Kind == statements.UnclaimedState {
		return fmt.Sprintf("the statement of checkpoint %s is lost, and with it whether it was accepted", u.state.ID)
	}
	if u.run == nil {
		return fmt.Sprintf("checkpoint %s was captured of a live cell and is not accepted", u.state.ID)
	}
	return fmt.Sprintf("run %s is %s", u.run.ID, DecisionIn(c, *u.run))
}

// NewestAccepted returns the newest state of a lineage up to which the cell has
// accepted everything, and the first undecided state after it.
func NewestAccepted(tx *store.Tx, cell store.Cell, from store.Checkpoint) (store.Checkpoint, *OldestUndecided, error) {
	line, err := tx.Lineage(from.ID)
	if err != nil || len(line) == 0 {
		return from, nil, errors.Join(err, fmt.Errorf("checkpoint %s is not in the history", from.ID))
	}
	newest := line[len(line)-1]
	for _, c := range slices.Backward(line) {
		waiting, err := IsUnaccepted(tx, cell, c)
		if err == nil && waiting && c.ID == newest.ID {
			// The ancestors are lost, too: nothing of the lineage is accepted.
			newest, err = tx.Checkpoint(cell.Applied)
		}
		if err != nil || waiting {
			return newest, &OldestUndecided{state: c}, err
		}
		if c.RunID != "" {
			r, err := tx.Run(c.RunID)
			if err != nil {
				return newest, nil, err
			}
			if !AcceptedIn(cell, r, c) {
				return newest, &OldestUndecided{c, &r}, nil
			}
		}
		newest = c
	}
	return newest, nil, nil
}

// NewestUndecided returns the run that accept and reject mean when none is named:
// the newest undecided one whose work the head contains. Runs that changed nothing
// count only where no other is undecided, and failed ones last.
func NewestUndecided(tx *store.Tx, c store.Cell) (store.Run, error) {
	runs, err := UndecidedRuns(tx, c, c.Head)
	if err != nil {
		return store.Run{}, err
	}
	rank := func(r store.Run) int {
		switch {
		case r.Before != r.After:
			return 0
		case !r.Failed():
			return 1
		}
		return 2
	}
	if len(runs) == 0 {
		return store.Run{}, store.ErrNotFound
	}
	return slices.MinFunc(runs, func(a, b store.Run) int { return rank(a) - rank(b) }), nil
}

// AcceptHint returns the command that accepts what waits in the cell, with further flags,
// and what it does then. A failed run is accepted by its name and with --force only.
func AcceptHint(tx *store.Tx, c store.Cell, flags, does string) (string, error) {
	command := "`forkcell accept " + c.Name
	r, err := NewestUndecided(tx, c)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return "", err
	case r.Failed():
		command, does = command+" --run "+r.ID+" --force", does+" although it failed"
	}
	return command + flags + "` " + does, nil
}

// BaseState returns the state of the source that a state of the cell builds on: the
// last applied state, without the changes that a refresh took from the source after
// this state was made. Those changes are the source's.
func BaseState(tx *store.Tx, c store.Cell, state store.Checkpoint) (store.Checkpoint, error) {
	base, err := tx.Checkpoint(c.Applied)
	if err == nil && base.Kind == KindSource {
		base, err = knownSource(tx, base, state)
	}
	if errors.Is(err, store.ErrNotFound) {
		return base, api.Refusef(api.CodeStateLost, fmt.Sprintf("`forkcell export %s -o DIR` writes the state of the cell to a new directory", c.Name),
			"the state that was last applied from %s is lost, so the changes to write cannot be determined", c.Name)
	}
	return base, err
}

// knownSource returns the newest of a state of the source and those before it that a
// state builds on.
func knownSource(tx *store.Tx, source, state store.Checkpoint) (store.Checkpoint, error) {
	line, err := tx.Lineage(state.ID)
	if err != nil {
		return source, err
	}
	known := map[string]bool{}
	for _, c := range line {
		known[c.ID], known[c.Source] = true, true
	}
	for err == nil && source.Kind == KindSource && !known[source.ID] {
		source, err = tx.Checkpoint(source.Parent)
	}
	return source, err
}
