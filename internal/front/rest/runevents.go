package rest

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/text/document"
)

// runEvents passes the events of one run on to a stream while the run goes on.
type runEvents struct {
	engine eventReader
	out    *eventStream
	run    string
	cancel context.CancelFunc
	done   chan struct{} // closed when last is not written any more
	last   uint64        // the last event that was passed on
}

// followRun begins to pass on the events of a run.
func followRun(ctx context.Context, engine eventReader, out *eventStream, run string) *runEvents {
	ctx, cancel := context.WithCancel(ctx)
	f := &runEvents{engine: engine, out: out, run: run, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		// finish passes on what is missing after an error, and reports it.
		_ = engine.StreamEvents(ctx, api.EventQuery{Run: run, Whole: true}, "", func(_ string, rec *event.Record) error {
			if rec == nil {
				return nil
			}
			return f.pass(*rec)
		}, func(err error) error { return err })
	}()
	return f
}

// finish passes on the rest of the events of a run that has ended.
func (f *runEvents) finish(ctx context.Context) error {
	f.cancel()
	<-f.done
	return f.engine.Events(ctx, api.EventQuery{Run: f.run}, f.pass)
}

// pass passes an event on, unless it was before.
func (f *runEvents) pass(rec event.Record) error {
	if rec.Sequence <= f.last {
		return nil
	}
	if err := f.out.write(append(append([]byte("event: event\ndata: "), document.EscapeInvisible(rec.Raw)...), "\n\n"...)); err != nil {
		return err
	}
	f.last = rec.Sequence
	return nil
}
