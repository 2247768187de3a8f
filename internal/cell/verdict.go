package cell

import (
	"fmt"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/evidence"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/receipt"
)

// acceptStates states that the cell accepts the captured states that tip was made
// from. The caller stores the cell.
func (s *session) acceptStates(tx *store.Tx, tip, head store.Checkpoint, reason string) ([]string, error) {
	waiting, err := waitingStates(tx, s.cell, tip.ID)
	if err != nil || len(waiting) == 0 {
		return nil, err
	}
	var ids []string
	for _, state := range slices.Backward(waiting) {
		ids = append(ids, state.ID)
	}
	evidence.RecordAccepted(&s.cell, ids)
	details := map[string]string{evidence.DetailAccepted: strings.Join(ids, " "), "reason": printable(reason)}
	return ids, s.e.log.Change(tx, s.cell, head, receipt.OpAccept, details)
}

// acceptEarlier decides the undecided runs whose work is part of what is accepted,
// those that a fork inherited included: a failed run is never called accepted, it
// is superseded. States that were captured of a live cell are accepted with it.
// chosen is the accepted run, or captured state; tip is the accepted state, head
// where the cell is afterwards.
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

// decideRun states a decision about a run and records it.
func (s *session) decideRun(tx *store.Tx, r store.Run, result string, head store.Checkpoint, d decision) (string, error) {
	id := store.NewID("dec")
	st, err := tx.StatementByID(r.ReceiptID)
	if err != nil {
		return "", fmt.Errorf("receipt of %s: %w", r.ID, err)
	}
	p := &receipt.Decision{
		DecisionID: id, ReceiptID: r.ReceiptID, ReceiptSHA256: st.Digest, RunID: r.ID, Result: receipt.Result(result),
		Automatic: d.Automatic, Forced: d.Forced, Reason: printable(d.Reason),
		HeadBefore: evidence.Ref(s.head), HeadAfter: evidence.Checkpoint(head, ""),
		Only: texts(d.Only), Except: texts(d.Except),
	}
	if err := s.e.log.Decision(tx, s.cell, p); err != nil {
		return "", err
	}
	// A fork settles nothing: the run may still be accepted or restored.
	if result != forked {
		err = evidence.RecordDecision(tx, &s.cell, r, result)
	}
	return id, err
}
