package eventquery

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
)

// home has journals as a store keeps them.
type home struct {
	t     *testing.T
	dir   string
	start time.Time
}

func newHome(t *testing.T) home {
	t.Helper()
	return home{t, t.TempDir(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

func (h home) Path() string { return h.dir }

func (h home) EventsPath(run string) (string, error) {
	return filepath.Join(h.dir, "events", "aa", run+journalSuffix), nil
}

func (h home) OpenEvents(run string) (*os.File, error) {
	path, _ := h.EventsPath(run)
	return os.Open(path)
}

// write makes the journal of a run with an event at each second after the start of
// the home's time. The last one is the end of the run.
func (h home) write(run string, seconds ...int) Run {
	h.t.Helper()
	path, _ := h.EventsPath(run)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		h.t.Fatal(err)
	}
	defer f.Close()
	var now time.Time
	j, err := event.Create(f, event.Meta{Cell: "demo", CellID: "cell_1", Run: run}, event.Options{Now: func() time.Time { return now }})
	if err != nil {
		h.t.Fatal(err)
	}
	for i, s := range seconds {
		now = h.at(s)
		step := event.RunStarted
		if i == len(seconds)-1 {
			step = event.RunStopped
		}
		if err := j.Append(event.Lifecycle(event.Subject{}, step)); err != nil {
			h.t.Fatal(err)
		}
	}
	if _, err := j.Seal(); err != nil {
		h.t.Fatal(err)
	}
	return Run{ID: run, Started: h.at(seconds[0]), Ended: true, EndedTime: now}
}

func (h home) at(second int) time.Time { return h.start.Add(time.Duration(second) * time.Second) }

func (h home) describe(r event.Record) string {
	return fmt.Sprintf("%s %d", r.Run, int(r.Time.Sub(h.start).Seconds()))
}

func (h home) read(runs []Run, f event.Filter) (list []string, err error) {
	err = new(Index).Read(h, runs, f, func(r event.Record) error {
		list = append(list, h.describe(r))
		return nil
	})
	return list, err
}

func TestRead(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	runs := []Run{h.write("late", 500, 501), h.write("long", 0, 4, 9), h.write("short", 2, 3), {ID: "none", Started: h.at(1)}}
	for name, c := range map[string]struct {
		filter event.Filter
		want   []string
	}{
		"all, in the order of time": {want: []string{"long 0", "short 2", "short 3", "long 4", "long 9", "late 500", "late 501"}},
		"the last ones":             {filter: event.Filter{Limit: 3}, want: []string{"long 9", "late 500", "late 501"}},
		"since":                     {filter: event.Filter{Since: h.at(4)}, want: []string{"long 4", "long 9", "late 500", "late 501"}},
		"of runs that ended later":  {filter: event.Filter{Since: h.at(100)}, want: []string{"late 500", "late 501"}},
		"of a class":                {filter: event.Filter{Class: event.NetworkActivity}},
	} {
		got, err := h.read(runs, c.filter)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	stop := errors.New("stop")
	if err := new(Index).Read(h, runs, event.Filter{}, func(event.Record) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the error of the function: %v", err)
	}
}

// counted counts the journals that are opened.
type counted struct {
	home
	opened *int
}

func (c counted) OpenEvents(run string) (*os.File, error) {
	*c.opened++
	return c.home.OpenEvents(run)
}

// TestReadLast: with a limit the last events are those that reading everything gives,
// also of a run that began long before, and journals that cannot have one are not read.
func TestReadLast(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	var list []Run
	for i := range 40 {
		list = append(list, h.write(fmt.Sprintf("run%02d", i), 300*i, 300*i+1, 300*i+1))
	}
	list = append(list, h.write("long", 5, 300*38+1, 300*40))
	all, err := h.read(list, event.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for limit := 1; limit < 12; limit++ {
		opened := 0
		var got []string
		err := new(Index).Read(counted{h, &opened}, list, event.Filter{Limit: limit}, func(r event.Record) error {
			got = append(got, h.describe(r))
			return nil
		})
		if diff := cmp.Diff(all[len(all)-limit:], got); err != nil || diff != "" {
			t.Errorf("the last %d: %v %s", limit, err, diff)
		}
		if opened > limit+1 {
			t.Errorf("%d journals were opened for the last %d events", opened, limit)
		}
	}
}

// TestReadDamaged: a journal that cannot be read is named, and the others are read.
func TestReadDamaged(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	runs := []Run{h.write("a", 0, 1), h.write("b", 2, 3)}
	path, _ := h.EventsPath("a")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(data), "\n")
	if err := os.WriteFile(path, []byte(first+"\n{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := h.read(runs, event.Filter{})
	if diff := cmp.Diff([]string{"a 0", "b 2", "b 3"}, got); diff != "" {
		t.Error(diff)
	}
	e, ok := errors.AsType[*api.Error](err)
	if !ok || e.Code != api.CodeEvents || len(e.Details) != 1 || !strings.HasPrefix(e.Details[0], "a: ") {
		t.Errorf("%+v", err)
	}
}

// runs is a fixed list; a run that begins later is included if its name does not
// begin with "other".
type runs []Run

func (r runs) Runs() ([]Run, error) { return r, nil }

func (r runs) Includes(run string) (bool, error) { return !strings.HasPrefix(run, "other"), nil }

func TestFollow(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	past := runs{h.write("old", 0, 1), h.write("past", 2, 3)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []string
	done := errors.New("done")
	err := Follow(ctx, h, past, 3, func(r event.Record) error {
		switch got = append(got, h.describe(r)); len(got) {
		case 3: // the last ones so far: what begins from here on is new
			h.write("other", 4, 5)
			h.write("new", 6, 7)
		case 5:
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"old 1", "past 2", "past 3", "new 6", "new 7"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestFollowEnds(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Follow(ctx, h, runs{}, 0, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
