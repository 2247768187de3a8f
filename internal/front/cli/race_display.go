package cli

import (
	"fmt"
	"os"
	"strconv"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/text/document"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// raceDisplay shows a race while it is under way.
type raceDisplay interface {
	// event is called for each event, never twice at once.
	event(e api.RaceEvent)
	// done ends the display, before anything else is written.
	done() error
}

// raceDisplay returns JSON lines for --json, else a table on a terminal, else a line
// for each attempt.
func (s *frame) raceDisplay() raceDisplay {
	fd, isTerminal := terminal(s.streams.Err)
	switch {
	case s.json:
		return &raceJSON{out: s.out}
	case s.quiet:
		return raceQuiet{}
	case isTerminal && os.Getenv("TERM") != "dumb":
		t := &raceTable{w: s.streams.Err, now: s.now, size: func() (driver.WindowSize, error) { return windowSize(fd) }, stop: make(chan struct{})}
		t.ended.Go(t.keepTime)
		return t
	}
	return raceLines{s}
}

type raceQuiet struct{}

func (raceQuiet) event(api.RaceEvent) {}
func (raceQuiet) done() error         { return nil }

// raceJSON writes an object for each event that the documentation names.
type raceJSON struct {
	out *stdout
	err error
}

func (j *raceJSON) event(e api.RaceEvent) {
	if j.err != nil {
		return
	}
	switch e.Kind {
	case api.RaceAttempted, api.RaceJudged:
		j.err = document.Write(j.out, struct {
			Event api.RaceEventKind `json:"event"`
			api.RaceAttempt
		}{e.Kind, e.Attempt})
	case api.RaceEnded:
		j.err = document.Write(j.out, struct {
			Event api.RaceEventKind `json:"event"`
			*api.RaceResult
		}{e.Kind, e.Result})
	case api.RaceForked, api.RaceStarted, api.RaceJudging:
		return
	}
	if j.err == nil {
		j.err = j.out.Flush()
	}
}

func (j *raceJSON) done() error { return j.err }

// raceLines notes each attempt that ends, and each judgement.
type raceLines struct{ s *frame }

func (l raceLines) event(e api.RaceEvent) {
	a := e.Attempt
	switch e.Kind {
	case api.RaceAttempted:
		l.s.note(fmt.Sprintf("attempt %d: %s, %s, %s", a.Attempt, raceOutcome(a), raceChanges(a), timeTaken(a)))
	case api.RaceJudged:
		l.s.note(fmt.Sprintf("attempt %d: judge exit %s, score %s", a.Attempt, judgeExit(a), scoreText(a)))
	case api.RaceForked, api.RaceStarted, api.RaceJudging, api.RaceEnded:
	}
}

func (raceLines) done() error { return nil }

// raceRows returns the table of a race. outcome and took fill two of its columns.
func raceRows(p *page, attempts []api.RaceAttempt, outcome, took func(api.RaceAttempt) string) [][]string {
	rows := [][]string{{"ATTEMPT", p.paint(plain, "OUTCOME"), "JUDGE", "SCORE", "CHANGED", "TIME", "CELL"}}
	for _, a := range attempts {
		rows = append(rows, []string{
			strconv.Itoa(a.Attempt), outcome(a), judgeExit(a), scoreText(a), strconv.Itoa(a.ChangedFiles), took(a), quote.Line(a.Cell),
		})
	}
	return rows
}

func raceOutcome(a api.RaceAttempt) string {
	if a.Outcome == "failed" {
		return fmt.Sprintf("failed (exit %d)", a.ExitCode)
	}
	return quote.Line(a.Outcome)
}

// raceChanges counts what an attempt changed.
func raceChanges(a api.RaceAttempt) string {
	text := count(int64(a.ChangedFiles), "change", "changes")
	if len(a.Elsewhere) > 0 {
		text += ", " + quote.Line(api.ElsewhereText(a.Elsewhere))
	}
	return text
}

func judgeExit(a api.RaceAttempt) string {
	if a.JudgeExitCode == nil {
		return "-"
	}
	return strconv.Itoa(*a.JudgeExitCode)
}

func scoreText(a api.RaceAttempt) string {
	if a.Score == nil {
		return "-"
	}
	return strconv.FormatFloat(*a.Score, 'g', -1, 64)
}

// timeTaken returns how long the command of an attempt took.
func timeTaken(a api.RaceAttempt) string { return fmt.Sprintf("%.2fs", float64(a.DurationUS)/1e6) }
