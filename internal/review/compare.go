package review

import (
	"cmp"
	"context"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
)

// attemptsOnPage is how many forks of a cell a page compares.
const attemptsOnPage = 100

func (s *Site) addCompare() {
	s.get("/compare", (*request).comparePage)
}

// compareBody is the page that compares forks of a cell, or two states.
type compareBody struct {
	Cell     string
	Cells    []string
	From, To string
	Attempts []attempt
	Race     *api.RaceInfo
	Changes  *changes
	Missing  string
	Decides  bool
}

// attempt is a fork of a cell, with its last run.
type attempt struct {
	api.CellInfo
	Run    *api.RunInfo
	Score  *float64
	Winner bool
}

// comparePage compares the forks of a cell, or two states of any cells.
func (q *request) comparePage() error {
	v := q.URL.Query()
	ctx := q.Context()
	body := compareBody{Cell: v.Get("cell"), From: v.Get("from"), To: v.Get("to"), Decides: q.decides()}
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

// addAttempts finds the forks of a cell, and the race that they were part of.
func (q *request) addAttempts(ctx context.Context, b *compareBody, list []api.CellInfo) error {
	decisions, err := q.engine.Decisions(ctx, b.Cell, "")
	if err != nil {
		return err
	}
	for _, d := range slices.Backward(decisions) {
		if d.Race != nil {
			b.Race = d.Race
			break
		}
	}
	for _, c := range list {
		if c.ForkedFrom != b.Cell || len(b.Attempts) >= attemptsOnPage {
			continue
		}
		a := attempt{CellInfo: c}
		if c.LastRun != "" {
			if a.Run, err = q.engine.RunInfo(ctx, c.LastRun); err != nil {
				return err
			}
		}
		if b.Race != nil {
			for _, r := range b.Race.Attempts {
				if r.Cell == c.Cell {
					a.Score, a.Winner = r.Score, r.Attempt == b.Race.Winner
				}
			}
		}
		b.Attempts = append(b.Attempts, a)
	}
	slices.SortFunc(b.Attempts, func(x, y attempt) int { return cmp.Or(naturally(x.Cell, y.Cell)) })
	return nil
}

func (q *request) addComparison(ctx context.Context, b *compareBody) error {
	o, err := q.options()
	if err != nil {
		return err
	}
	b.Changes, err = compare(ctx, q.engine, api.DiffRequest{Cell: b.Cell, From: b.From, To: b.To}, o)
	if err != nil {
		b.Missing = q.site.config.Problem(q.Request, err).Detail
	}
	return nil
}
