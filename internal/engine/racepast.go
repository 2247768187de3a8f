package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/score"
	"github.com/forkcell/forkcell/internal/evidence/statements"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// pastRace is a race as the signed records have it.
type pastRace struct {
	id       string
	cell     string // id of the cell that was raced
	base     string // id of the state that was forked
	judge    []string
	attempts []pastAttempt
}

// pastAttempt is one attempt of it.
type pastAttempt struct {
	fork       raceFork // with the name that it was made with
	now        store.Cell
	run, judge *receipt.Run // nil if it did not begin, or has not ended
	score      *float64
	elsewhere  []api.AreaChange
	unfinished bool // a run was cut off and is not finished yet
}

// name returns the present name of the attempt's cell, or the last one.
func (a pastAttempt) name() string {
	if a.now.LastName != "" {
		return a.now.LastName
	}
	return a.fork.Name
}

// info returns the attempt as results of races have it.
func (a pastAttempt) info(number int) api.RaceAttempt {
	out := api.RaceAttempt{Attempt: number, Cell: a.name(), Outcome: string(receipt.Interrupted), Score: a.score}
	if r := a.run; r != nil {
		out.RunID, out.ReceiptID, out.Outcome, out.ExitCode = r.RunID, r.ReceiptID, string(r.Outcome), r.ExitCode
		out.Elsewhere = a.elsewhere
		out.ChangedFiles, out.DurationUS = int(r.ChangedFiles), r.Timings[receipt.TimingCommand]
	}
	if a.judge != nil {
		out.JudgeExitCode, out.JudgeReceiptID = &a.judge.ExitCode, a.judge.ReceiptID
	}
	return out
}

func (p *pastRace) infos() []api.RaceAttempt {
	out := make([]api.RaceAttempt, len(p.attempts))
	for i, a := range p.attempts {
		out[i] = a.info(i + 1)
	}
	return out
}

func (p *pastRace) forks() []raceFork {
	out := make([]raceFork, len(p.attempts))
	for i, a := range p.attempts {
		out[i] = a.fork
	}
	return out
}

// numberOf returns the number of the attempt that a cell is, or 0.
func (p *pastRace) numberOf(cellID string) int {
	return slices.IndexFunc(p.attempts, func(a pastAttempt) bool { return a.fork.ID == cellID }) + 1
}

// pastRaceOf returns the race in which a cell is an attempt; nil if it is not one. whole
// has the stored output of the judges checked, all of it.
func (e *Engine) pastRaceOf(tx *store.Tx, c store.Cell, whole bool) (*pastRace, error) {
	if c.ForkedCell == "" {
		return nil, nil //nolint:nilnil // as documented
	}
	st, err := tx.FirstOfCell(c.ID)
	if err != nil {
		return nil, err
	}
	made, err := e.raceFork(st)
	if err != nil || made == nil {
		return nil, err
	}
	p := &pastRace{id: made.Details[detailRace], cell: c.ForkedCell, base: c.ForkedCheckpoint}
	if judge, err := e.belongsToRace(tx, c.ForkedCell, p.id); err != nil || judge {
		return nil, err
	}
	if err := e.addForks(tx, p, st.Seq, made); err != nil {
		return nil, err
	}
	for i := range p.attempts {
		if err := e.addRun(tx, &p.attempts[i]); err != nil {
			return nil, err
		}
	}
	return p, e.addJudges(tx, p, whole)
}

// raceFork returns the statement of a fork that a race made; nil if the statement is
// another one.
func (e *Engine) raceFork(st store.Statement) (*receipt.Change, error) {
	if st.Kind != statements.KindCell {
		return nil, nil //nolint:nilnil // as documented
	}
	env, err := e.Evidence.Envelope(st.Seq)
	if err != nil {
		return nil, err
	}
	c, ok := env.Statement.Predicate.(*receipt.Change)
	if !ok || c.Op != receipt.OpFork || c.Details[detailRace] == "" || c.Of.ForkedFrom == nil {
		return nil, nil //nolint:nilnil // as documented
	}
	return c, nil
}

// belongsToRace reports whether a cell was made by a race: a cell that was forked from it by
// the same race is that of a judge.
func (e *Engine) belongsToRace(tx *store.Tx, cellID, race string) (bool, error) {
	st, err := tx.FirstOfCell(cellID)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	made, err := e.raceFork(st)
	return made != nil && made.Details[detailRace] == race, err
}

// addElsewhere counts what the attempts changed outside the workspace. It is no part of a
// transaction.
func (e *Engine) addElsewhere(ctx context.Context, p *pastRace) (err error) {
	for i, a := range p.attempts {
		if a.run == nil {
			continue
		}
		if p.attempts[i].elsewhere, err = e.ElsewhereIn(ctx, a.run.CheckpointBefore.ID, a.run.CheckpointAfter.ID); err != nil {
			return err
		}
	}
	return nil
}

// addForks finds the forks of all attempts. One transaction made them, in the order of
// their numbers, so their statements stand side by side in the log.
func (e *Engine) addForks(tx *store.Tx, p *pastRace, seq int64, made *receipt.Change) error {
	first, list, err := e.forksBeside(tx, p, seq, -1)
	if err != nil {
		return err
	}
	slices.Reverse(list)
	_, after, err := e.forksBeside(tx, p, seq, 1)
	if err != nil {
		return err
	}
	list = append(append(list, made), after...)
	if len(list) > receipt.MaxAttempts {
		return api.Refusef(api.CodeDamaged, "`forkcell receipt verify --all` names what is damaged", "the log has more than %d attempts of race %s, from statement %d on", receipt.MaxAttempts, p.id, first)
	}
	for _, c := range list {
		now, err := tx.CellByID(c.Of.ID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		p.attempts = append(p.attempts, pastAttempt{fork: raceFork{c.Of.ID, c.Of.Name}, now: now})
	}
	return nil
}

// forksBeside lists the statements of attempts before or after a place in the log, the
// nearest first, and the place of the last one.
func (e *Engine) forksBeside(tx *store.Tx, p *pastRace, seq, step int64) (last int64, list []*receipt.Change, err error) {
	for len(list) <= receipt.MaxAttempts {
		st, err := tx.StatementAt(seq + step)
		if errors.Is(err, store.ErrNotFound) {
			break
		}
		if err == nil && st.Kind == statements.KindLost {
			err = api.Refusef(api.CodeDamaged, "accept an attempt in its own cell: `forkcell accept CELL --apply`", "statement %d of the log is lost, so the attempts of race %s cannot be told", st.Seq, p.id)
		}
		if err != nil {
			return seq, nil, err
		}
		made, err := e.raceFork(st)
		if err != nil {
			return seq, nil, err
		}
		if made == nil || made.Details[detailRace] != p.id || made.Of.ForkedFrom.CellID != p.cell {
			break
		}
		seq, list = st.Seq, append(list, made)
	}
	return seq, list, nil
}

// addRun finds the run of an attempt.
func (e *Engine) addRun(tx *store.Tx, a *pastAttempt) (err error) {
	a.run, a.unfinished, err = e.raceRun(tx, a.fork.ID)
	return err
}

// raceRun returns the receipt of the run that a race carried out in a cell: its first,
// which knows the number of its attempt. It is nil if there is none, or none that has
// ended.
func (e *Engine) raceRun(tx *store.Tx, cellID string) (r *receipt.Run, unfinished bool, err error) {
	runs, err := tx.RunsAfter(cellID, 0, 1)
	if err != nil || len(runs) == 0 {
		return nil, false, err
	}
	if runs[0].State != "done" {
		return nil, true, nil
	}
	st, err := tx.StatementByID(runs[0].ReceiptID)
	if err != nil {
		return nil, false, fmt.Errorf("receipt of %s: %w", runs[0].ID, err)
	}
	env, err := e.Evidence.Envelope(st.Seq)
	if err != nil {
		return nil, false, err
	}
	r, ok := env.Statement.Predicate.(*receipt.Run)
	if !ok || !slices.Contains(r.EnvNames, AttemptVariable) {
		return nil, false, nil
	}
	return r, false, nil
}

// addJudges finds what the judges said.
func (e *Engine) addJudges(tx *store.Tx, p *pastRace, whole bool) error {
	ids := make([]string, len(p.attempts))
	for i, a := range p.attempts {
		ids[i] = a.fork.ID
	}
	forks, err := tx.ForksOf(ids)
	if err != nil {
		return err
	}
	for _, f := range forks {
		judges, err := e.belongsToRace(tx, f.ID, p.id)
		if err != nil {
			return err
		}
		if !judges {
			continue
		}
		a := &p.attempts[p.numberOf(f.ForkedCell)-1]
		if a.judge, _, err = e.raceRun(tx, f.ID); err != nil {
			return err
		}
		if a.judge == nil {
			continue
		}
		p.judge = a.judge.Command
		if a.score, err = e.scoreOf(a.judge, whole); err != nil {
			return err
		}
	}
	return nil
}

// scoreOf reads the score from the stored output of a judge. whole has all of the
// output checked.
func (e *Engine) scoreOf(judge *receipt.Run, whole bool) (*float64, error) {
	i := slices.IndexFunc(judge.Logs, func(l receipt.Log) bool { return l.Stream == "stdout" })
	if i < 0 || judge.Logs[i].Truncated {
		return nil, nil //nolint:nilnil // no score
	}
	if has, err := e.Store.HasBlob(judge.Logs[i].SHA256); err != nil || !has {
		return nil, errors.Join(err, api.Refusef(api.CodeFreed, "race again, or accept an attempt by its name", "the output of judge %s, which has the score, was freed by gc or is lost", judge.RunID))
	}
	if !whole {
		end, cut, err := e.Store.BlobEnd(judge.Logs[i].SHA256, score.MaxLine)
		return score.OfEnd(end, cut), err
	}
	log, err := e.OpenLog(judge.Logs[i].SHA256)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	out := &score.Reader{}
	if _, err := io.Copy(out, log); err != nil {
		return nil, api.Refusef(api.CodeDamaged, "`forkcell receipt verify --all` names what is damaged", "the output of judge %s cannot be read: %v", judge.RunID, err)
	}
	return out.Number(), nil
}
