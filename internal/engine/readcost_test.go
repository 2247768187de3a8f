package engine_test

import (
	"fmt"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// TestReadingDoesNotFollowHistory: what the verbs of pages read is no more after a
// history that is three times as long. Values that are kept are computed before.
func TestReadingDoesNotFollowHistory(t *testing.T) {
	t.Parallel()
	const page, runs = 3, 12
	w := newWorld(t)
	w.init("demo", "overlay")
	w.init("other", "overlay")
	var run *api.RunResult
	more := func(n int) {
		for i := range n {
			run, _ = w.sh("demo", fmt.Sprintf("echo %s%d > file", run0(run), i))
		}
	}
	skip := func(event.Record) error { return nil }
	verbs := map[string]func() error{
		"List":             func() error { _, err := w.e.List(w.ctx); return err },
		"Status":           func() error { _, err := w.e.Status(w.ctx, "demo"); return err },
		"runs":             func() error { _, _, err := w.e.RecentRuns(w.ctx, "", 0, page); return err },
		"the first runs":   func() error { _, _, err := w.e.RecentRuns(w.ctx, "", page, page); return err },
		"runs of a cell":   func() error { _, _, err := w.e.RecentRuns(w.ctx, "demo", 0, page); return err },
		"states":           func() error { _, err := w.e.RecentStates(w.ctx, "demo", page); return err },
		"run":              func() error { _, err := w.e.RunInfo(w.ctx, run.RunID); return err },
		"receipt":          func() error { _, err := w.e.Receipt(w.ctx, run.ReceiptID, "", false); return err },
		"last receipt":     func() error { _, err := w.e.Receipt(w.ctx, "", "", true); return err },
		"decisions":        func() error { _, err := w.e.Decisions(w.ctx, "", run.RunID); return err },
		"events":           func() error { return w.e.Events(w.ctx, api.EventQuery{Limit: page}, skip) },
		"events of a cell": func() error { return w.e.Events(w.ctx, api.EventQuery{Cell: "other", Limit: page}, skip) },
		"events of a run":  func() error { return w.e.Events(w.ctx, api.EventQuery{Run: run.RunID}, skip) },
		"file": func() error {
			f, err := w.e.OpenStateFile(w.ctx, "demo", run.CheckpointAfter, "file")
			if err == nil {
				err = f.Close()
			}
			return err
		},
		"changes": func() error {
			d, err := w.e.Diff(w.ctx, api.DiffRequest{Cell: "demo", Run: run.RunID, Stream: true})
			if err == nil {
				err = d.Each(func(tree.Change) error { return nil })
			}
			return err
		},
	}
	cost := func() map[string]int64 {
		rows := map[string]int64{}
		for name, verb := range verbs {
			w.ok(verb())
			before := w.e.RowsRead()
			w.ok(verb())
			rows[name] = w.e.RowsRead() - before
		}
		return rows
	}
	more(runs)
	short := cost()
	more(2 * runs)
	for name, rows := range cost() {
		// A run is found by its number in a number of steps that follows the logarithm.
		if rows > short[name]+page {
			t.Errorf("%s: %d rows after %d runs, %d after %d", name, short[name], runs, rows, 3*runs)
		}
	}
}

// run0 returns the id of a run, or "" before the first.
func run0(r *api.RunResult) string {
	if r == nil {
		return ""
	}
	return r.RunID
}
