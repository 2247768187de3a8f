package engine_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/engine"
)

// backwards is a clock that jumps back an hour at each reading, and once by
// years.
type backwards struct {
	mu   sync.Mutex
	at   time.Time
	jump int
}

func (b *backwards) now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.jump++
	b.at = b.at.Add(-time.Hour)
	if b.jump == 20 {
		b.at = b.at.AddDate(-30, 0, 0)
	}
	return b.at
}

// TestClockThatJumpsBack: order comes from the log, not from the clock.
func TestClockThatJumpsBack(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		clock := &backwards{at: time.Date(2038, 1, 19, 3, 14, 7, 0, time.UTC)}
		w.openWith(clock.now, 0)
		w.init("demo", backend)
		var runs []string
		for _, script := range []string{"echo one > hello.txt", "echo two > hello.txt; exit 1", "echo three > hello.txt", "echo four > hello.txt"} {
			res, _ := w.sh("demo", script, restoreOnFail)
			runs = append(runs, res.RunID)
		}
		list, err := w.e.ReceiptList(w.ctx, "demo")
		w.ok(err)
		var listed []string
		for _, r := range list {
			listed = append(listed, r.RunID)
		}
		if !slices.Equal(listed, runs) {
			w.Fatalf("listed are %v, made were %v", listed, runs)
		}
		w.wantOrder("init run run run run")
		res, err := w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo"})
		w.ok(err)
		if res.RunID != runs[3] {
			w.Fatalf("the last run is %s, restored was %s", runs[3], res.RunID)
		}
		w.wantInside("demo", "hello.txt", "three\n")
		w.wantRecovered("demo")
		w.openWith(clock.now, 0)
		w.gcByTheClock()
		w.wantInside("demo", "hello.txt", "three\n")
		w.sound("demo")
	})
}

func (w *world) wantOrder(kinds string) {
	w.Helper()
	entries, err := w.e.Log(w.ctx, "demo")
	w.ok(err)
	var got []string
	for i, e := range entries {
		got = append(got, e.Kind)
		if i > 0 && e.Seq <= entries[i-1].Seq {
			w.Fatalf("entry %d has the number %d", i, e.Seq)
		}
	}
	if strings.Join(got, " ") != kinds {
		w.Fatalf("the log is %v", got)
	}
}

// gcByTheClock: work with a time in the future is not old. What is to be freed
// now is freed now.
func (w *world) gcByTheClock() {
	w.Helper()
	kept, err := w.e.GC(w.ctx, api.GCRequest{OlderThan: engine.DefaultOlderThan})
	w.ok(err)
	if len(kept.Checkpoints) != 0 {
		w.Fatalf("freed was %+v", kept)
	}
	gone, err := w.e.GC(w.ctx, api.GCRequest{})
	w.ok(err)
	if len(gone.Checkpoints) != 2 {
		w.Fatalf("freed was %+v, want the two restored runs' work", gone)
	}
}

// TestKeysAndAClockThatJumps: a request with a key is known for a day, however the wall
// clock is set, and longer if that is set back or ahead.
func TestKeysAndAClockThatJumps(t *testing.T) {
	t.Parallel()
	w, c := newWorld(t), newClocks()
	w.openWith(c.now, 0)
	w.e.SetSteady(c.boot)
	k := engine.KeyedRequest{Caller: "ci", Route: "POST /v1/cells", Key: "k", Content: []byte("body")}
	first, known, err := w.e.BeginRequest(w.ctx, k)
	w.ok(err)
	if known {
		t.Fatal("a new key is known")
	}
	const day = 24 * time.Hour
	for _, jump := range []time.Duration{0, -365 * day, 366*day - time.Second, 3650 * day, -3650 * day, 2 * day} {
		c.set(jump)
		again, known, err := w.e.BeginRequest(w.ctx, k)
		w.ok(err)
		if !known || again.ID != first.ID {
			t.Errorf("after a jump of %s: %v %s", jump, known, again.ID)
		}
		other := k
		other.Content = []byte("other")
		_, _, err = w.e.BeginRequest(w.ctx, other)
		w.refused(err, api.Refused, "another request")
	}
	c.pass(day + time.Second) // since the last jump
	if again, known, err := w.e.BeginRequest(w.ctx, k); err != nil || known || again.ID == first.ID {
		t.Errorf("after a day: %v %s %v", known, again.ID, err)
	}
}

// TestKeysByTheClock: without a jump a request with a key is known for a day.
func TestKeysByTheClock(t *testing.T) {
	t.Parallel()
	w, c := newWorld(t), newClocks()
	w.openWith(c.now, 0)
	w.e.SetSteady(c.boot)
	k := engine.KeyedRequest{Caller: "ci", Route: "POST /v1/cells", Key: "k", Content: []byte("body")}
	for _, step := range []struct {
		pass  time.Duration
		known bool
	}{{0, false}, {time.Hour, true}, {23 * time.Hour, true}, {time.Second, false}} {
		c.pass(step.pass)
		_, known, err := w.e.BeginRequest(w.ctx, k)
		w.ok(err)
		if known != step.known {
			t.Errorf("after %s more: known is %v", step.pass, known)
		}
	}
}
