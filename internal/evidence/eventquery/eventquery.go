// Package eventquery reads and follows the journals of runs: the events of many runs
// in the order of time, and new ones as they are written.
//
// It is handed the runs and their journals. It knows no cells, no database and no
// policies, and it writes nothing.
package eventquery

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
)

// Journals opens the journals of a home.
type Journals interface {
	// Path returns the directory of the home.
	Path() string
	// EventsPath returns where the journal of a run is.
	EventsPath(run string) (string, error)
	// OpenEvents opens the journal of a run for reading. The error is
	// fs.ErrNotExist if the run has none.
	OpenEvents(run string) (*os.File, error)
}

// Run is a run whose events may be read.
type Run struct {
	ID        string
	Started   time.Time
	Ended     bool
	EndedTime time.Time
	// Kinds are those of its events, for a run that has ended; empty if they are not
	// known.
	Kinds []event.Kind
}

// may reports whether a run may have an event that a filter selects.
func (r Run) may(f event.Filter) bool {
	return !r.Ended || len(r.Kinds) == 0 || slices.ContainsFunc(r.Kinds, f.MatchKind)
}

// endedBefore reports whether a run cannot have an event as new as t. The last
// events are written shortly after the recorded end.
func (r Run) endedBefore(t time.Time) bool {
	const after = time.Minute
	return !t.IsZero() && r.Ended && r.EndedTime.Add(after).Before(t)
}

// Read calls fn for the events of runs, newest last: those of one run in the order
// of its journal, those of concurrent runs merged by time. A run without a journal
// has no events. A journal that cannot be read does not stop the others: the error
// names it when all are read. Only journals are read that may have an event to show:
// not those of runs whose kinds the filter leaves out, and with a limit not those that
// cannot have one of the last events.
func (x *Index) Read(journals Journals, runs []Run, f event.Filter, fn func(event.Record) error) error {
	runs = slices.DeleteFunc(slices.Clone(runs), func(r Run) bool { return r.endedBefore(f.Since) })
	slices.SortStableFunc(runs, func(a, b Run) int { return a.Started.Compare(b.Started) })
	if f.Limit > 0 {
		return x.readLast(journals, runs, f, fn)
	}
	m := &merger{index: x, journals: journals, waiting: runs, filter: f}
	defer m.stop()
	for rec := range m.records() {
		if err := fn(rec); err != nil {
			return err
		}
	}
	return damage(m.broken)
}

// merger reads the journals of many runs in the order of time, with no more of
// them open than ran at the same time.
type merger struct {
	index    *Index
	journals Journals
	filter   event.Filter
	waiting  []Run // by their start
	open     []*cursor
	broken   []string
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
		began := r.Started.Truncate(time.Millisecond) // as exact as events are
		if slices.ContainsFunc(m.open, func(c *cursor) bool { return c.head.Time.Before(began) }) {
			return
		}
		m.waiting = m.waiting[1:]
		c := &cursor{}
		c.next, c.stop = iter.Pull2(m.index.Journal(m.journals, r, m.filter))
		if m.advance(c) {
			m.open = append(m.open, c)
		}
	}
}

// advance reads the next record, and reports whether there is one.
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

// damage returns an error that names the journals which could not be read.
func damage(broken []string) error {
	if len(broken) == 0 {
		return nil
	}
	return &api.Error{
		Kind: api.Failed, Code: api.CodeEvents, Message: fmt.Sprintf("%d journals of events cannot be read to their end", len(broken)),
		Hint: "`forkcell receipt verify --all` compares them with what was signed", Details: broken,
	}
}

// errEnough ends the reading of a journal whose reader has stopped.
var errEnough = errors.New("enough")
