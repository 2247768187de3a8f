package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/engine"
)

// plainBackends keep their states apart from the source.
var plainBackends = []string{"overlay", "clone"}

func eachPlain(t *testing.T, fn func(w *world)) {
	for _, backend := range plainBackends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.init("demo", backend)
			fn(w)
			w.sound("demo")
		})
	}
}

// TestRefreshAcceptsNothing: a refresh does not decide about work that is
// already in the cell.
func TestRefreshAcceptsNothing(t *testing.T) {
	t.Parallel()
	eachPlain(t, func(w *world) {
		w.sh("demo", "echo unseen > docs/a.md")
		w.write("hello.txt", "from the source\n")
		_, err := w.e.Refresh(w.ctx, api.RefreshRequest{Cell: "demo"})
		w.ok(err)
		_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
		if got := w.read("docs/a.md"); got != "a\n" {
			w.Fatalf("work that nobody accepted was written: %q, %v", got, err)
		}
		if got := w.read("hello.txt"); got != "from the source\n" {
			w.Fatalf("the source's own change was taken back: %q, %v", got, err)
		}
		_, err = w.e.Accept(w.ctx, api.AcceptRequest{Cell: "demo", Apply: true})
		w.ok(err)
		if got := w.read("docs/a.md") + w.read("hello.txt"); got != "unseen\nfrom the source\n" {
			w.Fatalf("accepted, the source holds %q", got)
		}
	})
}

// TestRestoreBehindARefresh: changes that people made in the source since the
// import stay theirs, also for a cell that is restored to a state before the
// refresh.
func TestRestoreBehindARefresh(t *testing.T) {
	t.Parallel()
	eachPlain(t, func(w *world) {
		w.write("hello.txt", "from the source\n")
		_, err := w.e.Refresh(w.ctx, api.RefreshRequest{Cell: "demo"})
		w.ok(err)
		_, err = w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo", Checkpoint: "base"})
		w.ok(err)
		w.sh("demo", "echo cell > docs/a.md", acceptOnSuccess)
		_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
		if got := w.read("hello.txt"); got != "from the source\n" {
			w.Fatalf("the source's own change was taken back: %q, %v", got, err)
		}
	})
}

// TestRefreshAfterGoingBack: a refresh brings in everything that the cell
// lacks, also what an earlier refresh had brought.
func TestRefreshAfterGoingBack(t *testing.T) {
	t.Parallel()
	eachPlain(t, func(w *world) {
		w.sh("demo", "echo cell > docs/a.md", acceptOnSuccess)
		w.write("hello.txt", "first\n")
		_, err := w.e.Refresh(w.ctx, api.RefreshRequest{Cell: "demo"})
		w.ok(err)
		_, err = w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo", Checkpoint: "base"})
		w.ok(err)
		w.write("docs/b.md", "second\n")
		_, err = w.e.Refresh(w.ctx, api.RefreshRequest{Cell: "demo"})
		w.ok(err)
		w.wantInside("demo", "hello.txt", "first\n")
		w.wantInside("demo", "docs/b.md", "second\n")
		w.sh("demo", "echo cell > docs/a.md", acceptOnSuccess)
		_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
		w.ok(err)
		if got := w.read("hello.txt") + w.read("docs/b.md") + w.read("docs/a.md"); got != "first\nsecond\ncell\n" {
			w.Fatalf("the source holds %q", got)
		}
	})
}

// TestRecoverAfterDecisions: the log determines the head after any decision.
func TestRecoverAfterDecisions(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		w.init("demo", backend)
		one, _ := w.sh("demo", "echo one > hello.txt")
		two, _ := w.sh("demo", "echo two > hello.txt")
		w.sh("demo", "echo three > hello.txt")
		_, err := w.e.Accept(w.ctx, api.AcceptRequest{Cell: "demo", Runs: []string{one.RunID, two.RunID}})
		w.ok(err)
		w.wantRecovered("demo")
		w.wantInside("demo", "hello.txt", "three\n")
		w.sound("demo")
	})
}

// wantRecovered deletes the database and compares the recovered one.
func (w *world) wantRecovered(name string) {
	w.Helper()
	before, err := w.e.Status(w.ctx, name)
	w.ok(err)
	w.loseDatabase()
	w.ok(w.recover())
	w.open()
	after, err := w.e.Status(w.ctx, name)
	w.ok(err)
	if before.Head != after.Head || before.Applied != after.Applied || before.Root != after.Root || len(before.PendingRuns) != len(after.PendingRuns) {
		w.Fatalf("before %+v\nafter  %+v", before, after)
	}
}

// TestUndoAfterGC: gc keeps the state that an undo needs.
func TestUndoAfterGC(t *testing.T) {
	t.Parallel()
	eachPlain(t, func(w *world) {
		w.sh("demo", "echo changed > hello.txt", acceptOnSuccess)
		_, err := w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
		w.ok(err)
		w.sh("demo", "echo more > hello.txt", acceptOnSuccess)
		_, err = w.e.GC(w.ctx, api.GCRequest{})
		w.ok(err)
		_, err = w.e.Undo(w.ctx, api.UndoRequest{Cell: "demo"})
		w.ok(err)
		if got := w.read("hello.txt"); got != "hello\n" {
			w.Fatalf("the source holds %q", got)
		}
		_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
		w.ok(err)
		if got := w.read("hello.txt"); got != "more\n" {
			w.Fatalf("applied again, the source holds %q", got)
		}
	})
}

// TestGCKeepsWhatWasLeftLately: the time for which undone work is kept starts
// when it is undone, not when it was made.
func TestGCKeepsWhatWasLeftLately(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	w.openWith(func() time.Time { return now }, 0)
	w.init("demo", "overlay")
	w.sh("demo", "echo old > hello.txt", acceptOnSuccess)
	now = now.AddDate(0, 1, 0)
	_, err := w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo"})
	w.ok(err)
	gc := func() int {
		res, err := w.e.GC(w.ctx, api.GCRequest{OlderThan: engine.DefaultOlderThan})
		w.ok(err)
		return len(res.Checkpoints)
	}
	if n := gc(); n != 0 {
		t.Fatalf("gc freed %d checkpoints that were left a moment ago", n)
	}
	now = now.AddDate(0, 1, 0)
	if n := gc(); n != 1 {
		t.Fatalf("gc freed %d checkpoints, want the work that was left a month ago", n)
	}
}

// TestGCKeepsWhatWasLeftOut: what a partial acceptance left out, in the workspace and in the
// home, can be brought back for as long as work that was undone.
func TestGCKeepsWhatWasLeftOut(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		w.openWith(func() time.Time { return now }, 0)
		w.init("demo", backend)
		gc := func() []string {
			res, err := w.e.GC(w.ctx, api.GCRequest{OlderThan: engine.DefaultOlderThan})
			w.ok(err)
			return res.Checkpoints
		}
		run, _ := w.sh("demo", "echo 1 > taken; echo 2 > left; echo 3 > ~/left")
		now = now.AddDate(0, 1, 0)
		res, err := w.e.Accept(w.ctx, api.AcceptRequest{Cell: "demo", Only: []string{"taken"}})
		w.ok(err)
		if res.Left != run.CheckpointAfter {
			w.Errorf("the result names %q as left, not %s", res.Left, run.CheckpointAfter)
		}
		if freed := gc(); len(freed) > 0 {
			w.Errorf("gc has freed %v, which was left out a moment ago", freed)
		}
		_, err = w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo", Checkpoint: res.Left})
		w.ok(err)
		w.sh("demo", "test -e left && test -e ~/left && test -e taken")
		_, err = w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo", Checkpoint: res.CheckpointID})
		w.ok(err)
		now = now.AddDate(0, 1, 0)
		if freed := gc(); !slices.Contains(freed, res.Left) {
			w.Errorf("gc has freed %v, without what was left out a month ago", freed)
		}
		w.sound("demo")
	})
}
