package session

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
)

// longSession has a run with an event each second.
type longSession struct {
	Reader
	began  time.Time
	events int
	read   int
}

func (l *longSession) Status(context.Context, string) (*api.StatusResult, error) {
	return &api.StatusResult{}, nil
}

func (l *longSession) CountChanges(context.Context, api.DiffRequest) (int, error) { return 0, nil }

func (l *longSession) CellRuns(context.Context, string) ([]api.RunInfo, error) {
	return []api.RunInfo{{RunID: "run_1", Session: &api.SessionTerms{}}}, nil
}

func (l *longSession) Events(_ context.Context, q api.EventQuery, fn func(event.Record) error) error {
	for i := range l.events {
		at := l.began.Add(time.Duration(i) * time.Second)
		if i%10 == 3 {
			at = at.Add(-2 * time.Second) // written late, at the time of another one
		}
		if at.Before(q.Since) {
			continue
		}
		raw, err := json.Marshal(map[string]any{"time": at.UnixMilli(), "class_uid": 1007, "message": time.Duration(i).String()})
		if err != nil {
			return err
		}
		l.read++
		if err := fn(event.Record{Raw: raw}); err != nil {
			return err
		}
	}
	return nil
}

func (l *longSession) Log(context.Context, string) ([]api.LogEntry, error) {
	return []api.LogEntry{{Kind: "fork", CreatedAt: l.began.Add(-time.Second)}, {Kind: "checkpoint", CreatedAt: l.began.Add(500*time.Second + 5)}}, nil
}

// A part of a timeline is what the whole has there, and events far from it are not read.
func TestSpan(t *testing.T) {
	t.Parallel()
	const n, page = 2000, 50
	l := &longSession{began: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), events: n}
	whole, err := Timeline(t.Context(), l, "s", time.Now(), Span{})
	if err != nil || len(whole) != n+2 {
		t.Fatalf("%d entries, %v", len(whole), err)
	}
	for at := 0; at < len(whole); at += page {
		l.read = 0
		part, err := Timeline(t.Context(), l, "s", time.Now(), Span{From: whole[at].At, Limit: page})
		if err != nil {
			t.Fatal(err)
		}
		first := at
		for first > 0 && whole[first-1].At.Equal(whole[at].At) {
			first--
		}
		want := whole[first:min(at+page, len(whole))]
		if len(part) < len(want) || !cmp.Equal(part[:len(want)], want) {
			t.Fatalf("from entry %d: %s", at, cmp.Diff(want, part))
		}
		if most := page + int(disorder/time.Second) + 5; l.read > most {
			t.Errorf("from entry %d: %d events were read, for %d", at, l.read, page)
		}
	}
}
