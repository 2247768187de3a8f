package history

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/evidence/eventquery"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// streamRest is the time between two looks of a stream without a change.
const streamRest = 15 * time.Second

// StreamEvents calls fn with each event that matches a query and the position after
// it, as it happens, also of runs that begin later. It starts after the position from,
// or with "" now, or with the first event of the run if the query says so, and ends with ctx, whose error it returns, with an error of fn, or
// with the run of the query. A call without an event has only a position.
//
// Positions stay valid when this process ends. A journal that cannot be read does not
// stop the others: damaged is called with the error.
func (h *History) StreamEvents(ctx context.Context, q api.EventQuery, from string, fn func(position string, rec *event.Record) error, damaged func(error) error) error {
	if h.Store == nil {
		return api.Missing("cell", "there is no state directory yet", "`forkcell init NAME --from DIR` makes it")
	}
	s, err := h.newStream(q)
	if err != nil {
		return err
	}
	changed, end, err := h.kept.journals.Subscribe(h.Store.Path())
	if err != nil {
		return api.Failf(api.CodeEvents, err, "watch the journals")
	}
	defer end()
	s.Changed = changed
	err = s.Follow(ctx, from, fn, damaged)
	if errors.Is(err, eventquery.ErrPosition) {
		err = api.Usagef("leave it out to begin now, or send an id of the same query", "the id of the last event is unknown")
	}
	return err
}

// newStream returns the stream of a query.
func (h *History) newStream(q api.EventQuery) (*eventquery.Stream, error) {
	source, identity, err := h.streamSource(q)
	if err != nil {
		return nil, err
	}
	s := &eventquery.Stream{
		Journals: h.Store, Source: source, Rest: streamRest, Ends: q.Run != "", Whole: q.Run != "" && q.Whole,
		Name:   strings.Join([]string{identity, source.cellID, source.run, q.Viewer, strconv.Itoa(q.Class), q.Action}, "\x00"),
		Filter: event.Filter{Class: event.Class(q.Class), Action: event.Action(q.Action), Since: q.Since},
	}
	if s.Filter.Class == event.APIActivity {
		s.Journals, s.Source = requestFiles{h.Store}, requestFiles{h.Store}
		s.Filter.Cell, s.Filter.Sees = q.Cell, q.Sees
	}
	return s, nil
}

// streamSource checks a query, and returns its runs and the identity of the database.
func (h *History) streamSource(q api.EventQuery) (s streamRuns, identity string, err error) {
	s = streamRuns{store: h.Store, sees: q.Sees}
	if q.Cell != "" {
		c, err := h.FindRecorded(q.Cell)
		if err != nil {
			return s, "", err
		}
		s.cellID = c.ID
	}
	if q.Run != "" {
		runs, err := h.eventRuns(q)
		if err != nil {
			return s, "", err
		}
		s.run = runs[0].ID
	}
	err = h.Store.View(func(tx *store.Tx) (err error) {
		identity, err = tx.Identity()
		return err
	})
	return s, identity, err
}

// streamRuns are the runs of a stream: of a cell, of the cells that the caller sees,
// or one run.
type streamRuns struct {
	store  *store.Store
	cellID string
	sees   func(cell string) bool
	run    string
}

// Backwards implements eventquery.Source.
func (s streamRuns) Backwards(fn func(eventquery.NumberedRun) bool) error {
	return s.store.View(func(tx *store.Tx) error {
		visible := visibleCells{tx: tx, sees: s.sees}
		var failed error
		err := tx.RunsBackwards(func(r store.RunRef) bool {
			n := numberedRun(r)
			n.Excluded = s.cellID != "" && s.cellID != r.CellID || s.run != "" && s.run != r.ID
			if !n.Excluded {
				var sees bool
				sees, failed = visible.has(r.CellID)
				n.Excluded = !sees
			}
			return failed == nil && fn(n)
		})
		return errors.Join(failed, err)
	})
}

// Find implements eventquery.Source.
func (s streamRuns) Find(ids []string) (map[string]eventquery.NumberedRun, error) {
	found := map[string]eventquery.NumberedRun{}
	if len(ids) == 0 {
		return found, nil
	}
	err := s.store.View(func(tx *store.Tx) error {
		for _, id := range ids {
			r, err := tx.RunRef(id)
			if err == nil {
				found[id] = numberedRun(r)
			} else if !errors.Is(err, store.ErrNotFound) {
				return err
			}
		}
		return nil
	})
	return found, err
}

func numberedRun(r store.RunRef) eventquery.NumberedRun {
	return eventquery.NumberedRun{ID: r.ID, Number: r.Ord, Ended: r.Ended}
}
