package remote

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/forkcell/forkcell/client"
	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/api/sse"
	"github.com/forkcell/forkcell/internal/evidence/event"
)

func eventFilter(q api.EventQuery) client.EventFilter {
	f := client.EventFilter{Cell: q.Cell, Run: q.Run, Action: q.Action}
	if q.Class != 0 {
		f.Class = strconv.Itoa(q.Class)
	}
	if !q.Since.IsZero() {
		f.Since = q.Since.UTC().Format(time.RFC3339)
	}
	return f
}

// Events calls fn for each event that matches.
func (e *Engine) Events(ctx context.Context, q api.EventQuery, fn func(event.Record) error) error {
	var last []event.Record // if only the newest are wanted
	for ev, err := range e.client.Events.List(ctx, eventFilter(q)) {
		if err != nil {
			return failure(err)
		}
		rec, err := event.ParseRecord(ev.Data)
		if err != nil {
			return malformed(err)
		}
		if rec.Time.Before(q.Since) {
			continue // the request has whole seconds
		}
		if q.Limit == 0 {
			if err := fn(rec); err != nil {
				return err
			}
			continue
		}
		if last = append(last, rec); len(last) > q.Limit {
			last = last[1:]
		}
	}
	for _, rec := range last {
		if err := fn(rec); err != nil {
			return err
		}
	}
	return nil
}

// FollowEvents calls fn for the last few events, and then for each one as it happens.
func (e *Engine) FollowEvents(ctx context.Context, cell string, last int, fn func(event.Record) error) error {
	from, err := e.position(ctx, cell)
	if err != nil {
		return err
	}
	shown := map[string]bool{} // what happens meanwhile comes twice
	err = e.Events(ctx, api.EventQuery{Cell: cell, Limit: last}, func(rec event.Record) error {
		shown[string(rec.Raw)] = true
		return fn(rec)
	})
	if err != nil {
		return err
	}
	for ev, err := range e.client.Events.Follow(ctx, client.EventFilter{Cell: cell}, from) {
		if err != nil {
			return failure(err)
		}
		rec, err := event.ParseRecord(ev.Data)
		if err != nil {
			return malformed(err)
		}
		if shown[string(rec.Raw)] {
			continue
		}
		if err := fn(rec); err != nil {
			return err
		}
	}
	return nil
}

// position returns the present position in the stream of events.
func (e *Engine) position(ctx context.Context, cell string) (string, error) {
	resp, err := e.send(ctx, http.MethodGet, query(op.ListEvents.Path, map[string]string{"cell": cell, "follow": "true"}), "text/event-stream", nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	for stream := sse.NewReader(resp.Body); ; {
		m, err := stream.Next()
		if err != nil {
			return "", failure(err)
		}
		if m.ID != "" {
			return m.ID, nil
		}
	}
}
