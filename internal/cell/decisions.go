package cell

import (
	"context"
	"iter"
	"slices"

	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/receipt"
)

// envelopes yields the exact bytes of statements.
func (e *Engine) envelopes(statements []store.Statement) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, st := range statements {
			if !yield(e.store.ReadStatement(st.Seq)) {
				return
			}
		}
	}
}

// Decisions lists decisions, oldest first. Automatic ones stand in receipts.
func (e *Engine) Decisions(_ context.Context, cell, run string) ([]DecisionInfo, error) {
	out := []DecisionInfo{}
	if e.store == nil && cell == "" {
		return out, nil
	}
	var statements []store.Statement
	err := e.view(func(tx *store.Tx) error {
		cellID, runID := "", ""
		if cell != "" {
			c, err := tx.Cell(cell)
			if err != nil {
				return idError("cell", cell, err, "`forkcell ls` shows the cells")
			}
			cellID = c.ID
		}
		if run != "" {
			id, err := tx.Complete("runs", run)
			if err != nil {
				return idError("run", run, err, "`forkcell log CELL` shows them")
			}
			runID = id
		}
		all, err := tx.Statements(cellID)
		for _, st := range all {
			if (st.Kind == kindRun || st.Kind == kindDecision) && (runID == "" || st.RunID == runID) {
				statements = append(statements, st)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for raw, err := range e.envelopes(statements) {
		if err != nil {
			return nil, err
		}
		env, err := receipt.ParseEnvelope(raw)
		if err != nil {
			return nil, err
		}
		if info, ok := decisionInfo(env.Statement); ok {
			out = append(out, info)
		}
	}
	return out, nil
}

// Decision finds one decision.
func (e *Engine) Decision(ctx context.Context, id string) (*DecisionInfo, error) {
	all, err := e.Decisions(ctx, "", "")
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i].DecisionID
	}
	full, err := store.PickID(ids, id)
	if err != nil {
		return nil, idError("decision", id, err, "`forkcell decisions list` shows them")
	}
	return &all[slices.Index(ids, full)], nil
}

func decisionInfo(s receipt.Statement) (DecisionInfo, bool) {
	place := s.Place()
	info := DecisionInfo{Cell: place.Cell, Actor: place.Actor, CreatedAt: place.CreatedAt}
	switch p := s.Predicate.(type) {
	case *receipt.Run:
		if p.DecisionID == "" {
			return info, false
		}
		info.DecisionID, info.ReceiptID, info.RunID = p.DecisionID, p.ReceiptID, p.RunID
		info.Result, info.Automatic, info.Reason = string(p.Decision.Result), true, p.Decision.Reason
		info.HeadBefore, info.HeadAfter = p.CheckpointBefore.ID, p.CheckpointAfter.ID
		if p.Decision.Result == receipt.Restored {
			info.HeadAfter = p.CheckpointBefore.ID
		}
	case *receipt.Decision:
		info.DecisionID, info.ReceiptID, info.RunID = p.DecisionID, p.ReceiptID, p.RunID
		info.Result, info.Automatic, info.Forced, info.Reason = string(p.Result), p.Automatic, p.Forced, p.Reason
		info.HeadBefore, info.HeadAfter = p.HeadBefore.ID, p.HeadAfter.ID
	default:
		return info, false
	}
	return info, true
}
