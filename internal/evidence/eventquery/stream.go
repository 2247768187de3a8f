package eventquery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/forkcell/forkcell/internal/evidence/event"
)

// NumberedRun is a run with its number. Later runs have greater numbers.
type NumberedRun struct {
	ID     string
	Number int64
	Ended  bool
	// Excluded runs belong to others: their events are not passed on.
	Excluded bool
}

// Source lists the runs of a stream.
type Source interface {
	// Backwards calls fn for all runs, the newest first, until it returns false.
	Backwards(fn func(NumberedRun) (more bool)) error
	// Find returns the runs that still exist, by their ids.
	Find(ids []string) (map[string]NumberedRun, error)
}

// Stream passes on the events of runs from a position on, each exactly once. A
// position that was passed on with an event continues after it, also in another
// process.
//
// The events of one run come in their order. Those of different runs come in the
// order in which they are found.
type Stream struct {
	// Journals has the journals, Source the runs.
	Journals Journals
	Source   Source
	// Name identifies the stream in positions: a position of another is refused.
	Name string
	// Filter selects the events.
	Filter event.Filter
	// Changed gets a value after a journal has changed.
	Changed <-chan struct{}
	// Rest is the time between two looks without a change. It finds the ends of runs
	// that changed no journal.
	Rest time.Duration
	// Ends lets Follow return when no run is open, for a stream of one run.
	Ends bool
	// Whole lets a stream that starts now begin with the first events of open runs.
	Whole bool

	at   position
	runs map[int64]*openRun // of at.open
}

// openRun is a run whose journal may get more events.
type openRun struct {
	NumberedRun
	offset  int64
	stopped bool // its last event was passed on
}

// pageRuns is the number of runs that are looked at together.
const pageRuns = 1000

// Follow calls fn with each event and the position after it, until ctx ends, whose
// error it returns, or fn fails. It starts after the position from, or with "" now. A
// call without an event has only a position: the first, and later ones that are far
// from the one before.
//
// A journal that cannot be read does not stop the others: damaged is called with the
// error.
func (s *Stream) Follow(ctx context.Context, from string, fn func(position string, rec *event.Record) error, damaged func(error) error) error {
	if err := s.start(from); err != nil {
		return err
	}
	told := s.at.text(s.Name)
	if err := fn(told, nil); err != nil {
		return err
	}
	timer := time.NewTimer(s.Rest)
	defer timer.Stop()
	whole := true
	for {
		err := s.drain(ctx, whole, func(rec event.Record) error {
			told = s.at.text(s.Name)
			return fn(told, &rec)
		}, damaged)
		if err != nil {
			return err
		}
		if s.Ends && len(s.runs) == 0 {
			return nil
		}
		timer.Reset(s.interval())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.Changed:
			whole = false
		case <-timer.C:
			whole = true
			if now := s.at.text(s.Name); now != told {
				told = now
				if err := fn(told, nil); err != nil {
					return err
				}
			}
		}
	}
}

// interval returns the time until the next look without a change. The record of a run's
// end follows its last event.
func (s *Stream) interval() time.Duration {
	const soon = 100 * time.Millisecond
	for _, run := range s.runs {
		if run.stopped {
			return min(s.Rest, soon)
		}
	}
	return s.Rest
}

// start sets the position.
func (s *Stream) start(from string) (err error) {
	s.runs = map[int64]*openRun{}
	if from == "" {
		return s.startNow()
	}
	if s.at, err = parsePosition(s.Name, from); err != nil {
		return err
	}
	return s.resume()
}

// resume finds the runs of a position that was read.
func (s *Stream) resume() error {
	marks, newest := maps.Clone(s.at.open), int64(0)
	err := s.Source.Backwards(func(r NumberedRun) bool {
		newest = max(newest, r.Number)
		if m, listed := marks[r.Number]; listed {
			if m.tag != tagOf(r.ID) {
				s.at.open[r.Number] = mark{tag: tagOf(r.ID)}
			}
			s.runs[r.Number] = &openRun{NumberedRun: r}
			delete(marks, r.Number)
		}
		return len(marks) > 0
	})
	// The others were dropped, or lost in a power failure.
	for number := range marks {
		delete(s.at.open, number)
	}
	s.at.through = min(s.at.through, newest)
	return err
}

// startNow sets the position after all events so far.
func (s *Stream) startNow() error {
	s.at.open = map[int64]mark{}
	err := s.Source.Backwards(func(r NumberedRun) bool {
		s.at.through = max(s.at.through, r.Number)
		if !r.Ended && !r.Excluded {
			s.runs[r.Number] = &openRun{NumberedRun: r}
		}
		return true
	})
	if err != nil {
		return err
	}
	for number, run := range s.runs {
		m := mark{tag: tagOf(run.ID)}
		if s.Whole {
			s.at.open[number] = m
			continue
		}
		err := s.read(run, func(rec event.Record) error { m.sequence = rec.Sequence; return nil })
		if err != nil {
			return err
		}
		s.at.open[number] = m
	}
	return nil
}

// drain passes on the events since the position. With whole it also looks for open
// runs that ended without an event, or were dropped.
func (s *Stream) drain(ctx context.Context, whole bool, fn func(event.Record) error, damaged func(error) error) error {
	if err := s.examine(whole); err != nil {
		return err
	}
	for _, number := range slices.Sorted(maps.Keys(s.runs)) {
		if err := s.pass(ctx, s.runs[number], fn, damaged); err != nil {
			return err
		}
	}
	for {
		page, err := s.newer()
		if err != nil || len(page) == 0 {
			return err
		}
		for _, r := range page {
			s.at.through = r.Number
			if r.Excluded {
				continue
			}
			s.at.open[r.Number], s.runs[r.Number] = mark{tag: tagOf(r.ID)}, &openRun{NumberedRun: r}
			if err := s.pass(ctx, s.runs[r.Number], fn, damaged); err != nil {
				return err
			}
		}
	}
}

// examine finds out which open runs have ended. All events of such a run are in its
// journal.
func (s *Stream) examine(whole bool) error {
	var ids []string
	for _, run := range s.runs {
		if whole || run.stopped {
			ids = append(ids, run.ID)
		}
	}
	found, err := s.Source.Find(ids)
	if err != nil {
		return err
	}
	for _, run := range s.runs {
		if now, exists := found[run.ID]; exists {
			run.Ended = now.Ended
		} else if slices.Contains(ids, run.ID) {
			s.close(run)
		}
	}
	return nil
}

// newer returns the first runs after the position, the oldest first.
func (s *Stream) newer() ([]NumberedRun, error) {
	var page []NumberedRun
	err := s.Source.Backwards(func(r NumberedRun) bool {
		if r.Number <= s.at.through {
			return false
		}
		if page = append(page, r); len(page) == 2*pageRuns {
			page = slices.Delete(page, 0, pageRuns)
		}
		return true
	})
	slices.Reverse(page)
	return page[:min(len(page), pageRuns)], err
}

// pass passes on what is new in the journal of a run.
func (s *Stream) pass(ctx context.Context, run *openRun, fn func(event.Record) error, damaged func(error) error) error {
	ended := run.Ended
	var failed error
	err := s.read(run, func(rec event.Record) error {
		m := s.at.open[run.Number]
		if rec.Sequence <= m.sequence {
			return nil // passed on before
		}
		m.sequence = rec.Sequence
		s.at.open[run.Number] = m
		run.stopped = run.stopped || isLast(rec)
		if failed = ctx.Err(); failed == nil && s.Filter.Match(rec) {
			failed = fn(rec)
		}
		return failed
	})
	if failed != nil {
		return failed
	}
	if err != nil {
		s.close(run)
		return damaged(fmt.Errorf("%s: %w", run.ID, err))
	}
	if ended {
		s.close(run)
	}
	return nil
}

// close ends the reading of a run.
func (s *Stream) close(run *openRun) {
	delete(s.at.open, run.Number)
	delete(s.runs, run.Number)
}

// read calls fn for the records of a journal that were not read before. A run that
// has only just begun has no journal yet.
func (s *Stream) read(run *openRun, fn func(event.Record) error) error {
	path, err := s.Journals.EventsPath(run.ID)
	if err != nil {
		return err
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Size() <= run.offset:
		return nil
	}
	f, err := s.Journals.OpenEvents(run.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	rest := io.NewSectionReader(f, run.offset, info.Size()-run.offset)
	return event.Read(rest, event.Filter{}, func(rec event.Record) error {
		if err := fn(rec); err != nil {
			return err
		}
		run.offset += int64(len(rec.Raw)) + 1
		return nil
	})
}
