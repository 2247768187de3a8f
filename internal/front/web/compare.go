package web

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	agentsession "github.com/forkcell/forkcell/internal/session"
)

// attemptsOnPage is how many forks of a cell a page compares.
const attemptsOnPage = 100

func (s *Site) addCompare() {
	s.get("/compare", (*request).comparePage)
	s.post("/cells/{cell}/choose", (*request).choose)
}

// compareBody is the page that compares forks of a cell, or two states.
type compareBody struct {
	Cell     string
	Cells    []string
	From, To string
	Revision int64 // of the cell
	Races    []raceLines
	Forks    []attempt // that are no attempts of a race
	Changes  *changes
	Missing  string
	Decides  bool
}

// Choosable reports whether the visitor can choose a winner on the page.
func (b compareBody) Choosable() bool {
	return b.Decides && slices.ContainsFunc(b.Races, func(r raceLines) bool { return r.Open })
}

// Failed reports whether an attempt that can be chosen did not succeed.
func (b compareBody) Failed() bool {
	return slices.ContainsFunc(b.Races, func(r raceLines) bool {
		return r.Open && slices.ContainsFunc(r.Lines, func(a raceLine) bool { return a.Outcome != outcomeSucceeded })
	})
}

const outcomeSucceeded = "succeeded"

// raceLines is a race with the attempts whose cells the visitor sees.
type raceLines struct {
	api.PastRace
	Lines []raceLine
	Gone  int // attempts whose cells were removed
}

// Several reports whether there are attempts to compare with each other.
func (r raceLines) Several() bool { return len(r.Lines) > 1 }

// raceLine is an attempt of a race.
type raceLine struct {
	api.RaceAttempt
	Decision string // about its run, in its own cell
	Winner   bool
	Stat     diffstat
}

// Took returns how long the command took.
func (l raceLine) Took() string { return showDuration(time.Duration(l.DurationUS) * time.Microsecond) }

// attempt is a fork of a cell, with its last run. Outcome is the status of a session, and
// Decision is about its present state.
type attempt struct {
	api.CellInfo
	Run               *api.RunInfo
	Outcome, Decision string
	Stat              diffstat
}

// attempt describes a fork.
func (q *request) attempt(ctx context.Context, c api.CellInfo, room *statRoom) (a attempt, err error) {
	a.CellInfo = c
	s, err := q.sessionOf(ctx, c)
	if err != nil {
		return a, err
	}
	run := c.LastRun
	if s != nil {
		run = s.RunID
	}
	if run == "" {
		return a, nil
	}
	if a.Run, err = q.engine.RunInfo(ctx, run); err != nil {
		return a, err
	}
	if s != nil {
		a.Outcome, a.Decision, a.Stat = s.Status, s.Decision, q.sessionStat(ctx, s, room)
		return a, nil
	}
	a.Outcome, a.Decision = a.Run.Outcome, a.Run.Decision
	a.Stat = q.runStat(ctx, a.Run.Cell, a.Run.RunID, a.Run.ChangedFiles, room)
	return a, nil
}

// sessionOf describes the session of a cell; nil if it has none that has run.
func (q *request) sessionOf(ctx context.Context, c api.CellInfo) (*api.AgentSession, error) {
	if _, is := c.Labels[api.LabelAgent]; !is {
		return nil, nil //nolint:nilnil // as documented
	}
	s, err := agentsession.Show(ctx, q.engine, c.Cell, time.Now())
	if api.CodeOf(err) == api.CodeNotFound || err == nil && s.RunID == "" {
		return nil, nil //nolint:nilnil // as documented
	}
	return s, err
}

// comparePage compares the forks of a cell, or two states of any cells.
func (q *request) comparePage() error {
	v := q.URL.Query()
	ctx := q.Context()
	body := compareBody{Cell: v.Get("cell"), From: v.Get("from"), To: v.Get("to"), Decides: q.may(op.Choose)}
	list, err := q.visibleCells(ctx)
	if err != nil {
		return err
	}
	for _, c := range list {
		body.Cells = append(body.Cells, c.Cell)
	}
	if body.Cell != "" {
		if _, err := q.visible(body.Cell); err != nil {
			return err
		}
		if err := q.addAttempts(ctx, &body, list); err != nil {
			return err
		}
	}
	if body.Cell != "" && (body.From != "" || body.To != "") {
		if err := q.addComparison(ctx, &body); err != nil {
			return err
		}
	}
	return q.show("compare", frame{Title: "Compare", Nav: "compare", Body: body})
}

// addAttempts finds the forks of a cell, and the races that they were made by.
func (q *request) addAttempts(ctx context.Context, b *compareBody, list []api.CellInfo) error {
	forks := map[string]api.CellInfo{}
	var names []string
	for _, c := range list {
		if c.Cell == b.Cell {
			b.Revision = c.Revision
		}
		if c.ForkedFrom == b.Cell && len(names) < attemptsOnPage {
			forks[c.Cell], names = c, append(names, c.Cell)
		}
	}
	slices.SortFunc(names, naturally)
	if len(names) == 0 {
		return nil
	}
	races, err := q.engine.Races(ctx, b.Cell, names)
	if err != nil { // they are forks all the same
		b.Missing = q.problem(err)
	}
	room := newStatRoom()
	for _, r := range races {
		lines := newRaceLines(r, forks)
		for i, a := range lines.Lines {
			lines.Lines[i].Stat = q.runStat(ctx, a.Cell, a.RunID, a.ChangedFiles, room)
		}
		b.Races = append(b.Races, lines)
	}
	for _, name := range names {
		c, other := forks[name]
		if !other {
			continue
		}
		a, err := q.attempt(ctx, c, room)
		if err != nil {
			return err
		}
		b.Forks = append(b.Forks, a)
	}
	return nil
}

// newRaceLines takes the attempts of a race from the forks that a page shows. The names
// of other cells may not be the visitor's to know.
func newRaceLines(r api.PastRace, forks map[string]api.CellInfo) raceLines {
	out := raceLines{PastRace: r}
	for _, a := range r.Attempts {
		c, seen := forks[a.Cell]
		if !seen {
			out.Gone++
			continue
		}
		delete(forks, a.Cell)
		line := raceLine{RaceAttempt: a, Winner: r.Winner != nil && *r.Winner == a.Attempt}
		if c.LastRun == a.RunID {
			line.Decision = c.LastDecision
		}
		out.Lines = append(out.Lines, line)
	}
	slices.SortFunc(out.Lines, func(x, y raceLine) int { return cmp.Compare(x.Attempt, y.Attempt) })
	return out
}

// choose accepts an attempt of a race into the cell that was raced.
func (q *request) choose() error {
	name, err := q.cell()
	if err != nil {
		return err
	}
	engine, reason, err := q.deciding(op.Choose)
	if err != nil {
		return err
	}
	attempt, err := q.visible(q.PostForm.Get("attempt"))
	if err != nil {
		return err
	}
	if _, err := engine.Choose(q.Context(), api.ChooseRequest{Cell: name, Attempt: attempt, Reason: reason, Force: q.PostForm.Get("force") == "yes"}); err != nil {
		return err
	}
	return q.goTo(path("compare") + query("cell", name, "done", "chosen"))
}

func (q *request) addComparison(ctx context.Context, b *compareBody) error {
	o, err := q.options()
	if err != nil {
		return err
	}
	b.Changes, err = compare(ctx, q.engine, api.DiffRequest{Cell: b.Cell, From: b.From, To: b.To}, o)
	if err != nil {
		b.Missing = q.problem(err)
	}
	return nil
}
