package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
)

// Span is a part of a timeline.
type Span struct {
	// From is the time of its first entries.
	From time.Time
	// Limit is how many later entries are wanted at least, if there are so many; 0 means
	// all of them.
	Limit int
}

// disorder bounds how much later than a later event an event can be written: repetitions
// are counted for a while before they are.
const disorder = 2 * time.Minute

// Timeline lists what happened in a session, in the order of time: its events, and
// what was done with its cell. Events before and far behind the span are not read.
func Timeline(ctx context.Context, r Reader, name string, now time.Time, span Span) ([]api.TimelineEntry, error) {
	s, err := ShowStarted(ctx, r, name, now)
	if err != nil {
		return nil, err
	}
	out, err := span.events(ctx, r, s)
	if err != nil {
		return nil, err
	}
	log, err := r.Log(ctx, name)
	if err != nil {
		return nil, err
	}
	for _, l := range log {
		if l.Kind == "run" || l.Kind == "live" || l.CreatedAt.Before(span.From) {
			continue // its events say it, or it was shown
		}
		out = append(out, api.TimelineEntry{At: l.CreatedAt, Kind: l.Kind, Summary: summaryOf(l), Details: map[string]string{"id": l.ID, "actor": l.Actor}})
	}
	slices.SortStableFunc(out, func(a, b api.TimelineEntry) int { return a.At.Compare(b.At) })
	return out, nil
}

// errEnough ends the reading of events.
var errEnough = errors.New("enough events were read")

// events returns the events of a session in the span, and some behind it.
func (p Span) events(ctx context.Context, r Reader, s *api.AgentSession) ([]api.TimelineEntry, error) {
	out, later := []api.TimelineEntry{}, 0
	var last time.Time // of those that are enough
	take := func(rec event.Record) error {
		entry, err := fromEvent(rec)
		switch {
		case err != nil:
			return err
		case p.Limit > 0 && later >= p.Limit && entry.At.After(last.Add(disorder)):
			return errEnough
		}
		out = append(out, entry)
		if entry.At.After(p.From) && later < p.Limit {
			later++
			if entry.At.After(last) {
				last = entry.At
			}
		}
		return nil
	}
	q := api.EventQuery{Cell: s.Cell}
	if !p.From.IsZero() {
		q.Since = p.From.Truncate(time.Millisecond) // as precise as events are
	}
	for _, q.Run = range s.RunIDs {
		err := r.Events(ctx, q, take)
		if errors.Is(err, errEnough) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(out, func(e api.TimelineEntry) bool { return e.At.Before(p.From) }), nil
}

func summaryOf(l api.LogEntry) string {
	text := l.Kind
	for _, part := range []string{l.Name, l.Decision, l.CheckpointID, l.Reason} {
		if part != "" {
			text += " " + part
		}
	}
	return text
}

// kinds names classes of events in a timeline.
func kindOf(class event.Class, activity int) string {
	const terminate = 2
	switch class {
	case event.ProcessActivity:
		if activity == terminate {
			return "exit"
		}
		return "launch"
	case event.NetworkActivity, event.HTTPActivity, event.DNSActivity, event.SSHActivity:
		return "network"
	case event.DetectionFinding:
		return "finding"
	case event.ConfigChange:
		return "state"
	case event.AppLifecycle:
		return "session"
	default:
		return "event"
	}
}

// timelineEvent has the fields of an event that a timeline reads.
type timelineEvent struct {
	Time     int64  `json:"time"`
	Class    int    `json:"class_uid"`
	Activity int    `json:"activity_id"`
	Name     string `json:"activity_name"`
	Action   string `json:"action"`
	State    string `json:"state"`
	Message  string `json:"message"`
	Detail   string `json:"status_detail"`
	Rule     struct {
		Name string `json:"name"`
	} `json:"firewall_rule"`
	Dst struct {
		Hostname string `json:"hostname"`
		IP       string `json:"ip"`
		Port     int    `json:"port"`
	} `json:"dst_endpoint"`
	Query struct {
		Hostname string `json:"hostname"`
	} `json:"query"`
	Request struct {
		Method string `json:"http_method"`
	} `json:"http_request"`
	URL struct {
		Hostname string `json:"hostname"`
		Path     string `json:"path"`
	} `json:"url"`
	ExitCode *int `json:"exit_code"`
	Process  struct {
		CommandLine string `json:"cmd_line"`
	} `json:"process"`
}

func fromEvent(rec event.Record) (api.TimelineEntry, error) {
	var e timelineEvent
	if err := json.Unmarshal(rec.Raw, &e); err != nil {
		return api.TimelineEntry{}, err
	}
	kind := kindOf(event.Class(e.Class), e.Activity)
	if event.Class(e.Class) == event.ProcessActivity && e.Rule.Name == rulePackages {
		kind = "package"
	}
	switch e.State {
	case event.ClientAttached:
		kind = "attach"
	case event.MessageTyped:
		kind = "send"
	}
	out := api.TimelineEntry{At: time.UnixMilli(e.Time).UTC(), Kind: kind, Summary: e.summary(), Details: map[string]string{}}
	for key, value := range map[string]string{
		"action": e.Action, "why": e.Detail, "rule": e.Rule.Name, "host": cmp.Or(e.URL.Hostname, e.Query.Hostname, e.Dst.Hostname, e.Dst.IP), "message": e.Message,
	} {
		if value != "" {
			out.Details[key] = value
		}
	}
	return out, nil
}

// rulePackages is the rule in the events of package managers that run as root.
const rulePackages = "packages"

// summary returns one line about an event.
func (e timelineEvent) summary() string {
	text := cmp.Or(e.Message, e.Name)
	switch {
	case e.URL.Hostname != "":
		text = e.Request.Method + " " + e.URL.Hostname + e.URL.Path
	case e.Query.Hostname != "":
		text = "look-up of " + e.Query.Hostname
	case event.Class(e.Class) == event.SSHActivity:
		text = e.login()
	case e.Dst.Port != 0:
		text = e.Name + " " + e.address()
	case e.Process.CommandLine != "":
		text += ": " + e.Process.CommandLine
		if e.Rule.Name == rulePackages && e.ExitCode != nil {
			text += ", exit " + strconv.Itoa(*e.ExitCode)
		}
	}
	if e.Action == "Denied" {
		text = "denied: " + text
		if e.Detail != "" {
			text += ": " + e.Detail
		}
	}
	return text
}

// address returns the destination of a connection.
func (e timelineEvent) address() string {
	return net.JoinHostPort(cmp.Or(e.Dst.Hostname, e.Dst.IP), strconv.Itoa(e.Dst.Port))
}

// login returns what was asked of the ssh agent: the host, the key and the user, as far
// as they are known.
func (e timelineEvent) login() string {
	text := "ssh login"
	if e.Dst.Port != 0 {
		text += " " + e.address()
	}
	if e.Message != "" {
		text += ", " + e.Message
	}
	return text
}
