package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/api/sse"
)

// Events shows what happened in cells, as OCSF objects.
type Events struct{ client *Client }

// EventFilter selects events. Zero fields select all.
type EventFilter struct {
	Cell, Run string
	Class     string // the number or the name of a class, such as detection_finding
	Action    string // allowed or denied
	Since     string // a time, or a duration such as 2h
}

func (f EventFilter) query() url.Values {
	q := url.Values{}
	for key, value := range map[string]string{"cell": f.Cell, "run": f.Run, "class": f.Class, "action": f.Action, "since": f.Since} {
		if value != "" {
			q.Set(key, value)
		}
	}
	return q
}

// Event is one event. ID is the position after it; events that are listed have none.
type Event struct {
	ID   string
	Data json.RawMessage
}

// List returns the events so far.
func (s *Events) List(ctx context.Context, f EventFilter) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		in, err := newCall(http.MethodGet, op.ListEvents.Path+"?"+f.query().Encode(), nil, nil)
		if err != nil {
			yield(Event{}, err)
			return
		}
		in.header.Set("Accept", "application/jsonl")
		resp, err := s.client.send(ctx, in)
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer resp.Body.Close()
		lines := sse.NewReader(resp.Body)
		for {
			line, err := lines.Line()
			if errors.Is(err, io.EOF) {
				return
			}
			if err == nil {
				err = problemLine(line)
			}
			if !yield(Event{Data: line}, err) || err != nil {
				return
			}
		}
	}
}

// problemLine returns the error of a last line that is a problem document.
func problemLine(line []byte) error {
	var p api.Problem
	if readDocument(line, &p) == nil && p.Type != "" && p.Code != "" {
		return problemError(p)
	}
	return nil
}

// Follow returns events as they happen, until the context ends. It begins after the
// event with the id after, or now if that is "". A lost connection is made again, and
// no event is missed or comes twice.
func (s *Events) Follow(ctx context.Context, f EventFilter, after string) iter.Seq2[Event, error] {
	query := f.query()
	query.Set("follow", "true")
	return func(yield func(Event, error) bool) {
		stream := &eventStream{client: s.client, path: op.ListEvents.Path + "?" + query.Encode(), last: after}
		for {
			more, err := stream.read(ctx, yield)
			if !more || err == nil {
				return
			}
			if err = stream.wait(ctx, err); err != nil {
				yield(Event{}, err)
				return
			}
		}
	}
}

// eventStream is a stream of events over several connections.
type eventStream struct {
	client   *Client
	path     string
	last     string // the id of the last event
	failures int    // since the last event
}

// read passes on the events of one connection. more is false if nobody wants any.
func (s *eventStream) read(ctx context.Context, yield func(Event, error) bool) (more bool, err error) {
	in, err := newCall(http.MethodGet, s.path, nil, nil)
	if err != nil {
		return true, err
	}
	if s.last != "" {
		in.header.Set("Last-Event-ID", s.last)
	}
	err = s.client.events(ctx, in, func(m sse.Event) error {
		if m.ID != "" {
			s.last, s.failures = m.ID, 0
		}
		if m.Name == "event" && !yield(Event{ID: m.ID, Data: m.Data}, nil) {
			return errEnough
		}
		return nil
	})
	return !errors.Is(err, errEnough), err
}

// wait waits before the next connection. It returns the error of a stream that cannot
// go on.
func (s *eventStream) wait(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, reported := errors.AsType[*Error](err); reported {
		return err
	}
	s.failures++
	d, again := retryAfter(nil, err, s.failures)
	if !again {
		return err
	}
	return pause(ctx, d)
}
