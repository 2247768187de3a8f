package receipt

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// attemptOf says what one attempt of a race came to.
type attemptOf struct {
	outcome Outcome
	us      int64
	judged  *Judgement
}

func scored(score float64) *Judgement { return &Judgement{Score: &score} }

// raceLog is a log of a race on cell_1, up to the decision, which is not signed yet.
func raceLog(tb testing.TB, best Best, attempts ...attemptOf) (*testLog, *Decision) {
	l := newTestLog(tb)
	l.add(testChange(OpInit))
	race := &Race{Best: best}
	for i, want := range attempts {
		id := fmt.Sprintf("cell_a%d", i+1)
		l.fork(id, "cell_1")
		run, ref := l.run(10*(i+1), id, want.outcome, want.us)
		a := Attempt{Number: i + 1, CellID: id, Cell: id, Receipt: ref, Outcome: run.Outcome, ExitCode: run.ExitCode, DurationUS: want.us}
		if want.judged != nil {
			race.Judge = []string{"sh", "-c", "make test"}
			l.fork(id+"j", id)
			outcome := Succeeded
			if want.judged.ExitCode != 0 {
				outcome = Failed
			}
			_, judge := l.run(10*(i+1)+1, id+"j", outcome, 5)
			a.Judgement = &Judgement{Receipt: judge, ExitCode: want.judged.ExitCode, Score: want.judged.Score}
		}
		race.Attempts = append(race.Attempts, a)
	}
	d := &Decision{DecisionID: "dec_race", Result: Accepted, Automatic: true, HeadBefore: testCheckpoint(1).Ref(), HeadAfter: testCheckpoint(2), Race: race}
	if race.Winner = race.Choose(); race.Winner > 0 {
		won := race.Attempts[race.Winner-1].Receipt
		d.ReceiptID, d.ReceiptSHA256, d.RunID = won.ReceiptID, won.ReceiptSHA256, won.RunID
	}
	l.place(d, "cell_1", "demo")
	return l, d
}

func (l *testLog) fork(id, from string) {
	l.tb.Helper()
	c := testChange(OpFork)
	c.Of.ID, c.Of.Name, c.Of.ForkedFrom = id, id, &Origin{CellID: from, Checkpoint: "chk_0001"}
	l.place(c, id, id)
	l.sign(c)
}

func (l *testLog) run(n int, cell string, outcome Outcome, us int64) (*Run, *ReceiptRef) {
	l.tb.Helper()
	r := testRun(n)
	r.Outcome, r.ExitCode, r.Decision, r.DecisionID = outcome, 0, AutoDecision{Result: Pending}, ""
	if outcome != Succeeded {
		r.ExitCode = 7
	}
	r.Timings[TimingCommand] = us
	l.place(r, cell, cell)
	raw := l.sign(r)
	return r, &ReceiptRef{r.ReceiptID, Hash(raw), r.RunID}
}

// raceStory is a log with a race whose second attempt has won by its score.
func raceStory(tb testing.TB) *testLog {
	l, d := raceLog(tb, BestScore, attemptOf{Succeeded, 10, scored(-0.5)}, attemptOf{Succeeded, 20, scored(1e300)}, attemptOf{Failed, 1, nil})
	l.sign(d)
	return l
}

func TestRaceChoose(t *testing.T) {
	t.Parallel()
	ok := func(us int64, j *Judgement) attemptOf { return attemptOf{Succeeded, us, j} }
	failing := &Judgement{ExitCode: 7, Score: new(float64)}
	cases := []struct {
		name     string
		best     Best
		attempts []attemptOf
		want     int
	}{
		{"the first that succeeded", BestExit, []attemptOf{{Failed, 1, nil}, ok(9, nil), ok(1, nil)}, 2},
		{"none succeeded", BestExit, []attemptOf{{Failed, 1, nil}, {TimedOut, 1, nil}}, 0},
		{"the judge decides", BestExit, []attemptOf{ok(1, failing), ok(1, &Judgement{})}, 2},
		{"the judge failed all", BestExit, []attemptOf{ok(1, failing), ok(1, failing)}, 0},
		{"not judged where there is a judge", BestExit, []attemptOf{ok(1, nil), ok(1, &Judgement{})}, 2},
		{"the highest score", BestScore, []attemptOf{ok(1, scored(-3)), ok(1, scored(2.5)), ok(1, scored(2.25))}, 2},
		{"equal scores", BestScore, []attemptOf{ok(9, scored(1)), ok(1, scored(1))}, 1},
		{"a failing judge has the higher score", BestScore, []attemptOf{ok(1, scored(-1)), ok(1, failing)}, 1},
		{"no number", BestScore, []attemptOf{ok(1, &Judgement{}), ok(1, scored(-1))}, 2},
		{"a failed attempt has the higher score", BestScore, []attemptOf{{Failed, 1, scored(9)}, ok(1, scored(1))}, 2},
		{"scores without a judge", BestScore, []attemptOf{ok(1, nil)}, 0},
		{"the fastest", BestFastest, []attemptOf{ok(30, nil), ok(10, nil), {Failed, 1, nil}, ok(10, nil)}, 2},
		{"nothing", BestExit, nil, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l, d := raceLog(t, c.best, c.attempts...)
			if d.Race.Winner != c.want {
				t.Fatalf("the winner is %d, want %d", d.Race.Winner, c.want)
			}
			raw, err := l.signer.Sign(d)
			if c.want == 0 {
				if err == nil {
					t.Error("a race without a winner was signed")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			s, err := Verify(raw, trusted(1))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(d, s.Predicate); diff != "" || s.PredicateType != TypeRaceDecision {
				t.Errorf("a %s differs after signing and reading (-signed +read):\n%s", s.PredicateType, diff)
			}
		})
	}
}

func TestRaceSignRefuses(t *testing.T) {
	t.Parallel()
	number := func(f float64) *float64 { return &f }
	cases := map[string]func(*Decision){
		"another winner":        func(d *Decision) { d.Race.Winner = 1 },
		"winner 0":              func(d *Decision) { d.Race.Winner = 0 },
		"rejected":              func(d *Decision) { d.Result = Rejected },
		"another receipt":       func(d *Decision) { *d.Race.Attempts[1].Receipt = *d.Race.Attempts[0].Receipt },
		"unknown rule":          func(d *Decision) { d.Race.Best = "luck" },
		"no attempts":           func(d *Decision) { d.Race.Attempts = nil },
		"numbers out of order":  func(d *Decision) { d.Race.Attempts[0].Number = 2 },
		"an infinite score":     func(d *Decision) { d.Race.Attempts[0].Judgement.Score = number(math.Inf(-1)) },
		"not a number":          func(d *Decision) { d.Race.Attempts[0].Judgement.Score = number(math.NaN()) },
		"no judge":              func(d *Decision) { d.Race.Judge = nil },
		"bad cell":              func(d *Decision) { d.Race.Attempts[0].CellID = "../x" },
		"bad outcome":           func(d *Decision) { d.Race.Attempts[2].Outcome = "fine" },
		"bad hash":              func(d *Decision) { d.Race.Attempts[0].Receipt.ReceiptSHA256 = "x" },
		"no receipt":            func(d *Decision) { d.Race.Attempts[0].Receipt = nil },
		"no receipt of a judge": func(d *Decision) { d.Race.Attempts[0].Judgement.Receipt = nil },
		"too many": func(d *Decision) {
			for n := len(d.Race.Attempts) + 1; n <= MaxAttempts+1; n++ {
				a := d.Race.Attempts[2]
				a.Number = n
				d.Race.Attempts = append(d.Race.Attempts, a)
			}
		},
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, d := raceLog(t, BestScore, attemptOf{Succeeded, 1, scored(1)}, attemptOf{Succeeded, 2, scored(2)}, attemptOf{Failed, 1, nil})
			spoil(d)
			if _, err := l.signer.Sign(d); err == nil {
				t.Error("signed")
			}
		})
	}
}

// TestRaceChosen: somebody may choose any attempt that has a receipt; one that did not
// succeed must be forced.
func TestRaceChosen(t *testing.T) {
	t.Parallel()
	choose := func(winner int, forced bool) func(*Decision) {
		return func(d *Decision) {
			d.Race.Best, d.Race.Winner, d.Automatic, d.Forced = BestChosen, winner, false, forced
			if winner > 0 && winner <= len(d.Race.Attempts) && d.Race.Attempts[winner-1].Receipt != nil {
				won := d.Race.Attempts[winner-1].Receipt
				d.ReceiptID, d.ReceiptSHA256, d.RunID = won.ReceiptID, won.ReceiptSHA256, won.RunID
			}
		}
	}
	cases := map[string]struct {
		change func(*Decision)
		signed bool
	}{
		"the one with the lower score": {choose(1, false), true},
		"the one with the higher":      {choose(2, false), true},
		"a failed one by force":        {choose(3, true), true},
		"a failed one":                 {choose(3, false), false},
		"none":                         {choose(0, false), false},
		"one too many":                 {choose(4, false), false},
		"automatic": {func(d *Decision) {
			choose(1, false)(d)
			d.Automatic = true
		}, false},
		"without a receipt": {func(d *Decision) {
			choose(3, true)(d)
			d.Race.Attempts[2].Receipt = nil
		}, false},
		"the receipt of another": {func(d *Decision) {
			choose(1, false)(d)
			d.Race.Winner = 2
		}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, d := raceLog(t, BestScore, attemptOf{Succeeded, 1, scored(1)}, attemptOf{Succeeded, 2, scored(2)}, attemptOf{Failed, 1, nil})
			c.change(d)
			raw, err := l.signer.Sign(d)
			if (err == nil) != c.signed {
				t.Fatalf("signing gives %v", err)
			}
			if err != nil {
				return
			}
			l.raw = append(l.raw, raw)
			if problems := VerifyChain(l.all(), trusted(1)); len(problems) > 0 {
				t.Errorf("the log has problems: %v", problems)
			}
		})
	}
}

// A race under the type of a plain decision, and the reverse, is malformed.
func TestRaceType(t *testing.T) {
	t.Parallel()
	l := raceStory(t)
	plain := newTestLog(t)
	r := testRun(1)
	plain.add(testDecision(1, r, plain.add(r)))
	for _, c := range []struct {
		raw     []byte
		is, not string
	}{{l.raw[len(l.raw)-1], TypeRaceDecision, TypeDecision}, {plain.raw[1], TypeDecision, TypeRaceDecision}} {
		e, err := ParseEnvelope(c.raw)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(forge(t, string(e.Payload)), trusted(1)); err != nil {
			t.Errorf("as it is: %v", err)
		}
		if _, err := Verify(forge(t, strings.Replace(string(e.Payload), c.is, c.not, 1)), trusted(1)); !errors.Is(err, ErrMalformed) {
			t.Errorf("as %s: %v", c.not, err)
		}
	}
}

func TestRaceChain(t *testing.T) {
	t.Parallel()
	if problems := VerifyChain(raceStory(t).all(), trusted(1)); len(problems) > 0 {
		t.Fatalf("a race that is as it was: %v", problems)
	}
	cases := map[string]struct {
		spoil func(l *testLog, d *Decision)
		want  string
	}{
		"a receipt that is not there": {func(_ *testLog, d *Decision) { d.Race.Attempts[0].Receipt.ReceiptID = "rcpt_none" }, "does not stand before"},
		"another hash":                {func(_ *testLog, d *Decision) { d.Race.Attempts[0].Receipt.ReceiptSHA256 = sum(1) }, "another hash or run"},
		"another outcome":             {func(_ *testLog, d *Decision) { d.Race.Attempts[2].Outcome = Killed }, "attempt 3 is not what its receipt"},
		"another time":                {func(_ *testLog, d *Decision) { d.Race.Attempts[0].DurationUS++ }, "attempt 1 is not what its receipt"},
		"another cell":                {func(_ *testLog, d *Decision) { d.Race.Attempts[0].CellID = "cell_a2" }, "attempt 1 is not what its receipt"},
		"another judgement":           {func(_ *testLog, d *Decision) { d.Race.Attempts[0].Judgement.ExitCode = 3 }, "the judgement of attempt 1"},
		"the judge of another": {func(_ *testLog, d *Decision) {
			d.Race.Attempts[0].Judgement.Receipt = d.Race.Attempts[1].Judgement.Receipt
		}, "the judgement of attempt 1"},
		"a cell that was not raced": {func(l *testLog, d *Decision) {
			race := d.Race
			l.place(d, "cell_9", "other")
			d.Race = race
		}, "is not what its receipt"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, d := raceLog(t, BestScore, attemptOf{Succeeded, 1, scored(1)}, attemptOf{Succeeded, 2, scored(2)}, attemptOf{Failed, 1, nil})
			c.spoil(l, d)
			l.sign(d)
			wantProblem(t, VerifyChain(l.all(), trusted(1)), "dec_race", c.want)
		})
	}
}

// TestDecisionAfterARace: the raced cell may decide again about the winner, and so
// may its forks. About the others it may not.
func TestDecisionAfterARace(t *testing.T) {
	t.Parallel()
	decide := func(n int, of *ReceiptRef, cell string) func(*testLog) {
		return func(l *testLog) {
			d := testDecision(n, testRun(1), nil)
			d.ReceiptID, d.ReceiptSHA256, d.RunID, d.Supersedes = of.ReceiptID, of.ReceiptSHA256, of.RunID, nil
			l.place(d, cell, cell)
			l.sign(d)
		}
	}
	l, d := raceLog(t, BestExit, attemptOf{Failed, 1, nil}, attemptOf{Succeeded, 1, nil})
	l.sign(d)
	lost, won := d.Race.Attempts[0].Receipt, d.Race.Attempts[1].Receipt
	decide(1, won, "cell_1")(l)
	l.fork("cell_2", "cell_1")
	decide(2, won, "cell_2")(l)
	if problems := VerifyChain(l.all(), trusted(1)); len(problems) > 0 {
		t.Errorf("decisions about the winner: %v", problems)
	}
	decide(3, lost, "cell_1")(l)
	wantProblem(t, VerifyChain(l.all(), trusted(1)), "dec_0003", "another run or cell")
}

// A bundle of the winner may carry the decision of the raced cell, one of a loser
// may not.
func TestRaceInBundle(t *testing.T) {
	t.Parallel()
	l := raceStory(t)
	won, lost, decision := -1, -1, len(l.raw)-1
	for i, raw := range l.raw {
		e, err := ParseEnvelope(raw)
		if err != nil {
			t.Fatal(err)
		}
		switch e.Statement.ID() {
		case "rcpt_0020":
			won = i
		case "rcpt_0010":
			lost = i
		}
	}
	report, err := Bundle{Receipt: l.raw[won], Decisions: [][]byte{l.raw[decision]}}.Verify(trusted(1))
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := Markdown(&page, report.Run, report.Decisions, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Decision: `pending`\n", "Also in `demo`: `accepted`\n", "| 2 (winner) | `cell_a2` | `succeeded` |", "| `1e+300` |", "Chosen by: `score`", "Judge: `sh -c \"make test\"`"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the receipt lacks %q:\n%s", want, page.String())
		}
	}
	if _, err := (Bundle{Receipt: l.raw[lost], Decisions: [][]byte{l.raw[decision]}}).Verify(trusted(1)); err == nil {
		t.Error("the decision about the winner verifies in the bundle of another attempt")
	}
}
