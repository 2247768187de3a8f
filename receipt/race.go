package receipt

import (
	"errors"
	"fmt"
	"math"
)

// Best is the rule by which a race chooses its winner.
type Best string

// The rules. Ties go to the lowest number, so BestExit takes the first attempt that
// can win.
const (
	BestExit    Best = "exit"
	BestScore   Best = "score"   // the highest score of the judge
	BestFastest Best = "fastest" // the shortest command
	// BestChosen is no rule: somebody has chosen the winner after the race.
	BestChosen Best = "chosen"
)

// MaxAttempts bounds a race.
const MaxAttempts = 100

// Race has the attempts that were compared before one of them was accepted.
type Race struct {
	Best Best `json:"best"`
	// Judge is the argv of the judge with secrets redacted; empty without a judge.
	Judge []string `json:"judge,omitempty"`
	// Winner is the number of the attempt that the decision accepts.
	Winner int `json:"winner"`
	// Attempts are in the order of their numbers, 1, 2, 3, ...
	Attempts []Attempt `json:"attempts"`
}

// Attempt is one attempt of a race: a run in a fork of the cell.
type Attempt struct {
	Number int    `json:"attempt"`
	CellID string `json:"cell_id"`
	Cell   string `json:"cell"`
	// Receipt is absent if the run could not be recorded.
	Receipt    *ReceiptRef `json:"receipt,omitempty"`
	Outcome    Outcome     `json:"outcome"`
	ExitCode   int         `json:"exit_code"`
	DurationUS int64       `json:"duration_us"`
	// Judgement is absent if the attempt was not judged.
	Judgement *Judgement `json:"judgement,omitempty"`
}

// Judgement is what the judge said about an attempt.
type Judgement struct {
	// Receipt is absent if the judge's run could not be recorded.
	Receipt  *ReceiptRef `json:"receipt,omitempty"`
	ExitCode int         `json:"exit_code"`
	// Score is absent if the last line of the judge's output was no finite number.
	Score *float64 `json:"score,omitempty"`
}

// ReceiptRef names a receipt of the same log.
type ReceiptRef struct {
	ReceiptID string `json:"receipt_id"`
	// ReceiptSHA256 is the [Hash] of the receipt's envelope.
	ReceiptSHA256 string `json:"receipt_sha256"`
	RunID         string `json:"run_id"`
}

// Choose returns the number of the attempt that wins by the rule, or 0 if none can:
// an attempt that did not succeed, that the judge failed, or that has no score
// where scores count, cannot win. By [BestChosen] none wins by itself.
func (r *Race) Choose() int {
	winner := 0
	if r.Best == BestChosen {
		return 0
	}
	for i, a := range r.Attempts {
		if r.canWin(a) && (winner == 0 || r.beats(a, r.Attempts[winner-1])) {
			winner = i + 1
		}
	}
	return winner
}

func (r *Race) canWin(a Attempt) bool {
	j := a.Judgement
	switch {
	case a.Outcome != Succeeded:
		return false
	case j == nil:
		return len(r.Judge) == 0 && r.Best != BestScore
	}
	return j.ExitCode == 0 && (r.Best != BestScore || j.Score != nil)
}

// beats reports whether one attempt is better than another, both of which can win.
func (r *Race) beats(a, b Attempt) bool {
	switch r.Best {
	case BestScore:
		return *a.Judgement.Score > *b.Judgement.Score
	case BestFastest:
		return a.DurationUS < b.DurationUS
	case BestExit, BestChosen:
	}
	return false
}

func (r *Race) check() error {
	switch r.Best {
	case BestExit, BestScore, BestFastest, BestChosen:
	default:
		return fmt.Errorf("unknown best %q", r.Best)
	}
	if len(r.Attempts) > MaxAttempts {
		return fmt.Errorf("more than %d attempts", MaxAttempts)
	}
	for i, a := range r.Attempts {
		if a.Number != i+1 {
			return fmt.Errorf("attempt %d stands in place %d", a.Number, i+1)
		}
		if err := a.check(); err != nil {
			return fmt.Errorf("attempt %d: %w", a.Number, err)
		}
		if a.Judgement != nil && len(r.Judge) == 0 {
			return fmt.Errorf("attempt %d: judged without a judge", a.Number)
		}
	}
	return r.checkWinner()
}

func (r *Race) checkWinner() error {
	if r.Best == BestChosen {
		if r.Winner < 1 || r.Winner > len(r.Attempts) || r.Attempts[r.Winner-1].Receipt == nil {
			return fmt.Errorf("attempt %d was chosen, which has no receipt", r.Winner)
		}
		return nil
	}
	if won := r.Choose(); won == 0 || won != r.Winner {
		return fmt.Errorf("the winner is said to be attempt %d, and by its attempts is %d", r.Winner, won)
	}
	return nil
}

func (a Attempt) check() error {
	if !isToken(a.CellID) || a.Cell == "" {
		return errors.New("bad cell_id or cell")
	}
	if !knownOutcome(a.Outcome) {
		return fmt.Errorf("unknown outcome %q", a.Outcome)
	}
	if a.Receipt == nil && a.Outcome == Succeeded {
		return errors.New("succeeded without a receipt")
	}
	if err := a.Receipt.check(); err != nil || a.Judgement == nil {
		return err
	}
	if s := a.Judgement.Score; s != nil && (math.IsNaN(*s) || math.IsInf(*s, 0)) {
		return errors.New("the score is not a finite number")
	}
	if a.Judgement.Receipt == nil && a.Judgement.ExitCode == 0 {
		return errors.New("judged well without a receipt")
	}
	return a.Judgement.Receipt.check()
}

func (r *ReceiptRef) check() error {
	if r == nil {
		return nil
	}
	if !isHash(r.ReceiptSHA256) {
		return errors.New("receipt_sha256 is not a SHA-256")
	}
	return errors.Join(checkID("rcpt", r.ReceiptID), checkID("run", r.RunID))
}

// checkRace checks the race of a decision against the decision itself.
func (d *Decision) checkRace() error {
	if d.Race == nil {
		return nil
	}
	if d.Result != Accepted {
		return fmt.Errorf("race: the winner is %s, not accepted", d.Result)
	}
	if err := d.Race.check(); err != nil {
		return fmt.Errorf("race: %w", err)
	}
	attempt := d.Race.Attempts[d.Race.Winner-1]
	if d.Race.Best == BestChosen && (d.Automatic || attempt.Outcome != Succeeded && !d.Forced) {
		return errors.New("race: what was chosen is not automatic, and one that did not succeed is forced")
	}
	won := attempt.Receipt
	if *won != (ReceiptRef{d.ReceiptID, d.ReceiptSHA256, d.RunID}) {
		return errors.New("race: the receipt is not that of the winner")
	}
	return nil
}

// wonBy reports whether the decision accepts a run as the winner of a race. The run
// is then of a fork of the decision's cell.
func (d *Decision) wonBy(r *Run) bool {
	if d.Race == nil {
		return false
	}
	a := d.Race.Attempts[d.Race.Winner-1]
	return a.CellID == r.CellID && a.Outcome == r.Outcome && a.ExitCode == r.ExitCode && a.DurationUS == r.Timings[TimingCommand]
}

// checkRace checks that every receipt of a race stands before the decision about
// it, says the same, and is of a fork of the decision's cell.
func (c *Chain) checkRace(d *Decision, report func(string, ...any)) {
	c.winners[d.ReceiptID] = append(c.winners[d.ReceiptID], d.CellID)
	for _, a := range d.Race.Attempts {
		if a.Receipt == nil {
			continue
		}
		r, ok := c.referred(a.Receipt, report)
		if !ok {
			continue
		}
		same := r.outcome == a.Outcome && r.exit == a.ExitCode && r.commandUS == a.DurationUS
		if !same || r.cell != a.CellID || c.gap == 0 && !c.descends(r.cell, d.CellID) {
			report("%v: attempt %d is not what its receipt %s says", ErrChain, a.Number, a.Receipt.ReceiptID)
		}
		c.checkJudgement(a, report)
	}
}

func (c *Chain) checkJudgement(a Attempt, report func(string, ...any)) {
	if a.Judgement == nil || a.Judgement.Receipt == nil {
		return
	}
	ref := a.Judgement.Receipt
	r, ok := c.referred(ref, report)
	if ok && (r.exit != a.Judgement.ExitCode || c.gap == 0 && !c.descends(r.cell, a.CellID)) {
		report("%v: the judgement of attempt %d is not what its receipt %s says", ErrChain, a.Number, ref.ReceiptID)
	}
}

// referred finds a receipt that a statement refers to. After a gap it may be
// missing.
func (c *Chain) referred(ref *ReceiptRef, report func(string, ...any)) (receiptRef, bool) {
	r, ok := c.receipts[ref.ReceiptID]
	switch {
	case !ok && c.gap > 0:
		return r, false
	case !ok:
		report("%v: names %s, which does not stand before it", ErrChain, ref.ReceiptID)
		return r, false
	case r.hash != ref.ReceiptSHA256 || r.run != ref.RunID:
		report("%v: names a %s with another hash or run", ErrChain, ref.ReceiptID)
		return r, false
	}
	return r, true
}
