package cell

import (
	"context"
	"fmt"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/receipt"
)

// envelope reads a statement of the log. It is not verified.
func (e *Engine) envelope(seq int64) (*receipt.Envelope, error) {
	var env *receipt.Envelope
	raw, err := e.store.ReadStatement(seq)
	if err == nil {
		env, err = receipt.ParseEnvelope(raw)
	}
	if err != nil {
		return nil, &api.Error{
			Kind: api.Refused, Code: api.CodeDamaged, Message: fmt.Sprintf("statement %d of the log cannot be read: %v", seq, err),
			Hint: "`forkcell receipt verify --all` names what is damaged", Err: err,
		}
	}
	return env, nil
}

// Decisions lists decisions, oldest first. Automatic ones stand in receipts.
func (e *Engine) Decisions(_ context.Context, cell, run string) ([]api.DecisionInfo, error) {
	out := []api.DecisionInfo{}
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
	for _, st := range statements {
		env, err := e.envelope(st.Seq)
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
func (e *Engine) Decision(ctx context.Context, id string) (*api.DecisionInfo, error) {
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

func decisionInfo(s receipt.Statement) (api.DecisionInfo, bool) {
	place := s.Place()
	info := api.DecisionInfo{Cell: place.Cell, Actor: place.Actor, CreatedAt: place.CreatedAt}
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
