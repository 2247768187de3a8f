package race_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/race"
)

// raced makes a race of three attempts, of which the last fails, and keeps them all.
func (w *world) raced() *api.RaceResult {
	w.Helper()
	res, err := w.race(api.RaceRequest{
		Command: sh("echo $FORKCELL_ATTEMPT > hello.txt; test $FORKCELL_ATTEMPT != 3"), N: 3, Best: "score", Judge: sh("echo noise; cat hello.txt"), Keep: true,
	})
	w.ok(err)
	return res
}

func (w *world) choose(attempt string) (*api.RaceResult, error) {
	return w.e.Choose(w.ctx, api.ChooseRequest{Cell: "demo", Attempt: attempt, Reason: "smaller"})
}

// decisions lists the decisions of the raced cell.
func (w *world) decisions() []api.DecisionInfo {
	w.Helper()
	list, err := w.e.Decisions(w.ctx, "demo", "")
	w.ok(err)
	return list
}

// TestChoose: an attempt that lost by its score is chosen afterwards. The decision has
// what the race itself found, it is made once, and it survives the loss of the database.
func TestChoose(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"overlay", "clone", "delta"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, backend)
			was := w.raced()
			w.wantWinner(was, 2, "demo-race-1", "demo-race-2", "demo-race-3")
			w.ok(w.e.Rename(w.ctx, "demo-race-2", "other"))
			res, err := w.choose("demo-race-1")
			w.ok(err)
			w.wantWinner(res, 1, "demo-race-1", "other", "demo-race-3")
			was.Attempts[1].Cell = "other"
			if diff := cmp.Diff(was.Attempts, res.Attempts); diff != "" {
				w.Errorf("the records differ from the race (-race +records):\n%s", diff)
			}
			if got := w.read("demo", "hello.txt"); got != "1\n" {
				w.Errorf("the cell's file holds %q", got)
			}
			again, err := w.choose("demo-race-1")
			w.ok(err)
			list := w.decisions()
			if len(list) != 1 || again.DecisionID != res.DecisionID || list[0].DecisionID != res.DecisionID {
				w.Fatalf("chosen twice: %s, then %s; the decisions are %+v", res.DecisionID, again.DecisionID, list)
			}
			d := list[0]
			if d.Automatic || d.Forced || d.Reason != "smaller" || d.Race == nil || d.Race.Best != "chosen" || d.Race.Winner != 1 || d.Race.Attempts[1].Cell != "demo-race-2" || *d.Race.Attempts[1].Score != 2 {
				w.Errorf("the decision is %+v", d)
			}
			w.sound()
			w.lost()
			w.sound()
			if got := w.read("demo", "hello.txt"); got != "1\n" {
				w.Errorf("after a recovery the cell's file holds %q", got)
			}
			last, err := w.choose("demo-race-1")
			w.ok(err)
			if last.DecisionID != res.DecisionID {
				w.Errorf("after a recovery it was chosen again: %+v", last)
			}
		})
	}
}

// lost removes the database, and has it made again from the log.
func (w *world) lost() {
	w.Helper()
	names, err := filepath.Glob(filepath.Join(w.home, "*.db*"))
	w.ok(err)
	if len(names) == 0 {
		w.Fatal("there is no database to lose")
	}
	for _, name := range names {
		w.ok(os.Remove(name))
	}
	_, err = rescue(w.T, w.home).Recover(w.ctx, false)
	w.ok(err)
	w.open()
}

// TestChooseAnother: a choice can be taken back, and another attempt chosen; also one
// that did not succeed, by force.
func TestChooseAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	was := w.raced()
	_, err := w.choose("demo-race-1")
	w.ok(err)
	_, err = w.choose("demo-race-2")
	w.refused(err, api.Refused, "cell demo has moved from")
	_, err = w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo", Run: was.Attempts[0].RunID})
	w.ok(err)
	_, err = w.choose("demo-race-3")
	w.refused(err, api.Refused, "did not succeed (failed, exit 1)")
	res, err := w.e.Choose(w.ctx, api.ChooseRequest{Cell: "demo", Attempt: "demo-race-3", Force: true, Apply: true})
	w.ok(err)
	if res.Applied == nil || w.read("demo", "hello.txt") != "3\n" {
		w.Errorf("the result is %+v", res)
	}
	list := w.decisions()
	if d := list[len(list)-1]; !d.Forced || d.Race.Winner != 3 {
		w.Errorf("the decision is %+v", d)
	}
	w.sound()
}

// TestWinnerOfARace: after the raced state was brought back, the winner is the attempt
// that was chosen last.
func TestWinnerOfARace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.raced()
	winner := func(want int) {
		w.Helper()
		races, err := w.e.Races(w.ctx, "demo", []string{"demo-race-1"})
		w.ok(err)
		got := 0
		if races[0].Winner != nil {
			got = *races[0].Winner
		}
		if got != want {
			w.Errorf("the winner is %d, want %d", got, want)
		}
	}
	winner(0)
	_, err := w.choose("demo-race-2")
	w.ok(err)
	winner(2)
	races, err := w.e.Races(w.ctx, "demo", []string{"demo-race-1"})
	w.ok(err)
	_, err = w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo", Checkpoint: races[0].CheckpointID})
	w.ok(err)
	winner(0)
	_, err = w.choose("demo-race-1")
	w.ok(err)
	winner(1)
}

// TestChooseRefused: nothing changes if the cell or the attempt has moved, or if the
// records do not say that the one is an attempt of a race of the other.
func TestChooseRefused(t *testing.T) {
	t.Parallel()
	run := func(name string) func(w *world) error {
		return func(w *world) error {
			_, err := w.e.Run(w.ctx, api.RunRequest{Cell: name, Args: sh("echo more >> hello.txt")}, engine.Stdio{})
			return err
		}
	}
	fork := func(from, name string) func(w *world) error {
		return func(w *world) error {
			_, err := w.e.Fork(w.ctx, api.ForkRequest{Cell: from, Name: name})
			return err
		}
	}
	cases := map[string]struct {
		before  func(w *world) error
		attempt string
		kind    api.Kind
		part    string
	}{
		"the cell has moved":       {run("demo"), "demo-race-1", api.Refused, "cell demo has moved from"},
		"the attempt has moved":    {run("demo-race-1"), "demo-race-1", api.Refused, "attempt demo-race-1 has moved from its result"},
		"a fork with such a name":  {fork("demo", "demo-race-9"), "demo-race-9", api.Refused, "is no attempt of a race of demo"},
		"a fork of an attempt":     {fork("demo-race-1", "copy"), "copy", api.Refused, "is no attempt of a race of demo"},
		"the cell itself":          {func(*world) error { return nil }, "demo", api.Refused, "is no attempt of a race of demo"},
		"no such cell":             {func(*world) error { return nil }, "none", api.NotFound, "none"},
		"a cell that was removed":  {func(w *world) error { return w.e.Remove(w.ctx, "demo-race-1", true) }, "demo-race-1", api.NotFound, "demo-race-1"},
		"accepted in its own cell": {func(w *world) error { _, err := w.e.Accept(w.ctx, api.AcceptRequest{Cell: "demo-race-1"}); return err }, "", "", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "")
			w.raced()
			w.ok(c.before(w))
			was, before := w.read("demo", "hello.txt"), len(w.decisions())
			if c.attempt == "" { // that is no hindrance
				_, err := w.choose("demo-race-1")
				w.ok(err)
				w.sound()
				return
			}
			_, err := w.choose(c.attempt)
			w.refused(err, c.kind, c.part)
			if now := w.read("demo", "hello.txt"); now != was || len(w.decisions()) != before {
				w.Errorf("the cell's file holds %q, and the decisions are %+v", now, w.decisions())
			}
			w.sound()
		})
	}
}

// TestChooseUnderWay: nothing can be chosen before the race has ended, nor can the cell
// of a judge.
func TestChooseUnderWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	other := open(t, w.home)
	var early, judge error
	_, err := race.Run(w.ctx, w.e, api.RaceRequest{Cell: "demo", Command: []string{"true"}, N: 2, Jobs: 1, Judge: []string{"true"}, Keep: true}, func(e api.RaceEvent) {
		if e.Kind == api.RaceJudged && e.Attempt.Attempt == 1 {
			_, early = other.Choose(w.ctx, api.ChooseRequest{Cell: "demo", Attempt: "demo-race-1"})
			_, judge = other.Choose(w.ctx, api.ChooseRequest{Cell: "demo-race-1", Attempt: "demo-race-1-judge"})
		}
	})
	w.ok(err)
	w.refused(early, api.Busy, "is under way")
	w.refused(judge, api.Refused, "is no attempt of a race of demo-race-1")
	_, err = w.choose("demo-race-1")
	w.ok(err)
	w.sound()
}

// TestChooseRemoved: attempts that were removed since are named with their scores, as long
// as gc keeps what their judges printed.
func TestChooseRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	was := w.raced()
	w.ok(w.e.Remove(w.ctx, "demo-race-2", true))
	_, err := w.e.GC(w.ctx, api.GCRequest{OlderThan: time.Hour})
	w.ok(err)
	res, err := w.choose("demo-race-1")
	w.ok(err)
	w.wantWinner(res, 1, "demo-race-1", "demo-race-3")
	if diff := cmp.Diff(was.Attempts, res.Attempts); diff != "" {
		w.Errorf("the records differ from the race (-race +records):\n%s", diff)
	}
	w.sound()
}

// TestRaces: the records tell the attempts of two races of a cell apart from other
// forks.
func TestRaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	was := w.raced()
	_, err := w.race(api.RaceRequest{Command: []string{"true"}, N: 2, Keep: true})
	w.ok(err)
	_, err = w.e.Fork(w.ctx, api.ForkRequest{Cell: "demo", Name: "fork"})
	w.ok(err)
	list, err := w.e.Races(w.ctx, "demo", []string{"fork", "demo-race-2", "demo-race2-2", "demo-race-1", "gone"})
	w.ok(err)
	if len(list) != 2 || !list[0].Open || list[0].Winner != nil || len(list[1].Attempts) != 2 || len(list[1].Judge) != 0 || !slices.Equal(list[0].Judge, sh("echo noise; cat hello.txt")) {
		w.Fatalf("the races are %+v", list)
	}
	if diff := cmp.Diff(was.Attempts, list[0].Attempts); diff != "" {
		w.Errorf("the records differ from the race (-race +records):\n%s", diff)
	}
	_, err = w.choose("demo-race2-2")
	w.ok(err)
	list, err = w.e.Races(w.ctx, "demo", []string{"demo-race-1", "demo-race2-1"})
	w.ok(err)
	if list[0].Winner != nil || list[1].Winner == nil || *list[1].Winner != 2 {
		w.Errorf("the races are %+v", list)
	}
}
