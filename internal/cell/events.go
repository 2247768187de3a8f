package cell

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/event"
	"github.com/forkcell/forkcell/internal/store"
)

// Events calls fn for the events that were asked for, newest last: those of one
// run in the order of its journal, runs at the same time merged by the clock. A
// run without a journal has none. A journal that cannot be read does not keep
// the others back; the error names it in the end.
func (e *Engine) Events(_ context.Context, q api.EventQuery, fn func(event.Record) error) error {
	runs, err := e.eventRuns(q)
	if err != nil {
		return err
	}
	m := &merger{e: e, waiting: runs, filter: event.Filter{Class: event.Class(q.Class), Action: event.Action(q.Action), Since: q.Since, Limit: q.Limit}}
	defer m.stop()
	if q.Limit <= 0 {
		for rec := range m.records() {
			if err := fn(rec); err != nil {
				return err
			}
		}
		return m.damage()
	}
	var last []event.Record
	for rec := range m.records() {
		if last = append(last, rec); len(last) > 2*q.Limit {
			last = slices.Delete(last, 0, len(last)-q.Limit)
		}
	}
	for _, rec := range last[max(0, len(last)-q.Limit):] {
		if err := fn(rec); err != nil {
			return err
		}
	}
	return m.damage()
}

// eventRuns are the runs that a query is about, by the time of their start.
func (e *Engine) eventRuns(q api.EventQuery) ([]store.Run, error) {
	if e.store == nil && q.Cell == "" && q.Run == "" {
		return nil, nil
	}
	cellID := ""
	if q.Cell != "" {
		c, err := e.findCell(q.Cell)
		if err != nil {
			return nil, err
		}
		cellID = c.ID
	}
	var runs []store.Run
	err := e.view(func(tx *store.Tx) (err error) {
		if q.Run == "" {
			runs, err = tx.Runs(cellID)
			return err
		}
		r, err := runByPrefix(tx, q.Run)
		if err == nil && cellID != "" && r.CellID != cellID {
			err = api.Missing("run of "+q.Cell, q.Run, "`forkcell log "+q.Cell+"` shows them")
		}
		runs = []store.Run{r}
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, api.Missing("run", q.Run, "there is no state directory yet")
	}
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(runs, func(a, b store.Run) int { return a.StartedAt.Compare(b.StartedAt) })
	return slices.DeleteFunc(runs, func(r store.Run) bool { return endedBefore(r, q.Since) }), nil
}

// endedBefore says that a run cannot have an event as new as t. The last events
// are written shortly after the end that is recorded.
func endedBefore(r store.Run, t time.Time) bool {
	const after = time.Minute
	return !t.IsZero() && r.State == "done" && r.FinishedAt.Add(after).Before(t)
}

func runByPrefix(tx *store.Tx, ref string) (store.Run, error) {
	id, err := tx.Complete("runs", ref)
	if err != nil {
		return store.Run{}, idError("run", ref, err, "`forkcell log CELL` shows them")
	}
	return tx.Run(id)
}

// merger reads the journals of many runs in the order of time, with no more of
// them open than ran at the same time.
type merger struct {
	e       *Engine
	filter  event.Filter
	waiting []store.Run // by their start
	open    []*cursor
	broken  []string
}

// cursor is a place in the journal of one run.
type cursor struct {
	head event.Record
	next func() (event.Record, error, bool)
	stop func()
}

func (m *merger) records() iter.Seq[event.Record] {
	return func(yield func(event.Record) bool) {
		for {
			m.admit()
			if len(m.open) == 0 {
				return
			}
			first := slices.MinFunc(m.open, func(a, b *cursor) int { return a.head.Time.Compare(b.head.Time) })
			if !yield(first.head) {
				return
			}
			if !m.advance(first) {
				m.open = slices.DeleteFunc(m.open, func(c *cursor) bool { return c == first })
			}
		}
	}
}

// admit opens the journals of the runs that may have the next event.
func (m *merger) admit() {
	for len(m.waiting) > 0 {
		r := m.waiting[0]
		began := r.StartedAt.Truncate(time.Millisecond) // as exact as events are
		if slices.ContainsFunc(m.open, func(c *cursor) bool { return c.head.Time.Before(began) }) {
			return
		}
		m.waiting = m.waiting[1:]
		c := &cursor{}
		c.next, c.stop = iter.Pull2(m.e.journalOf(r.ID, m.filter))
		if m.advance(c) {
			m.open = append(m.open, c)
		}
	}
}

// advance takes the next record; false at the end.
func (m *merger) advance(c *cursor) bool {
	rec, err, ok := c.next()
	if ok && err == nil {
		c.head = rec
		return true
	}
	if err != nil {
		m.broken = append(m.broken, err.Error())
	}
	c.stop()
	return false
}

func (m *merger) stop() {
	for _, c := range m.open {
		c.stop()
	}
}

func (m *merger) damage() error {
	if len(m.broken) == 0 {
		return nil
	}
	return &api.Error{
		Kind: api.Failed, Code: api.CodeEvents, Message: fmt.Sprintf("%d journals of events cannot be read to their end", len(m.broken)),
		Hint: "`forkcell receipt verify --all` compares them with what was signed", Details: m.broken,
	}
}

// errEnough ends the reading of a journal of which no more is wanted.
var errEnough = errors.New("enough")

// journalOf reads the journal of a run; one that does not exist is empty.
func (e *Engine) journalOf(run string, f event.Filter) iter.Seq2[event.Record, error] {
	return func(yield func(event.Record, error) bool) {
		file, err := e.store.OpenEvents(run)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err == nil {
			err = event.Read(file, f, func(rec event.Record) error {
				if !yield(rec, nil) {
					return errEnough
				}
				return nil
			})
			_ = file.Close()
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(event.Record{}, fmt.Errorf("%s: %w", run, err))
		}
	}
}
