package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/evidence/statements"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/receipt"
)

// runToAccept finds the run to accept: the one named, else the newest undecided
// one, else the newest that was accepted already.
func (s *heldCell) runToAccept(tx *store.Tx, ref string) (store.Run, error) {
	if ref != "" {
		return s.e.FindRun(tx, s.Record, ref)
	}
	r, err := home.NewestUndecided(tx, s.Record)
	if !errors.Is(err, store.ErrNotFound) {
		return r, err
	}
	runs, err := home.Contained(tx, s.Record, s.Head.ID)
	if err != nil {
		return r, err
	}
	for _, r := range runs {
		if d := home.DecisionIn(s.Record, r); d == accepted || d == partial {
			return r, nil
		}
	}
	if _, err := s.e.FindRun(tx, s.Record, ""); err != nil {
		return r, err // the cell has no run
	}
	return r, api.Refusef(api.CodeNothing, "`forkcell log "+s.Record.Name+"` shows its runs and states",
		"the present state of %s has no run that could be accepted", s.Record.Name)
}

// runToReject finds the run to reject: the one named, else the newest undecided one.
// What is decided already is decided otherwise only by its name.
func (s *heldCell) runToReject(tx *store.Tx, ref string) (store.Run, error) {
	if ref != "" {
		return s.e.FindRun(tx, s.Record, ref)
	}
	r, err := home.NewestUndecided(tx, s.Record)
	if !errors.Is(err, store.ErrNotFound) {
		return r, err
	}
	if r, err = s.e.FindRun(tx, s.Record, ""); err != nil {
		return r, err
	}
	d, hint := home.DecisionIn(s.Record, r), "`forkcell reject "+s.Record.Name+" --run "+r.ID+"` rejects it all the same"
	if d == rejected {
		hint = "`forkcell log " + s.Record.Name + "` shows its runs and states"
	}
	return r, api.Refusef(api.CodeDecided, hint, "cell %s has no undecided run: its last one, %s, is %s", s.Record.Name, r.ID, d)
}

// acceptStates records that the cell accepts the captured states among the
// ancestors of tip. The caller stores the cell.
func (s *heldCell) acceptStates(tx *store.Tx, tip, head store.Checkpoint, reason string) ([]string, error) {
	waiting, err := home.UnacceptedStates(tx, s.Record, tip.ID)
	if err != nil || len(waiting) == 0 {
		return nil, err
	}
	if err := checkReason(reason); err != nil {
		return nil, err
	}
	var ids []string
	for _, state := range slices.Backward(waiting) {
		ids = append(ids, state.ID)
	}
	statements.RecordAccepted(&s.Record, ids)
	details := map[string]string{statements.DetailAccepted: strings.Join(ids, " "), "reason": quote.UTF8(reason)}
	return ids, s.e.Evidence.Change(tx, s.Record, head, receipt.OpAccept, details)
}

// acceptEarlier decides the undecided runs whose work is part of the accepted
// state, inherited ones included. A failed run is never accepted, but superseded.
// Captured states are accepted as well. chosen is the accepted run or captured
// state, tip the accepted state, and head the state of the cell afterwards.
func (s *heldCell) acceptEarlier(tx *store.Tx, chosen string, tip, head store.Checkpoint, d decision) ([]string, error) {
	runs, err := home.UndecidedRuns(tx, s.Record, tip.ID)
	if err != nil {
		return nil, err
	}
	var also []string
	for _, r := range slices.Backward(runs) {
		if r.ID == chosen {
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
		if r.CellID != s.Record.ID {
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

// maxReason bounds the reason of a decision: statements are never freed.
const maxReason = 4096

func checkReason(reason string) error {
	if len(reason) > maxReason {
		return api.Usagef("", "a reason has at most %d bytes", maxReason)
	}
	return nil
}

// decideRun signs and records a decision about a run.
func (s *heldCell) decideRun(tx *store.Tx, r store.Run, result string, head store.Checkpoint, d decision) (string, error) {
	if err := checkReason(d.Reason); err != nil {
		return "", err
	}
	id := store.NewID("dec")
	st, err := tx.StatementByID(r.ReceiptID)
	if err != nil {
		return "", fmt.Errorf("receipt of %s: %w", r.ID, err)
	}
	p := &receipt.Decision{
		DecisionID: id, ReceiptID: r.ReceiptID, ReceiptSHA256: st.Digest, RunID: r.ID, Result: receipt.Result(result),
		Automatic: d.Automatic, Forced: d.Forced, Reason: quote.UTF8(d.Reason),
		HeadBefore: statements.Ref(s.Head), HeadAfter: statements.Checkpoint(head, ""),
		Only: quote.AllUTF8(d.Only), Except: quote.AllUTF8(d.Except), Race: d.Race,
	}
	if err := s.e.Evidence.Decision(tx, s.Record, p); err != nil {
		return "", err
	}
	// A fork is no final decision: the run may still be accepted or restored.
	if result != forked {
		err = statements.RecordDecision(tx, &s.Record, r, result)
	}
	return id, err
}
