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
			l.add(placedEvent{rec, at, i})
		}
		l.trim()
	}
	slices.Reverse(broken)
	for _, p := range l.inOrder() {
		if err := fn(p.Record); err != nil {
			return err
		}
	}
	return damage(broken)
}

// placedEvent is an event with its place among those of all runs.
type placedEvent struct {
	event.Record
	at  time.Time
	run int
}

func (p placedEvent) compare(o placedEvent) int {
	return cmp.Or(p.at.Compare(o.at), cmp.Compare(p.run, o.run), cmp.Compare(p.Sequence, o.Sequence))
}

// lastEvents keeps the last events of those that are added.
type lastEvents struct {
	limit int
	list  []placedEvent
	// oldest is the time before which no event counts any more; zero while there are
	// fewer than the limit.
	oldest time.Time
}

func (l *lastEvents) add(p placedEvent) {
	if p.at.Before(l.oldest) {
		return
	}
	if l.list = append(l.list, p); len(l.list) >= 2*l.limit {
		l.trim()
	}
}

// trim leaves out what cannot be among the last events.
func (l *lastEvents) trim() {
	if len(l.list) < l.limit || !l.oldest.IsZero() && len(l.list) < l.limit+l.limit/4+1 {
		return
	}
	l.list = l.inOrder()
	l.oldest = l.list[0].at
}

// inOrder returns the last events in their order.
func (l *lastEvents) inOrder() []placedEvent {
	slices.SortFunc(l.list, placedEvent.compare)
	return slices.Clone(l.list[max(0, len(l.list)-l.limit):])
}
