package history

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/evidence/eventquery"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// requestFiles are the files of the journal of requests, as the journals of runs.
type requestFiles struct{ *store.Store }

// requestPrefix begins the name of a file in events: its number follows.
const requestPrefix = "requests-"

func requestFile(n int64) string { return requestPrefix + strconv.FormatInt(n, 10) }

func requestNumber(id string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimPrefix(id, requestPrefix), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no file of the journal of requests", id)
	}
	return n, nil
}

// EventsPath implements eventquery.Journals.
func (f requestFiles) EventsPath(id string) (string, error) {
	n, err := requestNumber(id)
	return f.SegmentPath(n), err
}

// OpenEvents implements eventquery.Journals.
func (f requestFiles) OpenEvents(id string) (*os.File, error) {
	n, err := requestNumber(id)
	if err != nil {
		return nil, err
	}
	return f.OpenSegment(n)
}

// Backwards implements eventquery.Source.
func (f requestFiles) Backwards(fn func(eventquery.NumberedRun) bool) error {
	files, err := f.Segments()
	if err != nil {
		return err
	}
	for i, n := range slices.Backward(files) {
		if !fn(eventquery.NumberedRun{ID: requestFile(n), Number: n, Ended: i < len(files)-1}) {
			return nil
		}
	}
	return nil
}

// Find implements eventquery.Source.
func (f requestFiles) Find(ids []string) (map[string]eventquery.NumberedRun, error) {
	found := map[string]eventquery.NumberedRun{}
	err := f.Backwards(func(n eventquery.NumberedRun) bool {
		if slices.Contains(ids, n.ID) {
			found[n.ID] = n
		}
		return true
	})
	return found, err
}

// requestEvents calls fn for the records of requests that match a query, newest last.
func (h *History) requestEvents(q api.EventQuery, fn func(event.Record) error) error {
	if h.Store == nil || q.Run != "" {
		return nil
	}
	f := event.Filter{Class: event.APIActivity, Action: event.Action(q.Action), Since: q.Since, Cell: q.Cell, Sees: q.Sees}
	files, err := h.Store.Segments()
	if err != nil {
		return err
	}
	var last []event.Record
	for i, n := range files {
		file := eventquery.Run{ID: requestFile(n), Ended: i < len(files)-1}
		for rec, err := range h.kept.events.Journal(requestFiles{h.Store}, file, f) {
			if err != nil {
				return api.Failf(api.CodeEvents, err, "read the journal of requests")
			}
			if q.Limit > 0 {
				last = append(last, rec)
				last = last[max(0, len(last)-q.Limit):]
			} else if err := fn(rec); err != nil {
				return err
			}
		}
	}
	for _, rec := range last {
		if err := fn(rec); err != nil {
			return err
		}
	}
	return nil
}
