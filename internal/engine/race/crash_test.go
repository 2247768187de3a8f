//go:build failpoints

package race_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/engine/race"
	"github.com/forkcell/forkcell/internal/front/local"
)

// victim is set in the process that is killed.
const victim = "FORKCELL_TEST_VICTIM"

// TestVictim is no separate test: it is the code of the killed process.
func TestVictim(t *testing.T) {
	home, keep, ok := strings.Cut(os.Getenv(victim), "|")
	if !ok {
		return
	}
	e, release, err := local.Open(home, local.Write, caller.Caller{Actor: func() string { return "tester" }})
	if err != nil {
		t.Fatal(err)
	}
	req := api.RaceRequest{
		Cell: "demo", Command: sh("echo $FORKCELL_ATTEMPT > hello.txt"), N: 2, Jobs: 1, Judge: sh("cat hello.txt"), Best: "score", Accept: true,
		Keep: keep == "keep",
	}
	if keep == "warm" {
		req = api.RaceRequest{Cell: "demo", Warm: true, Code: "open('hello.txt', 'w').write('2')", N: 2}
	}
	if keep == "choose" {
		_, err = e.Choose(t.Context(), api.ChooseRequest{Cell: "demo", Attempt: "demo-race-1"})
	} else {
		_, err = race.Run(t.Context(), e, req, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
}

// killed runs a race in another process, which is killed at a failpoint.
func (w *world) killed(point, keep string) {
	w.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestVictim$")
	cmd.Env = append(os.Environ(), victim+"="+w.home+"|"+keep, "FORKCELL_FAILPOINT="+point)
	out, err := cmd.CombinedOutput()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
		w.Fatalf("the victim came past %s: %v\n%s", point, err, out)
	}
	w.open()
}

// settle does what every changing verb does first, and nothing else.
func (w *world) settle(name string) {
	w.Helper()
	_, err := w.e.Restore(w.ctx, api.RestoreRequest{Cell: name, Checkpoint: "head"})
	w.ok(err)
}

// wantSettled checks that nothing of a race is left, that the cell has all of its
// result or nothing, and that the race can be made again.
func (w *world) wantSettled() {
	w.Helper()
	w.wantCells("demo")
	got := w.read("demo", "hello.txt")
	list, err := w.e.Decisions(w.ctx, "demo", "")
	w.ok(err)
	if got != "hello\n" && got != "2\n" || len(list) != strings.Count(got, "2") {
		w.Errorf("the file holds %q, and the decisions are %+v", got, list)
	}
	w.sound()
	_, err = w.e.GC(w.ctx, api.GCRequest{})
	w.ok(err)
	w.sound()
	res, err := w.race(api.RaceRequest{Command: sh("echo again > hello.txt"), N: 2, Accept: true})
	w.ok(err)
	w.wantWinner(res, 1)
	if got := w.read("demo", "hello.txt"); got != "again\n" {
		w.Errorf("after another race the file holds %q", got)
	}
	w.wantCells("demo")
	w.sound()
}

// TestKilled kills a race at every stage. The next verb that changes the cell, the
// next race, or gc removes what it left; each run that had begun has a receipt.
func TestKilled(t *testing.T) {
	t.Parallel()
	first := map[string]func(w *world){
		"verb": func(w *world) { w.settle("demo") },
		"race": func(w *world) {
			_, err := w.race(api.RaceRequest{Command: []string{"false"}, N: 1})
			w.ok(err)
		},
		"gc": func(w *world) {
			_, err := w.e.GC(w.ctx, api.GCRequest{})
			w.ok(err)
		},
	}
	// The statements are: two forks; for each attempt its run, the fork of its judge,
	// the judge's run; the decision; four removals.
	cases := map[string][]string{
		"log.written": {"verb"}, "race.forked": {"verb", "race", "gc"}, "run.recorded": {"verb"}, "run.executed": {"verb", "race", "gc"},
		"run.concluded": {"verb"}, "log.written@4": {"verb"}, "run.executed@2": {"verb"}, "run.executed@3": {"verb"},
		"run.executed@4": {"gc"}, "log.written@9": {"verb"}, "race.accepted": {"verb", "race", "gc"}, "log.written@11": {"verb"}, "log.written@13": {"gc"},
	}
	for point, ways := range cases {
		for _, way := range ways {
			t.Run(point+"/"+way, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, "")
				w.killed(point, "")
				first[way](w)
				w.wantSettled()
			})
		}
	}
}

// TestKilledOnDelta does the same on a backend with a live directory, which the
// decision rewrites.
func TestKilledOnDelta(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"race.forked", "run.executed@2", "apply.staged", "apply.displaced", "apply.committed", "race.accepted"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "delta")
			w.killed(point, "")
			w.settle("demo")
			w.wantSettled()
		})
	}
}

// TestInterruptedAttempt: the attempt that was cut off gets its receipt when its
// cell is removed.
func TestInterruptedAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.killed("run.executed", "")
	w.settle("demo")
	if want := []string{"demo-race-1 interrupted"}; !slices.Equal(w.outcomes(), want) {
		w.Errorf("the receipts are %q, want %q", w.outcomes(), want)
	}
}

// TestKeptCells: with keep, only judges are removed after a crash.
func TestKeptCells(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.killed("run.executed@2", "keep") // in the first judge
	w.settle("demo")
	w.wantCells("demo", "demo-race-1", "demo-race-2")
	w.sound()
}

// TestAdopted: a cell of a dead race that was used since is no longer the race's to
// remove.
func TestAdopted(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		use  func(w *world) error
		want []string
	}{
		"a run": {func(w *world) error {
			_, err := w.e.Run(w.ctx, api.RunRequest{Cell: "demo-race-1", Args: []string{"true"}}, engine.Stdio{})
			return err
		}, []string{"demo", "demo-race-1"}},
		"a decision": {func(w *world) error {
			_, err := w.e.Accept(w.ctx, api.AcceptRequest{Cell: "demo-race-1"})
			return err
		}, []string{"demo", "demo-race-1"}},
		"a name": {func(w *world) error { return w.e.Rename(w.ctx, "demo-race-1", "mine") }, []string{"demo", "mine"}},
		"removed by hand": {func(w *world) error {
			return w.e.RemoveAll(w.ctx, []string{"demo-race-1", "demo-race-2", "demo-race-1-judge"}, true)
		}, []string{"demo"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "")
			w.killed("run.executed@2", "") // the first attempt has ended
			w.ok(c.use(w))
			w.settle("demo")
			w.wantCells(c.want...)
			w.settle("demo")
			w.wantCells(c.want...)
			w.sound()
		})
	}
}

// TestAnotherRaceIsUnderWay: the cells of a living race stay, also while a dead one
// is removed.
func TestAnotherRaceIsUnderWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.killed("run.executed", "")
	other := open(t, w.home)
	var seen error
	res, err := race.Run(w.ctx, w.e, api.RaceRequest{Cell: "demo", Command: []string{"true"}, N: 2, Jobs: 1}, func(e api.RaceEvent) {
		if e.Kind == api.RaceAttempted && seen == nil {
			_, seen = other.Restore(w.ctx, api.RestoreRequest{Cell: "demo", Checkpoint: "head"})
		}
	})
	w.ok(err)
	w.ok(seen)
	w.wantWinner(res, 1, "demo-race-1")
	w.wantCells("demo", "demo-race-1")
}

// TestKilledWarm kills the process of a race in branches. The next change of the home
// ends and removes them, and the template stays.
func TestKilledWarm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.template()
	w.killed("race.forked", "warm")
	w.wantCells("demo", "demo-race-1", "demo-race-2")
	_, err := w.e.Fork(w.ctx, api.ForkRequest{Cell: "demo", Name: "other"})
	w.ok(err)
	w.settle("other")
	w.wantCells("demo", "other")
	res, err := w.race(api.RaceRequest{Warm: true, Code: "1", N: 2})
	w.ok(err)
	w.wantWinner(res, 1, "demo-race-1")
}

// TestKilledChoice kills the process that chooses a winner. The cell has all of the choice
// or nothing, and choosing again makes it whole, with one decision.
func TestKilledChoice(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{{"", "log.written"}, {"", "race.accepted"}, {"delta", "apply.staged"}, {"delta", "apply.displaced"}, {"delta", "apply.committed"}, {"delta", "race.accepted"}} {
		t.Run(c[0]+" "+c[1], func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c[0])
			w.raced()
			w.killed(c[1], "choose")
			w.settle("demo")
			got, list := w.read("demo", "hello.txt"), w.decisions()
			if got != "hello\n" && got != "1\n" || len(list) != strings.Count(got, "1") {
				w.Errorf("the file holds %q, and the decisions are %+v", got, list)
			}
			w.sound()
			_, err := w.choose("demo-race-1")
			w.ok(err)
			if got, list := w.read("demo", "hello.txt"), w.decisions(); got != "1\n" || len(list) != 1 {
				w.Errorf("then the file holds %q, and the decisions are %+v", got, list)
			}
			w.sound()
		})
	}
}

// TestChooseAfterCrash: attempts of a race that was killed are finished first, so that the
// decision has a receipt of each that had begun. One that was only used by hand since has
// no result.
func TestChooseAfterCrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.killed("run.executed@2", "keep") // in the judge of the first
	_, err := w.e.Run(w.ctx, api.RunRequest{Cell: "demo-race-2", Args: []string{"true"}}, engine.Stdio{})
	w.ok(err)
	_, err = w.choose("demo-race-2")
	w.refused(err, api.Refused, "has no result of the race")
	res, err := w.choose("demo-race-1")
	w.ok(err)
	if a := res.Attempts; a[0].Outcome != "succeeded" || a[1].Outcome != "interrupted" || a[1].RunID != "" {
		w.Errorf("the attempts are %+v", a)
	}
	w.sound()
	other := newWorld(t, "")
	other.killed("run.executed", "keep") // in the first attempt
	_, err = other.choose("demo-race-1")
	other.refused(err, api.Refused, "did not succeed (interrupted")
	other.sound()
}
