package rest

import (
	"bufio"
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/text/document"
)

const (
	linesType = "application/jsonl"
	// linesBuffer is the size of the parts in which lines are sent.
	linesBuffer = 32 << 10
)

// eventReader reads events and the output of runs.
type eventReader interface {
	Events(ctx context.Context, q api.EventQuery, fn func(event.Record) error) error
	StreamEvents(ctx context.Context, q api.EventQuery, from string, fn func(position string, rec *event.Record) error, damaged func(error) error) error
}

// EventFilter is the input of a route that shows events.
type EventFilter struct {
	Class  string `query:"class" doc:"Only this class: its number or its name, such as 2004 or detection_finding."`
	Action string `query:"action" enum:"allowed,denied" doc:"Only what was allowed or denied."`
	Since  string `query:"since" doc:"Only since this time (RFC 3339), or since so long ago, such as 2h."`
	Follow bool   `query:"follow" doc:"Server-sent events as they happen."`
	Last   string `header:"Last-Event-ID" doc:"With follow: begin after this event. Without it the stream begins now."`
}

type eventsInput struct {
	EventFilter
	Cell string `query:"cell" doc:"Only events of this cell."`
	Run  string `query:"run" doc:"Only events of this run."`
}

type runEventsInput struct {
	InRun
	EventFilter
}

type cellRunEventsInput struct {
	InCellRun
	EventFilter
}

// addEvents adds the routes that show events and the output of runs.
func (s *Server) addEvents() {
	handleExchange(s, op.ListEvents, eventResponses(), s.listEvents)
	handleExchange(s, op.ListRunEvents, eventResponses(), func(ctx context.Context, x *exchange, in *runEventsInput) {
		s.runEvents(ctx, x, in.EventFilter, in.name())
	})
	handleExchange(s, op.ListCellRunEvents, eventResponses(), func(ctx context.Context, x *exchange, in *cellRunEventsInput) {
		s.runEvents(ctx, x, in.EventFilter, in.name())
	})
	s.addLogs()
}

func eventResponses() map[string]*huma.Response {
	responses := streamResponse(map[string]string{
		linesType: "One OCSF object on each line. If a journal cannot be read to its end, the last line is a problem document.",
	})
	responses["200"].Content[eventsType] = eventMedia("event", "problem")
	return responses
}

// streamResponse describes an answer that is a stream, by its media types.
func streamResponse(types map[string]string) map[string]*huma.Response {
	content := map[string]*huma.MediaType{}
	for name, text := range types {
		content[name] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Description: text}}
	}
	return map[string]*huma.Response{"200": {Description: "The stream.", Content: content}}
}

// query checks the filter, and binds it to the cells that the caller sees.
func (f EventFilter) query(c *call) (q api.EventQuery, err error) {
	q = api.EventQuery{Action: f.Action}
	if !c.caller.seesAll() {
		q.Sees, q.Viewer = c.caller.sees, c.caller.only+"/"+c.caller.grant.Cells
	}
	if f.Class != "" {
		class, err := event.ParseClass(f.Class)
		if err != nil {
			return q, api.Usagef("use a number or a name of docs/formats/events.md", "unknown class %q", f.Class)
		}
		// Records of requests name all callers and cells.
		if class == event.APIActivity && !c.caller.may(Unbounded) {
			return q, c.deny(Unbounded)
		}
		q.Class = int(class)
	}
	if f.Since != "" {
		if q.Since, err = moment(f.Since); err != nil {
			return q, err
		}
	}
	if f.Last != "" && !f.Follow {
		return q, api.Usagef("add follow=true", "Last-Event-ID needs follow")
	}
	return q, nil
}

// moment reads a time, or a duration since it.
func moment(text string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return time.Time{}, api.Usagef("write it as 2026-01-31T12:00:00Z or 2h", "since: neither a time nor a duration")
	}
	return time.Now().Add(-d), nil
}

func (s *Server) listEvents(ctx context.Context, x *exchange, in *eventsInput) {
	if in.Cell == "" {
		in.Cell = x.caller.only
	}
	q, err := in.query(x.call)
	if err == nil {
		err = x.visible(in.Cell)
	}
	q.Cell, q.Run = in.Cell, in.Run
	x.events(ctx, q, in.EventFilter, err)
}

func (s *Server) runEvents(ctx context.Context, x *exchange, f EventFilter, run runName) {
	q, err := f.query(x.call)
	if err == nil {
		q.Run = run.run
		_, err = s.getRun(ctx, x.call, run)
	}
	x.events(ctx, q, f, err)
}

// events answers with events, unless the request was refused with an error.
func (x *exchange) events(ctx context.Context, q api.EventQuery, f EventFilter, refused error) {
	switch {
	case refused != nil:
		x.fail(refused)
	case f.Follow:
		x.stream(ctx, func(ctx context.Context) {
			x.eventStream(ctx, q, f.Last)
			_ = x.server.jobs.settle(ctx, q.Run) // or the caller is gone
		})
	default:
		x.eventLines(ctx, q)
	}
}

// eventLines answers with the events so far.
func (x *exchange) eventLines(ctx context.Context, q api.EventQuery) {
	out := newRawStream(x.w, linesType)
	lines := bufio.NewWriterSize(out, linesBuffer)
	err := x.engine.Events(ctx, q, func(rec event.Record) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		_, err := lines.Write(append(document.EscapeInvisible(rec.Raw), '\n'))
		return err
	})
	switch {
	case out.fail != nil: // the reader is gone
		return
	case err != nil && !out.begun && (lines.Buffered() == 0 || ctx.Err() != nil):
		x.fail(err)
		return
	case err != nil && ctx.Err() != nil:
		panic(http.ErrAbortHandler) // the reader must not take a part for the whole
	case err != nil:
		_ = document.Write(lines, x.server.problemOf(x.call, err).Problem)
	}
	out.begin()
	_ = lines.Flush() // the caller is gone if it fails
}

// eventStream sends events as they happen.
func (x *exchange) eventStream(ctx context.Context, q api.EventQuery, from string) {
	var out *eventStream
	stop := func() {}
	defer func() { stop() }()
	err := x.engine.StreamEvents(ctx, q, from, func(position string, rec *event.Record) error {
		if out == nil {
			out = newEventStream(x.w)
			stop = out.beat()
		}
		if rec == nil {
			return out.place(position)
		}
		return out.record(position, *rec)
	}, func(err error) error {
		return out.send("problem", x.server.problemOf(x.call, api.Failf(api.CodeEvents, err, "read a journal of events")).Problem)
	})
	switch {
	case err == nil, ctx.Err() != nil:
	case out == nil:
		x.fail(err)
	default:
		_ = out.send("problem", x.server.problemOf(x.call, err).Problem)
	}
}

// place sends the position that a reader may continue from, without an event.
func (s *eventStream) place(position string) error {
	return s.write([]byte("id: " + position + "\n\n"))
}

// record sends an event and the position after it.
func (s *eventStream) record(position string, rec event.Record) error {
	b := []byte("id: " + position + "\nevent: event\ndata: ")
	b = append(b, document.EscapeInvisible(rec.Raw)...)
	return s.write(append(b, '\n', '\n'))
}
