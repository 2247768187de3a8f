package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/policy/suggest"
)

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
	// Smallest is the smallest addition to the policy that would have allowed what was
	// denied, "" if there is none.
	Smallest string

	class   event.Class
	network bool
	state   string
}

// Denied reports whether it was denied.
func (l eventLine) Denied() bool { return l.Action == string(event.ActionDenied) }

// Suggestible reports whether a policy can be made that allows what was denied.
func (l eventLine) Suggestible() bool {
	switch l.class {
	case event.NetworkActivity, event.HTTPActivity, event.DNSActivity:
		return l.Denied() && l.network
	default: // no policy has rules for requests to the ssh agent
		return false
	}
}

// ocsf has the fields of an event that a page shows.
type ocsf struct {
	Activity string `json:"activity_name"`
	Message  string `json:"message"`
	Detail   string `json:"status_detail"`
	State    string `json:"state"`
	ExitCode *int   `json:"exit_code"`
	Rule     *struct {
		Name string `json:"name"`
	} `json:"firewall_rule"`
	Actor *struct {
		Process *struct {
			Name string `json:"name"`
			File *struct {
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
	Request *struct {
		Method string `json:"http_method"`
		URL    struct {
			Path string `json:"path"`
		} `json:"url"`
	} `json:"http_request"`
	Query *struct {
		Hostname string `json:"hostname"`
	} `json:"query"`
	File *struct {
		Path string `json:"path"`
	} `json:"file"`
	Finding *struct {
		Title string `json:"title"`
		Desc  string `json:"desc"`
	} `json:"finding_info"`
}

// newEventLine reads an event. Its text was escaped when it was recorded.
func newEventLine(rec event.Record) eventLine {
	l := eventLine{Time: rec.Time, Class: rec.Class.String(), class: rec.Class, Action: string(rec.Action), Count: rec.Count, Cell: rec.Cell, Run: rec.Run, Smallest: suggest.Smallest(rec)}
	var o ocsf
	if json.Unmarshal(rec.Raw, &o) != nil {
		l.Message = "this event cannot be read"
		return l
	}
	if o.Message == l.Smallest {
		o.Message = "" // it has a place of its own
	}
	l.Message, l.state = o.message(rec.Class), o.State
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

// message says what happened, and why.
func (o ocsf) message(class event.Class) (text string) {
	switch {
	case o.Finding != nil:
		text = o.Finding.Title + suffix(o.Finding.Desc)
	case o.Request != nil:
		text = o.Request.Method + " " + o.Request.URL.Path + suffix(o.Message)
	case o.Query != nil:
		text = cmp.Or(o.Message, "name asked for")
	case o.ExitCode != nil && o.Process != nil:
		text = fmt.Sprintf("%s, exit code %d", o.Message, *o.ExitCode)
	case class == event.NetworkActivity:
		text = cmp.Or(o.Message, steps[o.Activity], o.Activity)
	default:
		text = cmp.Or(o.Message, o.Activity)
	}
	return text + suffix(o.Detail)
}

// steps says what the schema's words for a connection mean.
var steps = map[string]string{
	event.Opened.String(): "connection opened", event.Closed.String(): "connection closed", event.Reset.String(): "connection reset",
	event.Failed.String(): "connection failed", event.Refused.String(): "connection refused",
}

// suffix returns a text as the end of another.
func suffix(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// target returns what an event is about, and whether that is in the network.
func (o ocsf) target() (text string, network bool) {
	switch {
	case o.Query != nil: // the destination is the name server
		return o.Query.Hostname, true
	case o.Destination != nil:
		host := cmp.Or(o.Destination.Hostname, o.Destination.IP)
		if o.Destination.Port > 0 {
			host = net.JoinHostPort(host, strconv.Itoa(o.Destination.Port))
		}
		return host, host != ""
	case o.File != nil:
		return o.File.Path, false
	case o.Process != nil:
		return o.Process.CmdLine, false
	}
	return "", false
}
