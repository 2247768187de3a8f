package home

import (
	"cmp"
	"maps"
	"slices"

	"github.com/forkcell/forkcell/internal/evidence/statements"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// KindLive is the kind of a state captured from a live cell. It is not in the lineage
// of the cell's head.
const KindLive = "live"

// DecisionIn returns the decision about a run that is valid in a cell. A fork
// decides for itself about inherited work; a decision to accept in the run's own
// cell is valid in the fork, too.
func DecisionIn(c store.Cell, r store.Run) string { return decisionIn(c, r.ID, r.CellID, r.Decision) }

// decisionIn is DecisionIn of a run of a cell with a decision there.
func decisionIn(c store.Cell, run, cell, decision string) string {
	if cell == c.ID {
		return decision
	}
	if own := c.Inherited[run]; own != "" {
		return own
	}
	if KeepsWork(decision) {
		return decision
	}
	return string(receipt.Pending)
}

// KeepsWork reports whether a decision keeps a run's work, or a part of it.
func KeepsWork(decision string) bool {
	r := receipt.Result(decision)
	return r == receipt.Accepted || r == receipt.Superseded || r == receipt.Partial
}

// AcceptedIn reports whether a cell has accepted a state as the run left it, or the
// selected part of it.
func AcceptedIn(c store.Cell, r store.Run, state store.Checkpoint) bool {
	decision := DecisionIn(c, r)
	if decision == string(receipt.Partial) {
		return state.Kind == statements.PartialState
	}
	return KeepsWork(decision)
}

// UndecidedIn reports whether a run that a cell contains is undecided: it has no
// decision, or its work was undone and then brought back.
func UndecidedIn(c store.Cell, r store.Run) bool {
	decision := DecisionIn(c, r)
	return decision == string(receipt.Pending) || IsUndone(decision) && r.Before != r.After
}

// Contained lists the finished runs whose work is part of a state, the newest
// first: the runs that made it or one of its ancestors, inherited ones included,
// and the cell's own runs that changed nothing.
func Contained(tx *store.Tx, c store.Cell, tip string) ([]store.Run, error) {
	line, err := tx.Lineage(tip)
	if err != nil {
		return nil, err
	}
	own, err := tx.Runs(c.ID)
	if err != nil {
		return nil, err
	}
	found := map[string]store.Run{}
	states := map[string]bool{}
	for _, chk := range line {
		states[chk.ID] = true
		if chk.RunID == "" {
			continue
		}
		if found[chk.RunID], err = tx.Run(chk.RunID); err != nil {
			return nil, err
		}
	}
	for _, r := range own {
		if r.Before == r.After && states[r.After] {
			found[r.ID] = r
		}
	}
	runs := slices.SortedFunc(maps.Values(found), func(a, b store.Run) int { return cmp.Compare(b.Ord, a.Ord) })
	return slices.DeleteFunc(runs, func(r store.Run) bool { return r.State != "done" }), nil
}

// IsUndone reports whether a decision undoes the work of a run.
func IsUndone(decision string) bool {
	r := receipt.Result(decision)
	return r == receipt.Restored || r == receipt.Rejected
}

// UnacceptedStates lists the captured states in the lineage of tip that a cell has
// not accepted, the newest first.
func UnacceptedStates(tx *store.Tx, c store.Cell, tip string) ([]store.Checkpoint, error) {
	line, err := tx.Ancestors(tip)
	if err != nil {
		return nil, err
	}
	var found []store.Checkpoint
	for _, a := range line {
		waiting, err := isUnaccepted(tx, c, a.ID, a.Kind)
		if err != nil {
			return nil, err
		}
		if !waiting {
			continue
		}
		state, err := tx.Checkpoint(a.ID)
		if err != nil {
			return nil, err
		}
		found = append(found, state)
	}
	return found, nil
}

// IsCaptured reports whether a state was captured from a live cell, or has lost its
// statement.
func IsCaptured(state store.Checkpoint) bool { return isCaptured(state.Kind) }

func isCaptured(kind string) bool { return kind == KindLive || kind == statements.UnclaimedState }

// IsUnaccepted reports whether a state was captured from a live cell, or has lost its
// statement, and the cell has not accepted it. No run is known to have ended with
// such a state, so no decision about a run covers it. A state that was applied
// counts as accepted: earlier versions did not record it.
func IsUnaccepted(tx *store.Tx, c store.Cell, state store.Checkpoint) (bool, error) {
	return isUnaccepted(tx, c, state.ID, state.Kind)
}

func isUnaccepted(tx *store.Tx, c store.Cell, state, kind string) (bool, error) {
	if !isCaptured(kind) || c.Inherited[state] == string(receipt.Accepted) {
		return false, nil
	}
	applied, err := InLineage(tx, state, c.Applied)
	return !applied, err
}
