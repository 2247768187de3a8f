package engine

import (
	"context"
	"fmt"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/evidence/statements"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
	"github.com/forkcell/forkcell/receipt"
)

// Accept moves the raced cell to a state with the workspace of the winner; its home and
// its other areas stay. One signed decision names the winner, all attempts and their
// scores. It is refused if the cell has moved
// since the race began.
func (r *Race) Accept(ctx context.Context, d api.RaceDecision) (*api.AcceptResult, error) {
	s, err := r.e.hold(ctx, r.cell.Name, "race", d.Wait)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	if err := s.CatchUp(ctx); err != nil {
		return nil, err
	}
	winner := d.Attempts[d.Winner-1]
	if s.Record.ID != r.cell.ID || s.Head.ID != r.base.ID {
		return nil, api.Refusef(api.CodeMoved, fmt.Sprintf("the winner is kept: `forkcell diff %s %s` compares it with the cell, `forkcell accept %s --apply` accepts it there", s.Record.Name, winner.Cell, winner.Cell),
			"cell %s has moved from %s to %s since the race began", s.Record.Name, r.base.ID, s.Head.ID)
	}
	if err := s.e.noEarlierWork(s.Record); err != nil {
		return nil, err
	}
	res, err := r.accept(ctx, s, winner, d)
	if err != nil || !d.Apply {
		return res, err
	}
	applied, err := s.e.ApplyHeld(ctx, s.Cell, api.ApplyRequest{})
	if err != nil {
		return res, AfterAccept(err, s.Record.Name)
	}
	res.Applied = applied
	return res, nil
}

// noEarlierWork refuses a decision about a race of a cell that has undecided work of its own:
// it would be accepted with the winner, and no race shows it.
func (e *Engine) noEarlierWork(c store.Cell) error {
	return e.Store.View(func(tx *store.Tx) error {
		_, work, err := home.UndecidedWork(tx, c, c.Head)
		if err != nil || len(work) == 0 {
			return err
		}
		return api.Refusef(api.CodeNotShown, fmt.Sprintf("`forkcell diff %s` shows it; accept or restore it first", c.Name),
			"cell %s has earlier undecided work, which accepting a winner would accept with it: %s", c.Name, work[0].ID)
	})
}

func (r *Race) accept(ctx context.Context, s *heldCell, winner api.RaceAttempt, d api.RaceDecision) (*api.AcceptResult, error) {
	var run store.Run
	var to store.Checkpoint
	var race *receipt.Race
	err := r.e.Store.View(func(tx *store.Tx) (err error) {
		if run, err = tx.Run(winner.RunID); err != nil {
			return err
		}
		if to, err = tx.Checkpoint(run.After); err != nil {
			return err
		}
		race, err = r.statement(tx, d)
		return err
	})
	if err == nil {
		err = home.CheckUsable(to)
	}
	if err != nil {
		return nil, err
	}
	tip := to
	sealed, err := r.e.withWorkspaceOf(ctx, s.Record, s.Head, tip)
	if err != nil {
		return nil, err
	}
	made := sealed != nil && !sealed.Unchanged
	switch {
	case made:
		to = r.e.NewCheckpoint(s.Record, s.Head.ID, statements.PartialState, run.ID, *sealed)
	case sealed != nil:
		to = s.Head
	}
	res := &api.AcceptResult{Cell: s.Record.Name, RunID: run.ID, Decision: accepted, CheckpointID: to.ID, Root: to.Root(), Also: []string{}}
	err = s.Move(ctx, to, func(tx *store.Tx) (err error) {
		if made {
			if err := tx.PutCheckpoint(to); err != nil {
				return err
			}
		}
		if res.DecisionID, err = s.decideRun(tx, run, accepted, to, decision{Automatic: d.Best != string(receipt.BestChosen), Forced: d.Forced, Reason: d.Reason, Race: race}); err != nil {
			return err
		}
		also, err := s.acceptEarlier(tx, run.ID, tip, to, decision{Automatic: d.Best != string(receipt.BestChosen), Reason: d.Reason})
		res.Also = append(res.Also, also...)
		return err
	})
	if err != nil {
		return nil, err
	}
	failpoint.Hit("race.accepted")
	return res, nil
}

// statement returns the race as the decision about it records it. Outcomes are
// those of the recorded runs.
func (r *Race) statement(tx *store.Tx, d api.RaceDecision) (*receipt.Race, error) {
	race := &receipt.Race{Best: receipt.Best(d.Best), Judge: home.Recordable(d.Judge), Winner: d.Winner}
	for i, a := range d.Attempts {
		fork := r.attempts[i]
		out := receipt.Attempt{Number: a.Attempt, CellID: fork.ID, Cell: fork.Name, Outcome: receipt.Outcome(a.Outcome), ExitCode: a.ExitCode, DurationUS: a.DurationUS}
		var err error
		if out.Receipt, err = receiptRef(tx, a.ReceiptID); err != nil {
			return nil, err
		}
		if a.JudgeExitCode != nil {
			out.Judgement = &receipt.Judgement{ExitCode: *a.JudgeExitCode, Score: a.Score}
			if out.Judgement.Receipt, err = receiptRef(tx, a.JudgeReceiptID); err != nil {
				return nil, err
			}
		}
		race.Attempts = append(race.Attempts, out)
	}
	return race, nil
}

// receiptRef returns a receipt as statements refer to it; nil for no id.
func receiptRef(tx *store.Tx, id string) (*receipt.ReceiptRef, error) {
	if id == "" {
		return nil, nil //nolint:nilnil // as documented
	}
	st, err := tx.StatementByID(id)
	if err != nil {
		return nil, fmt.Errorf("receipt %s: %w", id, err)
	}
	return &receipt.ReceiptRef{ReceiptID: id, ReceiptSHA256: st.Digest, RunID: st.RunID}, nil
}
