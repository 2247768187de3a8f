package web

import (
	"context"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
)

const (
	// eventsEvery is the shortest time between two looks at events.
	eventsEvery = 2 * time.Second
	// eventsShare is how much longer than a look the time until the next one is: a long
	// journal is read whole.
	eventsShare = 20
	// eventsFollowed is of how many cells at work a page follows the events. A paused
	// cell is not at work.
	eventsFollowed = 5
)

// eventWatch knows the newest events of cells at work. The events of others change with
// the cells.
type eventWatch struct {
	newest string
	next   time.Time
}

// newWatch returns nil if the page of a request does not show events.
func (q *request) newWatch() *eventWatch {
	if q.URL.Query().Get("events") == "" {
		return nil
	}
	return &eventWatch{}
}

// look returns a text that changes with the events of cells.
func (w *eventWatch) look(ctx context.Context, e Engine, cells []api.CellInfo) string {
	begin := time.Now()
	if w == nil || begin.Before(w.next) {
		return w.text()
	}
	var b strings.Builder
	room := eventsFollowed
	for _, c := range cells {
		if room == 0 {
			break
		}
		if !(cellLine{CellInfo: c}).isLive() || c.State == api.StateUnfinished || c.State == api.StatePaused {
			continue
		}
		// What cannot be read does not end the updates: the page says so.
		runs, _, err := e.RecentRuns(ctx, c.Cell, 0, 1)
		if err != nil || len(runs) == 0 || runs[0].FinishedAt != nil {
			continue
		}
		room--
		_ = e.Events(ctx, api.EventQuery{Run: runs[0].RunID, Limit: 1}, func(rec event.Record) error {
			b.Write(rec.Raw)
			return nil
		})
	}
	w.newest, w.next = b.String(), time.Now().Add(max(eventsEvery, eventsShare*time.Since(begin)))
	return w.newest
}

func (w *eventWatch) text() string {
	if w == nil {
		return ""
	}
	return w.newest
}
