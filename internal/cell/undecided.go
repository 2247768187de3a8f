package cell

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence"
	"github.com/forkcell/forkcell/internal/home"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/receipt"
)

// decisionIn returns the decision about a run that is valid in a cell. A fork
// decides for itself about inherited work; a decision to accept in the run's own
// cell is valid in the fork, too.
func decisionIn(c store.Cell, r store.Run) string {
	if r.CellID == c.ID {
		return r.Decision
	}
	if own := c.Inherited[r.ID]; own != "" {
		return own
	}
	if keepsWork(r.Decision) {
		return r.Decision
	}
	return pending
}

// keepsWork reports whether a decision keeps a run's work, or a part of it.
func keepsWork(decision string) bool {
	return decision == accepted || decision == superseded || decision == partial
}

// acceptedIn reports whether a cell has accepted a state as the run left it, or the
// selected part of it.
func acceptedIn(c store.Cell, r store.Run, state store.Checkpoint) bool {
	decision := decisionIn(c, r)
	if decision == partial {
		return state.Kind == evidence.PartialState
	}
	return keepsWork(decision)
}

// undecidedIn reports whether a run that a cell contains is undecided: it has no
// decision, or its work was undone and then brought back.
func undecidedIn(c store.Cell, r store.Run) bool {
	decision := decisionIn(c, r)
	return decision == pending || isUndone(decision) && r.Before != r.After
}

// contained lists the finished runs whose work is part of a state, the newest
// first: the runs that made it or one of its ancestors, inherited ones included,
// and the cell's own runs that changed nothing.
func contained(tx *store.Tx, c store.Cell, tip string) ([]store.Run, error) {
	line, err := tx.Lineage(tip)
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
	own, err := tx.Runs(c.ID)
	for _, r := range own {
		if r.Before == r.After && states[r.After] {
			found[r.ID] = r
		}
	}
	runs := slices.SortedFunc(maps.Values(found), func(a, b store.Run) int { return cmp.Compare(b.Ord, a.Ord) })
	return slices.DeleteFunc(runs, func(r store.Run) bool { return r.State != "done" }), err
}

// newestUndecided returns the run that accept and reject mean when none is named:
// the newest undecided one whose work the head contains. Runs that changed nothing
// count only where no other is undecided, and failed ones last.
func newestUndecided(tx *store.Tx, c store.Cell) (store.Run, error) {
	runs, err := contained(tx, c, c.Head)
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
	runs = slices.DeleteFunc(runs, func(r store.Run) bool { return !undecidedIn(c, r) })
	if len(runs) == 0 {
		return store.Run{}, store.ErrNotFound
	}
	return slices.MinFunc(runs, func(a, b store.Run) int { return rank(a) - rank(b) }), nil
}

// runToAccept finds the run to accept: the one named, else the newest undecided
// one, else the newest that was accepted already.
func (s *session) runToAccept(tx *store.Tx, ref string) (store.Run, error) {
	if ref != "" {
		return s.e.FindRun(tx, s.cell, ref)
	}
	r, err := newestUndecided(tx, s.cell)
	if !errors.Is(err, store.ErrNotFound) {
		return r, err
	}
	runs, err := contained(tx, s.cell, s.head.ID)
	if err != nil {
		return r, err
	}
	for _, r := range runs {
		if d := decisionIn(s.cell, r); d == accepted || d == partial {
			return r, nil
		}
	}
	if _, err := s.e.FindRun(tx, s.cell, ""); err != nil {
		return r, err // the cell has no run
	}
	return r, api.Refusef(api.CodeNothing, "`forkcell log "+s.cell.Name+"` shows its runs and states",
		"the present state of %s has no run that could be accepted", s.cell.Name)
}

// runToReject finds the run to reject: the one named, else the newest undecided
// one, else the last.
func (s *session) runToReject(tx *store.Tx, ref string) (store.Run, error) {
	if ref == "" {
		r, err := newestUndecided(tx, s.cell)
		if !errors.Is(err, store.ErrNotFound) {
			return r, err
		}
	}
	return s.e.FindRun(tx, s.cell, ref)
}

func isUndone(decision string) bool { return decision == restored || decision == rejected }

// unacceptedStates lists the captured states in the lineage of tip that a cell has
// not accepted, the newest first.
func unacceptedStates(tx *store.Tx, c store.Cell, tip string) ([]store.Checkpoint, error) {
	line, err := tx.Lineage(tip)
	if err != nil {
		return nil, err
	}
	var found []store.Checkpoint
	for _, state := range line {
		waiting, err := unaccepted(tx, c, state)
		if err != nil {
			return nil, err
		}
		if waiting {
			found = append(found, state)
		}
	}
	return found, nil
}

// unaccepted reports whether a state was captured from a live cell, or has lost its
// statement, and the cell has not accepted it. No run is known to have ended with
// such a state, so no decision about a run covers it. A state that was applied
// counts as accepted: earlier versions did not record it.
func unaccepted(tx *store.Tx, c store.Cell, state store.Checkpoint) (bool, error) {
	if state.Kind != kindLive && state.Kind != evidence.UnclaimedState || c.Inherited[state.ID] == accepted {
		return false, nil
	}
	applied, err := home.InLineage(tx, state.ID, c.Applied)
	return !applied, err
}

// acceptStates records that the cell accepts the captured states among the
// ancestors of tip. The caller stores the cell.
func (s *session) acceptStates(tx *store.Tx, tip, head store.Checkpoint, reason string) ([]string, error) {
	waiting, err := unacceptedStates(tx, s.cell, tip.ID)
	if err != nil || len(waiting) == 0 {
		return nil, err
	}
	var ids []string
	for _, state := range slices.Backward(waiting) {
		ids = append(ids, state.ID)
	}
	evidence.RecordAccepted(&s.cell, ids)
	details := map[string]string{evidence.DetailAccepted: strings.Join(ids, " "), "reason": quote.UTF8(reason)}
	return ids, s.e.Evidence.Change(tx, s.cell, head, receipt.OpAccept, details)
}

// acceptEarlier decides the undecided runs whose work is part of the accepted
// state, inherited ones included. A failed run is never accepted, but superseded.
// Captured states are accepted as well. chosen is the accepted run or captured
// state, tip the accepted state, and head the state of the cell afterwards.
func (s *session) acceptEarlier(tx *store.Tx, chosen string, tip, head store.Checkpoint, d decision) ([]string, error) {
	runs, err := contained(tx, s.cell, tip.ID)
	if err != nil {
		return nil, err
	}
	var also []string
	for _, r := range slices.Backward(runs) {
		if r.ID == chosen || !undecidedIn(s.cell, r) {
			continue
		}
		result := accepted
		if r.Failed() {
			result = superseded
		}
		part := decision{Reason: "part of " + chosen, Automatic: d.Automatic}
		if _, err := s.decideRun(tx, r, result, head, part); err != nil {
			return also, err
		}
		line := r.ID + " " + result
		if r.CellID != s.cell.ID {
			line += " (inherited)"
		}
		also = append(also, line)
	}
	states, err := s.acceptStates(tx, tip, head, d.Reason)
	for _, id := range states {
		if id != chosen {
			also = append(also, id+" "+accepted+" (captured)")
		}
	}
	return also, err
}

// decideRun signs and records a decision about a run.
func (s *session) decideRun(tx *store.Tx, r store.Run, result string, head store.Checkpoint, d decision) (string, error) {
	id := store.NewID("dec")
	st, err := tx.StatementByID(r.ReceiptID)
	if err != nil {
		return "", fmt.Errorf("receipt of %s: %w", r.ID, err)
	}
	p := &receipt.Decision{
		DecisionID: id, ReceiptID: r.ReceiptID, ReceiptSHA256: st.Digest, RunID: r.ID, Result: receipt.Result(result),
		Automatic: d.Automatic, Forced: d.Forced, Reason: quote.UTF8(d.Reason),
		HeadBefore: evidence.Ref(s.head), HeadAfter: evidence.Checkpoint(head, ""),
		Only: quote.AllUTF8(d.Only), Except: quote.AllUTF8(d.Except), Race: d.Race,
	}
	if err := s.e.Evidence.Decision(tx, s.cell, p); err != nil {
		return "", err
	}
	// A fork is no final decision: the run may still be accepted or restored.
	if result != forked {
		err = evidence.RecordDecision(tx, &s.cell, r, result)
	}
	return id, err
}
