package eventquery

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"sync"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
)

// Runs selects the runs to follow.
type Runs interface {
	// Runs lists the runs so far, by the time of their start.
	Runs() ([]Run, error)
	// Includes reports whether a run that has just begun is one of them.
	Includes(run string) (bool, error)
}

// Follow calls fn for the last events of runs, and then for each new one as it
// happens, also those of runs that begin later. It waits for the kernel's notice and
// never polls. It ends with ctx, whose error it returns, or with an error of fn.
func Follow(ctx context.Context, journals Journals, runs Runs, last int, fn func(event.Record) error) error {
	f := &follower{journals: journals, runs: runs, found: make(chan event.Record), failed: make(chan error, 1), known: map[string]bool{}}
	// The watch comes first, so that no run begins unseen between the two.
	w, err := watchJournals(journals.Path(), journalMade)
	if err != nil {
		return api.Failf(api.CodeEvents, err, "watch the journals")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		f.workers.Wait()
		w.close()
	}()
	if err := f.start(ctx, last, fn); err != nil {
		return err
	}
	f.workers.Go(func() {
		f.report(ctx, w.each(ctx, func(run string) error { return f.addJournal(ctx, run) }))
	})
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

// follower collects the events of runs that go on at the same time.
type follower struct {
	journals Journals
	runs     Runs
	found    chan event.Record
	failed   chan error
	workers  sync.WaitGroup
	known    map[string]bool // runs that are followed, or have ended
}

// start calls fn for the last events so far, and begins to follow the runs that have
// not ended.
func (f *follower) start(ctx context.Context, last int, fn func(event.Record) error) error {
	runs, err := f.runs.Runs()
	if err != nil {
		return err
	}
	// Every run that was recorded has an event, so the last events are in the last
	// runs, and in those that have not ended.
	seen := map[string]uint64{}
	var shown []Run
	for i, r := range runs {
		// One that has only just begun has no journal yet; the watch finds it.
		if f.known[r.ID] = r.Ended || f.hasJournal(r.ID); !f.known[r.ID] {
			continue
		}
		if !r.Ended {
			seen[r.ID] = 0
		}
		if !r.Ended || i >= len(runs)-last {
			shown = append(shown, r)
		}
	}
	m := &merger{index: &Index{}, journals: f.journals, waiting: shown}
	defer m.stop()
	var tail []event.Record
	for rec := range m.records() {
		if _, on := seen[rec.Run]; on {
			seen[rec.Run] = rec.Sequence
		}
		if tail = append(tail, rec); len(tail) > 2*last {
			tail = slices.Delete(tail, 0, len(tail)-last)
		}
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

// hasJournal reports whether there is a journal to follow. It returns true for a
// journal that cannot be opened: following it returns the error.
func (f *follower) hasJournal(run string) bool {
	file, err := f.journals.OpenEvents(run)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	_ = file.Close()
	return true
}

// addJournal begins to follow a journal that has just been made.
func (f *follower) addJournal(ctx context.Context, run string) error {
	if f.known[run] {
		return nil
	}
	f.known[run] = true
	included, err := f.runs.Includes(run)
	if included && err == nil {
		f.follow(ctx, run, 0)
	}
	return err
}

// follow passes on the records after a place, until the run ends.
func (f *follower) follow(ctx context.Context, run string, after uint64) {
	path, err := f.journals.EventsPath(run)
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

// report ends Follow with the first error. A missing journal is no error: a run
// that is undone removes its journal.
func (f *follower) report(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil || errors.Is(err, fs.ErrNotExist) {
		return
	}
	select {
	case f.failed <- api.Failf(api.CodeEvents, err, "follow the events"):
	default:
	}
}

// isLast reports whether a record is about the end of its run. A full journal may
// have one more, which counts what was dropped; that is no event of the run.
func isLast(rec event.Record) bool {
	if rec.Class != event.AppLifecycle {
		return false
	}
	var doc struct {
		Activity event.LifecycleStep `json:"activity_id"`
	}
	return json.Unmarshal(rec.Raw, &doc) == nil && doc.Activity == event.RunStopped
}
