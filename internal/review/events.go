package review

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/cell"
	"github.com/forkcell/forkcell/internal/event"
	"github.com/forkcell/forkcell/internal/token"
)

// eventsOnPage is how many events a page shows, the newest ones.
const eventsOnPage = 300

func (s *Site) addEvents() { s.get("/events", (*request).eventsPage) }

// eventLine is an event as a page shows it.
type eventLine struct {
	Time    time.Time
	Class   string
	Action  string
	Count   uint64
	Cell    string
	Run     string
	Target  string
	Program string
	Message string
	Rule    string

	network bool
	state   string
}

// ocsf has the fields of an event that a page shows.
type ocsf struct {
	Activity string `json:"activity_name"`
	Message  string `json:"message"`
	Detail   string `json:"status_detail"`
	State    string `json:"state"`
	Rule     *struct {
		Name string `json:"name"`
	} `json:"firewall_rule"`
	Actor *struct {
		Process *struct {
			Name    string `json:"name"`
			CmdLine string `json:"cmd_line"`
			File    *struct {
				Path string `json:"path"`
			} `json:"file"`
		} `json:"process"`
	} `json:"actor"`
	Process *struct {
		CmdLine string `json:"cmd_line"`
	} `json:"process"`
	Destination *struct {
		Hostname string `json:"hostname"`
		IP       string `json:"ip"`
		Port     int    `json:"port"`
	} `json:"dst_endpoint"`
	Query *struct {
		Hostname string `json:"hostname"`
	} `json:"query"`
	File *struct {
		Path string `json:"path"`
	} `json:"file"`
}

// newEventLine reads an event. Its text was escaped when it was recorded.
func newEventLine(rec event.Record) eventLine {
	l := eventLine{Time: rec.Time, Class: rec.Class.String(), Action: string(rec.Action), Count: rec.Count, Cell: rec.Cell, Run: rec.Run}
	var o ocsf
	if json.Unmarshal(rec.Raw, &o) != nil {
		l.Message = "this event cannot be read"
		return l
	}
	l.Message, l.state = o.Message, o.State
	if l.Message == "" {
		l.Message = o.Activity
	}
	if o.Detail != "" {
		l.Message += ": " + o.Detail
	}
	if o.Rule != nil {
		l.Rule = o.Rule.Name
	}
	if o.Actor != nil && o.Actor.Process != nil {
		l.Program = o.Actor.Process.Name
		if o.Actor.Process.File != nil {
			l.Program = o.Actor.Process.File.Path
		}
	}
	l.Target, l.network = o.target()
	return l
}

// target returns what an event is about, and whether that is in the network.
func (o ocsf) target() (text string, network bool) {
	switch {
	case o.Query != nil: // the destination is the name server
		return o.Query.Hostname, true
	case o.Destination != nil:
		host := o.Destination.Hostname
		if host == "" {
			host = o.Destination.IP
		}
		if o.Destination.Port > 0 {
			host = fmt.Sprintf("%s:%d", host, o.Destination.Port)
		}
		return host, host != ""
	case o.File != nil:
		return o.File.Path, false
	case o.Process != nil:
		return o.Process.CmdLine, false
	}
	return "", false
}

// eventsBody is the timeline.
type eventsBody struct {
	Lines                    []eventLine
	Cell, Run, Action, Class string
	Classes                  []string
	More                     bool
	Damaged                  string
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
	return q.show("events", frame{Title: "Events", Nav: "events", Live: path("live") + query("cell", body.Cell), Body: body})
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
	body := suggestBody{Run: info, MayApply: q.may(token.Admin)}
	if body.Suggest, err = q.engine.SuggestPolicy(ctx, info.Cell, info.RunID); err != nil {
		return err
	}
	body.Text = string(body.Suggest.Text)
	status, err := q.engine.Status(ctx, info.Cell)
	if err != nil {
		return err
	}
	body.Revision = status.Revision
	body.Diff, err = q.engine.DiffPolicies(ctx, cell.PolicyRef{Cell: info.Cell}, cell.PolicyRef{File: &api.PolicyFile{Name: "suggestion", Text: body.Suggest.Text}})
	if err != nil {
		return err
	}
	return q.show("suggest", frame{Title: "Allow what was denied", Nav: "events", Body: body})
}
