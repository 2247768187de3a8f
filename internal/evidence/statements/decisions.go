package statements

import (
	"maps"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// Decisions lists decisions, oldest first. Automatic ones are part of receipts. An
// empty id of a cell or a run asks for those of all.
func (l *Log) Decisions(cellID, runID string) ([]api.DecisionInfo, error) {
	var statements []store.Statement
	err := l.store.View(func(tx *store.Tx) (err error) {
		if runID != "" {
			statements, err = tx.RunStatements(runID)
		} else {
			statements, err = tx.Statements(cellID)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	out := []api.DecisionInfo{}
	for _, st := range statements {
		if st.Kind != kindRun && st.Kind != KindDecision || cellID != "" && st.CellID != cellID {
			continue
		}
		env, err := l.Envelope(st.Seq)
		if err != nil {
			return nil, err
		}
		if info, ok := DecisionInfo(env.Statement); ok {
			out = append(out, info)
		}
	}
	return out, nil
}

// DecisionInfo returns the decision that a statement contains, if it contains one.
func DecisionInfo(s receipt.Statement) (api.DecisionInfo, bool) {
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
		info.Race = raceInfo(p.Race)
	default:
		return info, false
	}
	return info, true
}

func raceInfo(r *receipt.Race) *api.RaceInfo {
	if r == nil {
		return nil
	}
	info := &api.RaceInfo{Best: string(r.Best), Judge: append([]string{}, r.Judge...), Winner: r.Winner}
	for _, a := range r.Attempts {
		out := api.RaceAttemptInfo{Attempt: a.Number, Cell: a.Cell, Outcome: string(a.Outcome), ExitCode: a.ExitCode, DurationUS: a.DurationUS}
		if a.Receipt != nil {
			out.RunID, out.ReceiptID = a.Receipt.RunID, a.Receipt.ReceiptID
		}
		if j := a.Judgement; j != nil {
			out.Score, out.JudgeExitCode = j.Score, &j.ExitCode
			if j.Receipt != nil {
				out.JudgeReceiptID = j.Receipt.ReceiptID
			}
		}
		info.Attempts = append(info.Attempts, out)
	}
	return info
}

// RecordDecision makes a decision the present one: of the run, or for inherited
// work of the cell. The caller stores the cell.
func RecordDecision(tx *store.Tx, c *store.Cell, r store.Run, result string) error {
	if r.CellID == c.ID {
		r.Decision = result
		return tx.PutRun(r)
	}
	decideInherited(c, []string{r.ID}, result)
	return nil
}

// RecordAccepted records that a cell accepts captured states. The caller stores
// the cell.
func RecordAccepted(c *store.Cell, states []string) {
	decideInherited(c, states, string(receipt.Accepted))
}

func decideInherited(c *store.Cell, ids []string, result string) {
	own := maps.Clone(c.Inherited)
	if own == nil {
		own = map[string]string{}
	}
	for _, id := range ids {
		own[id] = result
	}
	c.Inherited = own
}

// DetailAccepted lists, in the statement of an accept, the captured states that it
// is about, with spaces between them.
const DetailAccepted = "accepted"

// acceptedStates lists the captured states that a statement accepts.
func acceptedStates(p *receipt.Change) []string {
	if p.Op != receipt.OpAccept {
		return nil
	}
	return strings.Fields(p.Details[DetailAccepted])
}
