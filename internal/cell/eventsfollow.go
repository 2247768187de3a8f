package cell

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/event"
	"github.com/forkcell/forkcell/internal/store"
)

// FollowEvents calls fn for the last events of a cell, or of all with "", and
// then for each new one as it happens, also those of runs that begin later. It
// waits for the kernel's notice and never polls. It ends with ctx, whose error
// it returns, or with an error of fn.
func (e *Engine) FollowEvents(ctx context.Context, name string, last int, fn func(event.Record) error) error {
	if e.store == nil {
		return api.Missing("cell", "there is no state directory yet", "`forkcell init NAME --from DIR` makes it")
	}
	f := &follower{e: e, found: make(chan event.Record), failed: make(chan error, 1), known: map[string]bool{}}
	if name != "" {
		c, err := e.findCell(name)
		if err != nil {
			return err
		}
		f.cellID = c.ID
	}
	// The watch comes first, so that no run begins unseen between the two.
	w, err := watchJournals(e.store.Path())
	if err != nil {
		return api.Failf(api.CodeEvents, err, "watch the journals")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		f.workers.Wait()
		w.close()
	}()
	if err := f.present(ctx, last, fn); err != nil {
		return err
	}
	f.workers.Go(func() { f.report(ctx, w.each(ctx, func(run string) error { return f.begun(ctx, run) })) })
	for {
		select {
		case rec := <-f.found:
			if err := fn(rec); err != nil {
				return err
			}
		case err := <-f.failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// follower gathers the events of runs that go on at the same time.
type follower struct {
	e       *Engine
	cellID  string
	found   chan event.Record
	failed  chan error
	workers sync.WaitGroup
	known   map[string]bool // runs that are followed, or over
}

// present shows the last events so far, and begins to follow the runs that have
// not ended.
func (f *follower) present(ctx context.Context, last int, fn func(event.Record) error) error {
	var runs []store.Run
	err := f.e.store.View(func(tx *store.Tx) (err error) {
		runs, err = tx.Runs(f.cellID)
		return err
	})
	if err != nil {
		return err
	}
	// Every run that came to something has an event, so the last events are in
	// the last runs, and in those that have not ended.
	seen := map[string]uint64{}
	var shown []store.Run
	for i, r := range runs {
		// One that has only just begun has no journal yet; the watch will tell.
		if f.known[r.ID] = r.State == "done" || f.e.hasJournal(r.ID); !f.known[r.ID] {
			continue
		}
		if r.State != "done" {
			seen[r.ID] = 0
		}
		if r.State != "done" || i >= len(runs)-last {
			shown = append(shown, r)
		}
	}
	m := &merger{e: f.e, waiting: shown, filter: event.Filter{Limit: max(last, 1)}}
	defer m.stop()
	var tail []event.Record
	for rec := range m.records() {
		if _, on := seen[rec.Run]; on {
			seen[rec.Run] = rec.Sequence
		}
		tail = append(tail, rec)
	}
	for _, rec := range tail[max(0, len(tail)-last):] {
		if err := fn(rec); err != nil {
			return err
		}
	}
	for run, sequence := range seen {
		f.follow(ctx, run, sequence)
	}
	return nil
}

// hasJournal tells whether there is anything to follow. What cannot be opened for
// another reason is, and then says why.
func (e *Engine) hasJournal(run string) bool {
	f, err := e.store.OpenEvents(run)
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	_ = f.Close()
	return true
}

// begun is told of each new journal.
func (f *follower) begun(ctx context.Context, run string) error {
	if f.known[run] {
		return nil
	}
	f.known[run] = true
	if f.cellID != "" {
		var r store.Run
		err := f.e.store.View(func(tx *store.Tx) (err error) {
			r, err = tx.Run(run)
			return err
		})
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if r.CellID != f.cellID {
			return nil
		}
	}
	f.follow(ctx, run, 0)
	return nil
}

// follow sends on what comes after a record, until the run ends.
func (f *follower) follow(ctx context.Context, run string, after uint64) {
	path, err := f.e.store.EventsPath(run)
	if err != nil {
		f.report(ctx, err)
		return
	}
	f.workers.Go(func() {
		f.report(ctx, event.Follow(ctx, path, func(rec event.Record) error {
			if rec.Sequence > after {
				select {
				case f.found <- rec:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			if isLast(rec) {
				return event.ErrStop
			}
			return nil
		}))
	})
}

// report ends the whole with the first error; a run that came to nothing takes
// its journal with it, which is none.
func (f *follower) report(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil || isGone(err) {
		return
	}
	select {
	case f.failed <- api.Failf(api.CodeEvents, err, "follow the events"):
	default:
	}
}

// isLast says that a record is about the end of its run. A full journal may have
// one more, which says what was dropped; that is no event of the run.
func isLast(rec event.Record) bool {
	if rec.Class != event.AppLifecycle {
		return false
	}
	var doc struct {
		Activity event.LifecycleStep `json:"activity_id"`
	}
	return json.Unmarshal(rec.Raw, &doc) == nil && doc.Activity == event.RunStopped
}
