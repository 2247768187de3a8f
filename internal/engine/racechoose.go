package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// Choose accepts an attempt of a race that has ended into the cell that was raced: the
// cell moves to its state, by one signed decision that names all attempts and their
// scores. It is refused if the cell is no longer in the state that was forked. To choose
// the same attempt again changes nothing.
func (e *Engine) Choose(ctx context.Context, req api.ChooseRequest) (*api.RaceResult, error) {
	if err := e.finishAttempts(ctx, req); err != nil {
		return nil, err
	}
	s, err := e.hold(ctx, req.Cell, "race", time.Duration(req.Wait))
	if err != nil {
		return nil, err
	}
	defer s.Release()
	if err := s.CatchUp(ctx); err != nil {
		return nil, err
	}
	past, winner, err := e.raceToChoose(s.Record, req.Attempt, true)
	if err != nil {
		return nil, err
	}
	if err := e.addElsewhere(ctx, past); err != nil {
		return nil, err
	}
	res := &api.RaceResult{Cell: s.Record.Name, Winner: &winner, Attempts: past.infos(), Also: []string{}, Kept: past.keptCells()}
	if err := s.choose(ctx, req, past, res); err != nil {
		return nil, err
	}
	if !req.Apply {
		return res, nil
	}
	applied, err := s.e.ApplyHeld(ctx, s.Cell, api.ApplyRequest{})
	if err != nil {
		return res, AfterAccept(err, s.Record.Name)
	}
	res.Applied = applied
	return res, nil
}

// keptCells lists the cells of attempts that exist.
func (p *pastRace) keptCells() []string {
	kept := []string{}
	for _, a := range p.attempts {
		if a.now.Name != "" {
			kept = append(kept, a.now.Name)
		}
	}
	return kept
}

// raceToChoose finds the race of which a cell is an attempt, and the attempt's number.
func (e *Engine) raceToChoose(raced store.Cell, attempt string, whole bool) (past *pastRace, number int, err error) {
	c, err := e.FindCell(attempt)
	if err != nil {
		return nil, 0, err
	}
	err = e.View(func(tx *store.Tx) error {
		past, err = e.pastRaceOf(tx, c, whole)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	if past == nil || past.cell != raced.ID {
		return nil, 0, api.Refusef(api.CodeNoAttempt, "`forkcell log "+c.Name+"` shows what it is; a race keeps its winner, and with --keep all attempts",
			"cell %s is no attempt of a race of %s", c.Name, raced.Name)
	}
	return past, past.numberOf(c.ID), nil
}

// finishAttempts finishes runs of attempts that were cut off, so that each attempt that
// had begun has a receipt. It holds one cell at a time.
func (e *Engine) finishAttempts(ctx context.Context, req api.ChooseRequest) error {
	raced, err := e.FindCell(req.Cell)
	if err != nil {
		return err
	}
	e.settleRaces(ctx)
	past, _, err := e.raceToChoose(raced, req.Attempt, false)
	if err != nil {
		return err
	}
	if _, busy := e.Store.CellHolder(past.id); busy {
		return &api.Error{
			Kind: api.Busy, Code: api.CodeBusy, Message: fmt.Sprintf("the race that %s belongs to is under way", req.Attempt),
			Hint: "choose when it has ended",
		}
	}
	anyone := e.Caller
	anyone.Expect = nil // the revision that the caller expects is that of the raced cell
	for _, a := range past.attempts {
		if !a.unfinished || a.now.Name == "" {
			continue
		}
		s, err := e.As(anyone).hold(ctx, a.now.Name, "race", time.Duration(req.Wait))
		if err != nil {
			return err
		}
		s.Release()
	}
	return nil
}

// choose decides, unless that was done before. It adds the decision to the result.
func (s *heldCell) choose(ctx context.Context, req api.ChooseRequest, past *pastRace, res *api.RaceResult) error {
	winner := past.attempts[*res.Winner-1]
	if winner.run == nil {
		return api.Refusef(api.CodeNoAttempt, "`forkcell log "+winner.name()+"` shows what happened in it", "attempt %d, cell %s, has no result of the race", *res.Winner, winner.name())
	}
	if done, err := s.winningDecision(winner.run); err != nil || done != "" {
		res.DecisionID = done
		return err
	}
	if err := s.mayChoose(req, past, winner); err != nil {
		return err
	}
	r := &Race{e: s.e, id: past.id, cell: s.Record, base: s.Head, attempts: past.forks()}
	done, err := r.accept(ctx, s, res.Attempts[*res.Winner-1], api.RaceDecision{
		Best: string(receipt.BestChosen), Judge: past.judge, Winner: *res.Winner, Attempts: res.Attempts,
		Reason: req.Reason, Forced: winner.run.Outcome != receipt.Succeeded,
	})
	if err != nil {
		return err
	}
	res.DecisionID, res.Also = done.DecisionID, done.Also
	return nil
}

// mayChoose returns the reason why an attempt cannot be chosen, if there is one.
func (s *heldCell) mayChoose(req api.ChooseRequest, past *pastRace, winner pastAttempt) error {
	name, after := s.Record.Name, winner.run.CheckpointAfter.ID
	switch {
	case s.Head.ID != past.base:
		return api.Refusef(api.CodeMoved, fmt.Sprintf("`forkcell diff %s %s` compares them; `forkcell restore %s %s` brings the raced state back", name, winner.now.Name, name, past.base),
			"cell %s has moved from %s to %s since the race began", name, past.base, s.Head.ID)
	case winner.now.Head != after:
		return api.Refusef(api.CodeMoved, fmt.Sprintf("`forkcell restore %s %s` brings its result back", winner.now.Name, after),
			"attempt %s has moved from its result %s to %s", winner.now.Name, after, winner.now.Head)
	case winner.run.Outcome != receipt.Succeeded && !req.Force:
		return api.Refusef(api.CodeFailedRun, fmt.Sprintf("`forkcell race %s --choose %s --force` chooses it all the same", name, winner.now.Name),
			"attempt %s did not succeed (%s, exit %d)", winner.now.Name, winner.run.Outcome, winner.run.ExitCode)
	}
	return s.e.noEarlierWork(s.Record)
}

// winningDecision returns the decision by which the cell has accepted a run as the winner of a
// race, if it stands and the cell has not left the state that it was moved to.
func (s *heldCell) winningDecision(winner *receipt.Run) (id string, err error) {
	if s.Record.Inherited[winner.RunID] != accepted {
		return "", nil
	}
	var here home.Lineage
	err = s.e.Store.View(func(tx *store.Tx) (err error) {
		here, err = home.LineageOf(tx, s.Head.ID)
		return err
	})
	if err != nil {
		return "", err
	}
	list, err := s.e.Evidence.Decisions(s.Record.ID, winner.RunID)
	for _, d := range list {
		if d.Race != nil && d.Result == accepted && here[d.HeadAfter] {
			id = d.DecisionID
		}
	}
	return id, err
}

// Races returns the races of a cell of which some of its forks are attempts, in the
// order of these forks. Forks that are no attempts are left out.
func (e *Engine) Races(ctx context.Context, cell string, forks []string) ([]api.PastRace, error) {
	raced, err := e.FindCell(cell)
	if err != nil {
		return nil, err
	}
	races := []api.PastRace{}
	var past []*pastRace
	known := map[string]bool{}
	err = e.View(func(tx *store.Tx) error {
		for _, name := range forks {
			c, err := tx.Cell(name)
			if errors.Is(err, store.ErrNotFound) || err == nil && (known[c.ID] || c.ForkedCell != raced.ID) {
				continue
			}
			if err != nil {
				return err
			}
			p, err := e.pastRaceOf(tx, c, false)
			if err != nil {
				return err
			}
			if p == nil {
				continue
			}
			for _, a := range p.attempts {
				known[a.fork.ID] = true
			}
			info, err := e.pastInfo(tx, raced, p)
			if err != nil {
				return err
			}
			races, past = append(races, info), append(past, p)
		}
		return nil
	})
	for i, p := range past {
		if err := e.addElsewhere(ctx, p); err != nil {
			return nil, err
		}
		races[i].Attempts = p.infos()
	}
	return races, err
}

func (e *Engine) pastInfo(tx *store.Tx, raced store.Cell, p *pastRace) (api.PastRace, error) {
	_, busy := e.Store.CellHolder(p.id)
	info := api.PastRace{RaceID: p.id, CheckpointID: p.base, Open: raced.Head == p.base && !busy, Judge: append([]string{}, p.judge...), Attempts: p.infos()}
	here, err := home.LineageOf(tx, raced.Head)
	if err != nil {
		return info, err
	}
	for i, a := range p.attempts {
		if a.run == nil || raced.Inherited[a.run.RunID] != accepted {
			continue
		}
		// One that changed nothing in the workspace is part of every state, also of that of
		// another winner.
		has := here[a.run.CheckpointAfter.ID] || here[a.run.RunID]
		if !has && a.run.ChangedFiles > 0 {
			continue
		}
		if info.Winner == nil || has && a.run.CheckpointAfter.ID != p.base {
			info.Winner = &info.Attempts[i].Attempt
		}
	}
	return info, nil
}
