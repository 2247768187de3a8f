package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/api/sse"
)

// followTools returns the tools that show what runs do and write.
func followTools() []tool {
	return []tool{
		define(tool{
			op: op.ListEvents, name: "events", command: "log {cell}", title: "Show events",
			about: "Show the newest events of a cell, such as what its runs were denied: connections, requests, system calls.",
		}, showEvents),
		define(tool{
			op: op.GetRunLogs, name: "wait_for_text", title: "Wait for text in the output",
			about: "Wait until a text stands in the output of a live cell or a run, such as the line that a server prints when it is ready.",
		}, waitForText),
	}
}

// maxEvents is how many events a result has unless the caller says otherwise.
const maxEvents = 100

type eventsArgs struct {
	InCell
	Run    string `json:"run,omitempty" doc:"Only events of this run."`
	Class  string `json:"class,omitempty" doc:"Only this class: its number or its name, such as 2004 or detection_finding."`
	Action string `json:"action,omitempty" enum:"allowed,denied" doc:"Only what was allowed or denied."`
	Since  string `json:"since,omitempty" doc:"Only since this time (RFC 3339), or since so long ago, such as 2h."`
	Limit  int    `json:"limit,omitempty" minimum:"1" maximum:"1000" doc:"At most so many, the newest; 100 by default."`
}

// eventList is the document of events. Truncated says that there are older ones.
type eventList struct {
	Items     []json.RawMessage `json:"items"`
	Truncated bool              `json:"truncated"`
}

func showEvents(ctx context.Context, c *call, in eventsArgs) (*answer, error) {
	q := query{"cell": {in.Cell}}
	q.set("run", in.Run)
	q.set("class", in.Class)
	q.set("action", in.Action)
	q.set("since", in.Since)
	resp, err := c.send(ctx, request{method: http.MethodGet, path: path("events"), query: url.Values(q)})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	limit := in.Limit
	if limit == 0 {
		limit = maxEvents
	}
	doc, err := lastLines(resp.Body, limit)
	if err != nil {
		return nil, err
	}
	text := []string{api.Counted(len(doc.Items), "event")}
	for _, item := range doc.Items {
		line, err := describeEvent(item)
		if err != nil {
			return nil, err
		}
		text = append(text, line)
	}
	return &answer{doc, strings.Join(text, "\n")}, nil
}

// describeEvent returns an event for the model; the document has the rest.
func describeEvent(raw []byte) (string, error) {
	var e struct {
		Time     int64  `json:"time"`
		Activity string `json:"activity_name"`
		Message  string `json:"message"`
		Finding  struct {
			Title string `json:"title"`
			Desc  string `json:"desc"`
		} `json:"finding_info"`
		To struct {
			Hostname string `json:"hostname"`
			IP       string `json:"ip"`
		} `json:"dst_endpoint"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return "", fmt.Errorf("read an event: %w", err)
	}
	words := []string{time.UnixMilli(e.Time).UTC().Format(time.RFC3339)}
	for _, word := range []string{e.Activity, e.Finding.Title, e.Finding.Desc, cmp.Or(e.To.Hostname, e.To.IP), e.Message} {
		if word != "" {
			words = append(words, word)
		}
	}
	return strings.Join(words, " "), nil
}

// lastLines reads lines of JSON, and keeps the last ones.
func lastLines(r io.Reader, limit int) (*eventList, error) {
	doc := &eventList{Items: []json.RawMessage{}}
	for stream := sse.NewReader(r); ; {
		line, err := stream.Line()
		if errors.Is(err, io.EOF) {
			return doc, nil
		}
		if err != nil {
			return nil, err
		}
		if len(doc.Items) == limit {
			doc.Items, doc.Truncated = append(doc.Items[:0], doc.Items[1:]...), true
		}
		doc.Items = append(doc.Items, line)
	}
}

type waitArgs struct {
	InCell
	Text    string `json:"text" doc:"The text to wait for."`
	Run     string `json:"run,omitempty" doc:"The run; without it, the live cell, or the last run."`
	Stream  string `json:"stream,omitempty" enum:"stdout,stderr" doc:"Which output; stdout by default."`
	Timeout string `json:"timeout,omitempty" doc:"How long to wait, such as 30s; a minute by default."`
}

// waitDocument is the document of a wait.
type waitDocument struct {
	RunID string `json:"run_id"`
	Found bool   `json:"found"`
	// TimedOut says that the run goes on without the text, so far.
	TimedOut bool `json:"timed_out"`
	// Output is the end of what was written until then.
	Output string `json:"output"`
}

func waitForText(ctx context.Context, c *call, in waitArgs) (*answer, error) {
	timeout := time.Minute
	if in.Timeout != "" {
		var err error
		if timeout, err = time.ParseDuration(in.Timeout); err != nil || timeout <= 0 {
			return nil, api.Usagef("write it as 90s", "timeout: bad duration %q", in.Timeout)
		}
	}
	if in.Text == "" || len(in.Text) > tailBytes/2 {
		return nil, api.Usagef("", "text: 1 to %d bytes", tailBytes/2)
	}
	run, err := c.presentRun(ctx, in.Cell, in.Run)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	q := query{"follow": {"true"}}
	q.set("stream", in.Stream)
	resp, err := c.send(limited, request{method: http.MethodGet, path: path("cells", in.Cell, "runs", run, "logs"), query: url.Values(q)})
	doc := &waitDocument{RunID: run}
	if err == nil {
		defer resp.Body.Close()
		err = doc.watch(resp.Body, in.Text, func() { c.progress.report(ctx, "waiting") })
	}
	doc.TimedOut = !doc.Found && limited.Err() != nil
	if err != nil && !doc.TimedOut || ctx.Err() != nil {
		return nil, errors.Join(err, ctx.Err())
	}
	return &answer{doc, doc.describe()}, nil
}

// presentRun returns a run of a cell: the given one, that of the live cell, or the
// last one.
func (c *call) presentRun(ctx context.Context, cell, run string) (string, error) {
	if run != "" {
		return run, nil
	}
	doc, _, err := fetch[api.StatusResult](ctx, c, request{method: http.MethodGet, path: path("cells", cell)})
	switch {
	case err != nil:
		return "", err
	case doc.Live != nil:
		return doc.Live.RunID, nil
	case doc.LastRun == "":
		return "", api.Missing("run", cell+" has none yet", "call run or start")
	}
	return doc.LastRun, nil
}

// watch reads until the text was written.
func (w *waitDocument) watch(r io.Reader, text string, seen func()) error {
	var end stream
	buf := make([]byte, 4<<10)
	for {
		n, err := r.Read(buf)
		end.tail = append(end.tail, buf[:n]...)
		if over := len(end.tail) - tailBytes; over > 0 {
			end.tail = append(end.tail[:0], end.tail[over:]...)
		}
		w.Found = bytes.Contains(end.tail, []byte(text))
		w.Output = strings.ToValidUTF8(string(end.tail), "\uFFFD")
		seen()
		if w.Found || errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (w *waitDocument) describe() string {
	switch {
	case w.Found:
		return "found\n" + w.Output
	case w.TimedOut:
		return "not yet there when the time was over\n" + w.Output
	}
	return "the run has ended without it\n" + w.Output
}
