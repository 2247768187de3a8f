package web

import (
	"slices"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/evidence/event"
)

// eventsOnPage is how many events a page shows, the newest ones.
const eventsOnPage = 300

func (s *Site) addEvents() { s.get("/events", (*request).eventsPage) }

// eventsBody is the timeline.
type eventsBody struct {
	Lines                    []eventLine
	Cell, Run, Action, Class string
	Classes                  []string
	More                     bool
	Damaged                  string
}

// NewDay returns the day of a line, if the line above it is of another one.
func (b eventsBody) NewDay(i int) string {
	day := b.Lines[i].Time.UTC().Format(time.DateOnly)
	if i > 0 && b.Lines[i-1].Time.UTC().Format(time.DateOnly) == day {
		return ""
	}
	return day
}

func (q *request) eventsPage() error {
	v := q.URL.Query()
	body := eventsBody{Cell: v.Get("cell"), Run: v.Get("run"), Action: v.Get("action"), Class: v.Get("class")}
	for _, c := range event.Classes() {
		if c != event.APIActivity {
			body.Classes = append(body.Classes, c.String())
		}
	}
	find := api.EventQuery{Cell: body.Cell, Run: body.Run, Limit: eventsOnPage + 1}
	if !q.visit.SeesAll() {
		find.Sees, find.Viewer = q.visit.Sees, "page of "+q.session.visitor.Token
	}
	if body.Cell != "" {
		if _, err := q.visible(body.Cell); err != nil {
			return err
		}
	}
	if body.Action != "" {
		a, err := event.ParseAction(body.Action)
		if err != nil {
			return api.Usagef("choose allowed or denied", "unknown action")
		}
		find.Action = string(a)
	}
	if body.Class != "" {
		c, err := event.ParseClass(body.Class)
		if err != nil || c == event.APIActivity {
			return api.Usagef("choose one of the list", "unknown class of events")
		}
		find.Class = int(c)
	}
	if err := q.engine.Events(q.Context(), find, func(rec event.Record) error {
		body.Lines = append(body.Lines, newEventLine(rec))
		return nil
	}); err != nil {
		if len(body.Lines) == 0 {
			return err
		}
		body.Damaged = q.problem(err)
	}
	if len(body.Lines) > eventsOnPage {
		body.Lines, body.More = body.Lines[len(body.Lines)-eventsOnPage:], true
	}
	slices.Reverse(body.Lines)
	return q.show("events", frame{Title: "Events", Nav: "events", Live: path("live") + query("cell", body.Cell, "events", "yes"), Body: body})
}

// suggestBody is the page of a policy that would allow what a run was denied.
type suggestBody struct {
	Run      *api.RunInfo
	Suggest  *api.PolicySuggestion
	Text     string
	Diff     *api.PolicyDiff
	Revision int64
	MayApply bool
}

// suggestPage shows the smallest policy that allows what a run was denied, and how it
// differs from that of the cell.
func (q *request) suggestPage() error {
	info, err := q.run()
	if err != nil {
		return err
	}
	ctx := q.Context()
	body := suggestBody{Run: info, MayApply: q.may(op.SetPolicy)}
	if body.Suggest, err = q.engine.SuggestPolicy(ctx, info.Cell, info.RunID); err != nil {
		return err
	}
	body.Text = string(body.Suggest.Text)
	status, err := q.engine.Status(ctx, info.Cell)
	if err != nil {
		return err
	}
	body.Revision = status.Revision
	body.Diff, err = q.engine.DiffPolicies(ctx, engine.PolicyRef{Cell: info.Cell}, engine.PolicyRef{File: &api.PolicyFile{Name: "suggestion", Text: body.Suggest.Text}})
	if err != nil {
		return err
	}
	return q.show("suggest", frame{Title: "Allow what was denied", Nav: "events", Body: body})
}
