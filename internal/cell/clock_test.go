package cell_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/cell"
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
	kept, err := w.e.GC(w.ctx, api.GCRequest{OlderThan: cell.DefaultOlderThan})
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
