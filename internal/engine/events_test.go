package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/front/local"
)

// events asks for events and returns them as run, sequence number and class.
func (w *world) events(q api.EventQuery) (list []string) {
	w.Helper()
	w.ok(w.e.Events(w.ctx, q, func(r event.Record) error {
		list = append(list, describe(r))
		return nil
	}))
	return list
}

func describe(r event.Record) string { return fmt.Sprintf("%s %d %s", r.Run, r.Sequence, r.Class) }

// whole returns the events of a run without incidents.
func whole(run string) []string {
	return []string{
		run + " 1 application_lifecycle", run + " 2 process_activity", run + " 3 process_activity", run + " 4 application_lifecycle",
	}
}

func startsWith(prefix string) func(string) bool {
	return func(name string) bool { return strings.HasPrefix(name, prefix) }
}

func TestEventsQuery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "overlay")
	if got := w.events(api.EventQuery{}); len(got) != 0 {
		t.Fatalf("events before any run: %v", got)
	}
	one, _ := w.sh("demo", "true")
	w.init("other", "clone") // takes longer than the clock of events is coarse
	between := time.Now()
	two, _ := w.sh("other", "true")
	denied, _ := w.sh("demo", "unshare -U true; true")
	// The launch and the denied call right after it can come in any order.
	incident := w.events(api.EventQuery{Run: denied.RunID})
	at := slices.IndexFunc(incident, func(s string) bool { return strings.HasSuffix(s, " detection_finding") })
	if len(incident) != 5 || at < 1 || at > 3 {
		t.Fatalf("the run with a denied call: %q", incident)
	}
	finding := incident[at : at+1]
	for _, c := range []struct {
		name string
		q    api.EventQuery
		want []string
	}{
		{"everything", api.EventQuery{}, slices.Concat(whole(one.RunID), whole(two.RunID), incident)},
		{"a cell", api.EventQuery{Cell: "demo"}, slices.Concat(whole(one.RunID), incident)},
		{"a run", api.EventQuery{Run: two.RunID}, whole(two.RunID)},
		{"a prefix", api.EventQuery{Run: two.RunID[:len(two.RunID)-1]}, whole(two.RunID)},
		{"a run of its cell", api.EventQuery{Cell: "other", Run: two.RunID}, whole(two.RunID)},
		{"denied", api.EventQuery{Action: string(event.ActionDenied)}, finding},
		{"a class", api.EventQuery{Class: int(event.DetectionFinding)}, finding},
		{"since", api.EventQuery{Since: between.Add(-time.Millisecond)}, slices.Concat(whole(two.RunID), incident)},
		{"since later", api.EventQuery{Since: time.Now().Add(time.Hour)}, nil},
		{"the last three", api.EventQuery{Limit: 3}, incident[2:]},
		{"the last seven", api.EventQuery{Limit: 7}, slices.Concat(whole(two.RunID)[2:], incident)},
		{"more than there are", api.EventQuery{Limit: 100, Cell: "other"}, whole(two.RunID)},
		{"a prefix of names", api.EventQuery{Sees: startsWith("oth")}, whole(two.RunID)},
		{"a run under a prefix", api.EventQuery{Sees: startsWith("oth"), Run: two.RunID}, whole(two.RunID)},
		{"the last of a class", api.EventQuery{Limit: 1, Class: int(event.ProcessActivity)}, incident[3:4]},
	} {
		if diff := cmp.Diff(c.want, w.events(c.q)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	none := func(event.Record) error { return nil }
	w.refused(w.e.Events(w.ctx, api.EventQuery{Cell: "nosuch"}, none), api.NotFound, "nosuch")
	w.refused(w.e.Events(w.ctx, api.EventQuery{Run: "run_nosuch"}, none), api.NotFound, "run_nosuch")
	w.refused(w.e.Events(w.ctx, api.EventQuery{Cell: "other", Run: one.RunID}, none), api.NotFound, one.RunID)
	w.refused(w.e.Events(w.ctx, api.EventQuery{Sees: startsWith("oth"), Run: one.RunID}, none), api.NotFound, one.RunID)
	if err := w.e.Events(w.ctx, api.EventQuery{}, func(event.Record) error { return errors.ErrUnsupported }); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("an error of the caller's: %v", err)
	}
	if denied.Events["denied"] != 1 || denied.Events["allowed"] != 4 {
		t.Errorf("counts: %v", denied.Events)
	}
	w.sound("demo", "other")
}

// TestEventKinds: a query of a program that has just been started opens no journal of a
// run that has no event of the asked kind. So it does not notice that one is damaged.
func TestEventKinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "overlay")
	quiet, _ := w.sh("demo", "true")
	denied, _ := w.sh("demo", "unshare -U true; true")
	found, err := filepath.Glob(filepath.Join(w.e.Store.Path(), journal(quiet.RunID)))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	w.ok(os.WriteFile(found[0], []byte("{}\n"), 0o600))
	for _, q := range []api.EventQuery{{Action: string(event.ActionDenied)}, {Class: int(event.DetectionFinding), Limit: 100}} {
		if got := w.events(q); len(got) != 1 || !strings.HasPrefix(got[0], denied.RunID) {
			t.Errorf("%+v: %v", q, got)
		}
	}
	w.refused(w.e.Events(w.ctx, api.EventQuery{}, func(event.Record) error { return nil }), api.Failed, "cannot be read to their end")
}

// TestEventsAreMerged: runs at the same time come in the order of the clock.
func TestEventsAreMerged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("long", "overlay")
	w.init("short", "overlay")
	in, feed := pipe()
	begun := &trigger{on: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		_, err := w.e.Run(w.ctx, api.RunRequest{Cell: "long", Args: []string{"sh", "-c", "echo on; cat"}}, engine.Stdio{In: in, Out: begun, Err: begun})
		ended <- err
	}()
	w.started(begun.on, ended)
	inner, _ := w.sh("short", "true")
	w.ok(feed.Close())
	w.ok(<-ended)
	var times []time.Time
	var runs []string
	w.ok(w.e.Events(w.ctx, api.EventQuery{}, func(r event.Record) error {
		times = append(times, r.Time)
		runs = append(runs, r.Run)
		return nil
	}))
	if !slices.IsSortedFunc(times, time.Time.Compare) {
		t.Errorf("not in the order of time: %v", times)
	}
	first := slices.Index(runs, inner.RunID)
	if len(runs) != 8 || first < 1 || runs[0] == inner.RunID || runs[7] == inner.RunID {
		t.Errorf("the shorter run is not within the longer: %v", runs)
	}
	w.sound("long", "short")
}

// TestDamagedJournal: the readable events of other runs are still shown.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	p := newPast(t, "overlay")
	undo := p.file(journal(p.accepted.RunID), linesOf(func(l [][]byte) [][]byte {
		l[1] = []byte("{}\n")
		return l
	}))()
	var got []string
	err := p.e.Events(p.ctx, api.EventQuery{}, func(r event.Record) error {
		got = append(got, describe(r))
		return nil
	})
	want := slices.Concat(whole(p.accepted.RunID)[:1], whole(p.restored.RunID), whole(p.pending.RunID))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	p.refused(err, api.Failed, "1 journals")
	var e *api.Error
	if !errors.As(err, &e) || len(e.Details) != 1 || !strings.Contains(e.Details[0], p.accepted.RunID) {
		t.Errorf("the journal is not named: %+v", e)
	}
	undo()
	p.file(journal(p.accepted.RunID), nil)()
	if got := p.events(api.EventQuery{Run: p.accepted.RunID}); got != nil {
		t.Errorf("a run without a journal has %v", got)
	}
}

// followed are the events that a follower has received.
type followed struct {
	records chan string
	ended   chan error
	cancel  context.CancelFunc
}

// follow follows events as another process would.
func (w *world) follow(name string, last int) *followed {
	w.Helper()
	e, release, err := local.Open(w.home, local.Read, tester())
	w.ok(err)
	ctx, cancel := context.WithCancel(w.ctx)
	f := &followed{records: make(chan string, 1000), ended: make(chan error, 1), cancel: cancel}
	go func() {
		f.ended <- e.FollowEvents(ctx, name, last, func(r event.Record) error {
			f.records <- describe(r)
			return nil
		})
		_ = release()
	}()
	return f
}

func (w *world) wantEvents(f *followed, want ...string) {
	w.Helper()
	for _, line := range want {
		select {
		case got := <-f.records:
			if got != line {
				w.Fatalf("told %q, want %q", got, line)
			}
		case err := <-f.ended:
			w.Fatalf("it ended with %v before %q", err, line)
		}
	}
}

func (w *world) over(f *followed) {
	w.Helper()
	f.cancel()
	if err := <-f.ended; !errors.Is(err, context.Canceled) {
		w.Errorf("it ended with %v", err)
	}
	if len(f.records) > 0 {
		w.Errorf("it was also told %q", <-f.records)
	}
}

func TestFollowEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "overlay")
	w.init("other", "overlay")
	// The first run of all: not even the directory of events is there.
	all := w.follow("", 10)
	one, _ := w.sh("demo", "true")
	w.wantEvents(all, whole(one.RunID)...)
	mine := w.follow("demo", 2)
	w.wantEvents(mine, whole(one.RunID)[2:]...)
	two, _ := w.sh("other", "true")
	w.wantEvents(all, whole(two.RunID)...)
	three, _ := w.sh("demo", "true")
	w.wantEvents(all, whole(three.RunID)...)
	w.wantEvents(mine, whole(three.RunID)...)
	w.over(all)
	w.over(mine)
	last := w.follow("", 5)
	w.wantEvents(last, slices.Concat(whole(two.RunID)[3:], whole(three.RunID))...)
	w.over(last)
	// The past events arrive only after the watch exists.
	later := w.follow("other", 1)
	w.wantEvents(later, whole(two.RunID)[3:]...)
	four, _ := w.sh("other", "true")
	w.wantEvents(later, whole(four.RunID)...)
	w.over(later)
	w.refused(w.e.FollowEvents(w.ctx, "nosuch", 1, nil), api.NotFound, "nosuch")
}

// TestFollowRunning: a running run is followed from its present end.
func TestFollowRunning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "overlay")
	in, feed := pipe()
	begun := &trigger{on: make(chan struct{})}
	ended := make(chan error, 1)
	var id string
	go func() {
		res, err := w.e.Run(w.ctx, api.RunRequest{Cell: "demo", Args: []string{"sh", "-c", "echo on; cat"}}, engine.Stdio{In: in, Out: begun, Err: &bytes.Buffer{}})
		if res != nil {
			id = res.RunID
		}
		ended <- err
	}()
	w.started(begun.on, ended)
	f := w.follow("demo", 1)
	second := <-f.records
	w.ok(feed.Close())
	w.ok(<-ended)
	if second != whole(id)[1] {
		t.Errorf("the last event so far is %q", second)
	}
	w.wantEvents(f, whole(id)[2:]...)
	w.over(f)
}

func TestFollowEndsWithTheCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "overlay")
	w.sh("demo", "true")
	err := w.e.FollowEvents(w.ctx, "", 10, func(event.Record) error { return errors.ErrUnsupported })
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}

// TestStreamUnderPrefix: a stream that is bound to a prefix has no events of other
// cells.
func TestStreamUnderPrefix(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("a-demo", "overlay")
	w.init("b-demo", "overlay")
	var got []string
	var mine *api.RunResult
	done := errors.New("done")
	err := w.e.StreamEvents(w.ctx, api.EventQuery{Sees: startsWith("a-")}, "", func(_ string, rec *event.Record) error {
		if rec == nil { // the stream has begun
			w.sh("b-demo", "true")
			mine, _ = w.sh("a-demo", "true")
			return nil
		}
		if got = append(got, describe(*rec)); len(got) == 4 {
			return done
		}
		return nil
	}, func(err error) error { return err })
	if !errors.Is(err, done) {
		t.Error(err)
	}
	if diff := cmp.Diff(whole(mine.RunID), got); diff != "" {
		t.Error(diff)
	}
	w.refused(w.e.StreamEvents(w.ctx, api.EventQuery{Sees: startsWith("b-"), Run: mine.RunID}, "", nil, nil), api.NotFound, mine.RunID)
}
