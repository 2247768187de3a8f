package cli

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// eventFields are the fields of an event that are printed; docs/formats/events.md has the rest.
type eventFields struct {
	Activity string        `json:"activity_name"`
	Detail   string        `json:"status_detail"`
	Message  string        `json:"message"`
	Actor    eventActor    `json:"actor"`
	Rule     eventName     `json:"firewall_rule"`
	Process  *eventProcess `json:"process"`
	ExitCode *int          `json:"exit_code"`
	File     *eventFile    `json:"file"`
	Finding  *eventFinding `json:"finding_info"`
	To       *eventPlace   `json:"dst_endpoint"`
	Request  *eventRequest `json:"http_request"`
	Query    *eventPlace   `json:"query"`
	State    string        `json:"state"`
}

type (
	eventActor struct {
		Process eventProcess `json:"process"`
	}
	eventName struct {
		Name string `json:"name"`
	}
	eventFile struct {
		Path string `json:"path"`
	}
	eventProcess struct {
		PID     int       `json:"pid"`
		CmdLine string    `json:"cmd_line"`
		File    eventFile `json:"file"`
	}
	eventFinding struct {
		Title string `json:"title"`
		Desc  string `json:"desc"`
	}
	eventPlace struct {
		Hostname string `json:"hostname"`
		IP       string `json:"ip"`
		Port     int    `json:"port"`
		Type     string `json:"type"` // of a question
	}
	eventRequest struct {
		Method string `json:"http_method"`
		URL    struct {
			Path string `json:"path"`
		} `json:"url"`
	}
)

// printEvent writes one event on one line: the time, the place, whether it was
// allowed, and a description.
func printEvent(p *page, rec event.Record) {
	p.printf("%s  %s  %s  %s  %s\n", rec.Time.UTC().Format("2006-01-02 15:04:05.000Z"), quote.Line(rec.Cell),
		quote.Line(rec.Run), p.word(string(rec.Action)), quote.Line(eventLine(rec)))
}

func eventLine(rec event.Record) string {
	var f eventFields
	if err := json.Unmarshal(rec.Raw, &f); err != nil {
		return rec.Class.String()
	}
	parts := []string{f.describe(rec.Class)}
	if by := f.Actor.Process; by.File.Path != "" {
		parts = append(parts, "by "+by.File.Path)
	}
	if f.Rule.Name != "" {
		parts = append(parts, "rule "+f.Rule.Name)
	}
	if f.Detail != "" {
		parts = append(parts, f.Detail)
	}
	if rec.Count > 1 {
		parts = append(parts, strconv.FormatUint(rec.Count, 10)+" times")
	}
	return strings.Join(parts, ", ")
}

// describe describes an event in a few words.
func (f eventFields) describe(c event.Class) string {
	switch c {
	case event.DetectionFinding:
		if f.Finding != nil {
			return join(": ", "finding", f.Finding.Title, f.Finding.Desc)
		}
	case event.ProcessActivity:
		if f.Process != nil {
			text := join(" ", "process", strings.ToLower(f.Activity), "pid", strconv.Itoa(f.Process.PID))
			if f.ExitCode != nil {
				return fmt.Sprintf("%s, exit code %d", text, *f.ExitCode)
			}
			return join(": ", text, f.Process.CmdLine)
		}
	case event.FileActivity:
		if f.File != nil {
			return join(" ", "file", strings.ToLower(f.Activity), f.File.Path)
		}
	case event.NetworkActivity:
		return join(" ", "connection", strings.ToLower(f.Activity), f.To.address())
	case event.HTTPActivity:
		if f.Request != nil {
			return join(" ", "request", f.Request.Method, f.To.address()+f.Request.URL.Path)
		}
	case event.DNSActivity:
		return join(" ", "name", f.Query.address(), f.Query.kind())
	case event.SSHActivity:
		return join(" ", "ssh login", f.To.address(), f.Message)
	case event.ConfigChange:
		return join(": ", "configuration", f.State, f.Message)
	case event.AppLifecycle, event.APIActivity:
		return f.Message
	}
	return join(": ", c.String(), f.Message)
}

// kind returns the type of a DNS question, such as "AAAA".
func (e *eventPlace) kind() string {
	if e == nil {
		return ""
	}
	return e.Type
}

// address returns the destination, by name if it has one.
func (e *eventPlace) address() string {
	if e == nil {
		return ""
	}
	host := e.Hostname
	if host == "" {
		host = e.IP
	}
	if e.Port == 0 {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(e.Port))
}

// join joins the parts that are not empty.
func join(by string, parts ...string) string {
	var given []string
	for _, p := range parts {
		if p != "" {
			given = append(given, p)
		}
	}
	return strings.Join(given, by)
}
