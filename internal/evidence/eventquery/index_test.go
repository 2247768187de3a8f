package eventquery

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/evidence/event"
)

// growing is a journal that a test writes to.
type growing struct {
	home
	file *os.File
	log  *event.Journal
	now  time.Time
}

func newGrowing(t *testing.T, run string) *growing {
	t.Helper()
	g := &growing{home: newHome(t)}
	path, _ := g.EventsPath(run)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	if g.file, err = os.Create(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.file.Close() })
	g.now = g.start
	g.log, err = event.Create(g.file, event.Meta{Cell: "demo", Run: run}, event.Options{Window: -1, Now: func() time.Time { return g.now }})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// write appends events of a kind, a second after each other.
func (g *growing) write(n int, verdict event.Verdict, process bool) {
	g.t.Helper()
	for range n {
		g.now = g.now.Add(time.Second)
		s := event.Subject{Verdict: verdict}
		e := event.Lifecycle(s, event.RunStarted)
		if process {
			e = event.Launch(s, event.Process{PID: 7, Binary: "/bin/true"})
		}
		if err := g.log.Append(e); err != nil {
			g.t.Fatal(err)
		}
	}
}

func sequences(t *rapid.T, x *Index, g *growing, f event.Filter) (out []uint64) {
	for rec, err := range x.Journal(g, Run{ID: "run_1"}, f) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, rec.Sequence)
	}
	return out
}

// TestIndex compares queries of a journal that grows with those of a new index.
func TestIndex(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		g, x := newGrowing(t, "run_1"), &Index{}
		for range rapid.IntRange(1, 6).Draw(rt, "steps") {
			g.write(rapid.IntRange(0, 60).Draw(rt, "events"), rapid.SampledFrom([]event.Verdict{event.Allowed, event.Denied}).Draw(rt, "verdict"), rapid.Bool().Draw(rt, "process"))
			f := event.Filter{
				Action: rapid.SampledFrom([]event.Action{"", event.ActionAllowed, event.ActionDenied}).Draw(rt, "action"),
				Class:  rapid.SampledFrom([]event.Class{0, event.AppLifecycle, event.ProcessActivity}).Draw(rt, "class"),
			}
			if rapid.Bool().Draw(rt, "recent") {
				f.Since = g.at(rapid.IntRange(0, 200).Draw(rt, "since"))
			}
			if diff := cmp.Diff(sequences(rt, &Index{}, g, f), sequences(rt, x, g, f)); diff != "" {
				rt.Fatalf("%+v: %s", f, diff)
			}
		}
	})
}

// counting counts the bytes that a query may read.
type counting struct {
	home
	opened int
}

func (c *counting) OpenEvents(run string) (*os.File, error) {
	c.opened++
	return c.home.OpenEvents(run)
}

// TestIndexSkips: a query for what a run does not have opens its journal once, and
// reads of a journal that grows what is new.
func TestIndexSkips(t *testing.T) {
	t.Parallel()
	g, x := newGrowing(t, "run_1"), &Index{}
	g.write(500, event.Allowed, true)
	g.write(1, event.Denied, true)
	g.write(500, event.Allowed, true)
	denied := event.Filter{Action: event.ActionDenied}
	run, c := Run{ID: "run_1", Ended: true}, &counting{home: g.home}
	for range 3 {
		n := 0
		if err := x.Read(c, []Run{run}, denied, func(event.Record) error { n++; return nil }); err != nil || n != 1 {
			t.Errorf("%d events, %v", n, err)
		}
	}
	k := x.lookup("run_1", denied)
	if !k.whole || len(k.spans) != 1 || k.spans[0].to-k.spans[0].from > 2*partSize {
		t.Errorf("%+v", k)
	}
	c.opened = 0
	none := event.Filter{Class: event.AppLifecycle}
	if err := x.Read(c, []Run{run}, none, func(event.Record) error { return io.EOF }); err != nil || c.opened != 0 {
		t.Errorf("opened %d times, %v", c.opened, err)
	}
}

// TestIndexReplaced: a journal that was cut off, or is another file, is read anew.
func TestIndexReplaced(t *testing.T) {
	t.Parallel()
	g, x := newGrowing(t, "run_1"), &Index{}
	g.write(100, event.Allowed, false)
	all := func(want int) {
		t.Helper()
		n := 0
		for _, err := range x.Journal(g, Run{ID: "run_1"}, event.Filter{}) {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		if n != want {
			t.Errorf("%d events, not %d", n, want)
		}
	}
	all(100)
	path, _ := g.EventsPath("run_1")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.file.Truncate(int64(len(text)) - 1); err != nil { // a torn line
		t.Fatal(err)
	}
	all(99)
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, text...), 0o600); err != nil {
		t.Fatal(err)
	}
	all(200)
}

// TestKinds: the journal of a run that has no event of the asked kind is not opened,
// not even by the first query. That of a run whose kinds are not known is.
func TestKinds(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	lifecycle := event.Kind{Class: event.AppLifecycle, Action: event.ActionAllowed}
	known, unknown, open := h.write("known", 0, 1), h.write("unknown", 2, 3), h.write("open", 4, 5)
	known.Kinds, open.Kinds, open.Ended = []event.Kind{lifecycle}, []event.Kind{lifecycle}, false
	for name, c := range map[string]struct {
		filter event.Filter
		opened int
		events int
	}{
		"everything":             {event.Filter{}, 3, 6},
		"of its class":           {event.Filter{Class: event.AppLifecycle}, 3, 6},
		"of another class":       {event.Filter{Class: event.NetworkActivity}, 2, 0},
		"of another action":      {event.Filter{Action: event.ActionDenied, Limit: 100}, 2, 0},
		"its class, not allowed": {event.Filter{Class: event.AppLifecycle, Action: event.ActionDenied}, 2, 0},
	} {
		journals, events := &counting{home: h}, 0
		err := new(Index).Read(journals, []Run{known, unknown, open}, c.filter, func(event.Record) error { events++; return nil })
		if err != nil || journals.opened != c.opened || events != c.events {
			t.Errorf("%s: opened %d journals, %d events, %v", name, journals.opened, events, err)
		}
	}
}
