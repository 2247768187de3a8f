package eventquery

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/evidence/event"
)

// table is the list of runs in a database.
type table []NumberedRun

func (s *table) Backwards(fn func(NumberedRun) bool) error {
	for _, r := range slices.Backward(*s) {
		if !fn(r) {
			return nil
		}
	}
	return nil
}

func (s *table) Find(ids []string) (map[string]NumberedRun, error) {
	found := map[string]NumberedRun{}
	for _, r := range *s {
		if slices.Contains(ids, r.ID) {
			found[r.ID] = r
		}
	}
	return found, nil
}

// streamed is what a stream passed on.
type streamed struct {
	events  []string
	damaged []string
	last    string // position
}

var errDone = errors.New("done")

// collect follows a stream until it has n events and damaged journals together.
func (h home) collect(runs *table, from string, f event.Filter, n int) (got streamed, err error) {
	s := &Stream{Journals: h, Source: runs, Name: "test", Filter: f, Rest: time.Hour}
	done := func() error {
		if len(got.events)+len(got.damaged) >= n {
			return errDone
		}
		return nil
	}
	err = s.Follow(h.t.Context(), from, func(position string, rec *event.Record) error {
		got.last = position
		if rec != nil {
			got.events = append(got.events, fmt.Sprintf("%s %d", rec.Run, rec.Sequence))
		}
		return done()
	}, func(err error) error {
		got.damaged = append(got.damaged, err.Error())
		return done()
	})
	if errors.Is(err, errDone) {
		err = nil
	}
	return got, err
}

func (h home) want(runs *table, from string, f event.Filter, want ...string) (last string) {
	h.t.Helper()
	got, err := h.collect(runs, from, f, len(want))
	if diff := cmp.Diff(want, got.events); err != nil || diff != "" {
		h.t.Errorf("%v %s", err, diff)
	}
	return got.last
}

func TestStream(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write("run_old", 0, 1)
	runs := &table{{ID: "run_old", Number: 1, Ended: true}}
	now := h.want(runs, "", event.Filter{}) // its position is after everything so far
	h.write("run_a", 2, 3, 4)
	h.write("run_hidden", 2, 3)
	h.write("run_b", 5, 6)
	*runs = append(*runs, NumberedRun{ID: "run_a", Number: 2}, NumberedRun{ID: "run_hidden", Number: 4, Excluded: true}, NumberedRun{ID: "run_b", Number: 5, Ended: true})
	all := []string{"run_a 1", "run_a 2", "run_a 3", "run_b 1", "run_b 2"}
	for n := range len(all) + 1 {
		// A reader that stops after n events continues with the rest.
		middle := now
		if n > 0 {
			middle = h.want(runs, now, event.Filter{}, all[:n]...)
		}
		if n < len(all) {
			h.want(runs, middle, event.Filter{}, all[n:]...)
		}
	}
	h.want(runs, now, event.Filter{Class: event.AppLifecycle, Since: h.at(4)}, "run_a 3", "run_b 1", "run_b 2")
	if _, err := h.collect(runs, "nosuch", event.Filter{}, 0); !errors.Is(err, ErrPosition) {
		t.Error(err)
	}
}

// TestStreamOfLostRuns: a run that was dropped is forgotten, and one that got its
// number after a power failure is passed on whole.
func TestStreamOfLostRuns(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write("run_a", 0, 1)
	runs := &table{{ID: "run_a", Number: 1}}
	start := h.want(&table{}, "", event.Filter{})
	middle := h.want(runs, start, event.Filter{}, "run_a 1")
	h.write("run_b", 2, 3)
	h.want(&table{{ID: "run_b", Number: 1, Ended: true}}, middle, event.Filter{}, "run_b 1", "run_b 2")
	h.want(&table{{ID: "run_b", Number: 2, Ended: true}}, middle, event.Filter{}, "run_b 1", "run_b 2")
}

// TestStreamDamaged: a damaged journal is named, and the others are read.
func TestStreamDamaged(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	start := h.want(&table{}, "", event.Filter{})
	h.write("run_a", 0, 1)
	h.write("run_b", 2, 3)
	path, _ := h.EventsPath("run_a")
	if err := os.WriteFile(path, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	runs := &table{{ID: "run_a", Number: 1, Ended: true}, {ID: "run_b", Number: 2, Ended: true}}
	got, err := h.collect(runs, start, event.Filter{}, 3)
	if err != nil || len(got.damaged) != 1 || !strings.HasPrefix(got.damaged[0], "run_a: ") || !slices.Equal(got.events, []string{"run_b 1", "run_b 2"}) {
		t.Errorf("%+v %v", got, err)
	}
}

// TestNotices: each reader gets a value after a change, and there is no watch without
// readers.
func TestNotices(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	var n Notices
	one, endOne, err := n.Subscribe(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	two, endTwo, err := n.Subscribe(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	h.write("run_a", 0, 1)
	<-one
	<-two
	endOne()
	endTwo()
	three, endThree, err := n.Subscribe(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer endThree()
	h.write("run_b", 0, 1)
	<-three
}
