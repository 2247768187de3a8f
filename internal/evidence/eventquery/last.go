package eventquery

import (
	"cmp"
	"slices"
	"time"

	"github.com/forkcell/forkcell/internal/evidence/event"
)

// readLast calls fn for the last events of runs, newest last, as Read does. It begins
// with the run that was started last, and leaves out the runs that had ended before the
// oldest event that it has to show: its cost follows what is shown.
func (x *Index) readLast(journals Journals, runs []Run, f event.Filter, fn func(event.Record) error) error {
	l := lastEvents{limit: f.Limit}
	var broken []string
	for i, r := range slices.Backward(runs) {
		if r.endedBefore(l.oldest) {
			continue
		}
		var at time.Time
		for rec, err := range x.Journal(journals, r, f) {
			if err != nil {
				broken = append(broken, err.Error())
				break
			}
			// The order within a journal is that of the journal, whatever the clock did.
			if rec.Time.After(at) {
				at = rec.Time
			}
			l.add(placed{rec, at, i})
		}
		l.cut()
	}
	slices.Reverse(broken)
	for _, p := range l.sorted() {
		if err := fn(p.Record); err != nil {
			return err
		}
	}
	return damage(broken)
}

// placed is an event with its place among those of all runs.
type placed struct {
	event.Record
	at  time.Time
	run int
}

func (p placed) compare(o placed) int {
	return cmp.Or(p.at.Compare(o.at), cmp.Compare(p.run, o.run), cmp.Compare(p.Sequence, o.Sequence))
}

// lastEvents keeps the last events of those that are added.
type lastEvents struct {
	limit int
	list  []placed
	// oldest is the time before which no event counts any more; zero while there are
	// fewer than the limit.
	oldest time.Time
}

func (l *lastEvents) add(p placed) {
	if p.at.Before(l.oldest) {
		return
	}
	if l.list = append(l.list, p); len(l.list) >= 2*l.limit {
		l.cut()
	}
}

// cut leaves out what cannot be among the last events.
func (l *lastEvents) cut() {
	if len(l.list) < l.limit || !l.oldest.IsZero() && len(l.list) < l.limit+l.limit/4+1 {
		return
	}
	l.list = l.sorted()
	l.oldest = l.list[0].at
}

// sorted returns the last events in their order.
func (l *lastEvents) sorted() []placed {
	slices.SortFunc(l.list, placed.compare)
	return slices.Clone(l.list[max(0, len(l.list)-l.limit):])
}
