package race_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/race"
)

// TestWinner races three attempts on each backend. The judge of the winner changes
// files, which nobody sees.
func TestWinner(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"overlay", "clone", "delta"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, backend)
			res, err := w.race(api.RaceRequest{
				Command: sh("test $FORKCELL_ATTEMPT != 1 && echo $FORKCELL_ATTEMPT > hello.txt"), N: 4, Jobs: 2, Best: "score",
				Judge: sh("expr 7 - $(cat hello.txt); echo judged > hello.txt; touch trace; rm -f other; exit $(expr $FORKCELL_ATTEMPT = 4)"),
			})
			w.ok(err)
			// 2 scores 5, 3 scores 4; the first failed, and the judge failed the last.
			w.wantWinner(res, 2, "demo-race-2")
			w.wantCells("demo", "demo-race-2")
			if got := w.read("demo-race-2", "hello.txt"); got != "2\n" {
				w.Errorf("the winner's file holds %q", got)
			}
			if got := w.read("demo", "hello.txt"); got != "hello\n" {
				w.Errorf("the cell's file holds %q", got)
			}
			w.wantLog("demo-race-2", "fork", "run")
			w.sound()
		})
	}
}

func (w *world) wantWinner(res *api.RaceResult, number int, kept ...string) {
	w.Helper()
	if res.Winner == nil || *res.Winner != number {
		w.Errorf("the winner is not attempt %d: %+v", number, res)
	}
	if !slices.Equal(res.Kept, kept) {
		w.Errorf("kept are %q, want %q", res.Kept, kept)
	}
}

// wantLog checks the kinds of statements in a cell's log.
func (w *world) wantLog(name string, want ...string) {
	w.Helper()
	entries, err := w.e.Log(w.ctx, name)
	w.ok(err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Kind)
	}
	if !slices.Equal(got, want) {
		w.Errorf("the log of %s has %q, want %q", name, got, want)
	}
}

// TestAccept accepts a winner: one decision, which names everything, and survives
// the loss of the database.
func TestAccept(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"overlay", "clone", "delta"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, backend)
			res, err := w.race(api.RaceRequest{
				Attempts: []api.RaceCommand{
					{Command: sh("echo $WHICH > hello.txt"), Env: []string{"WHICH=one"}},
					{Command: sh("exit 3")},
					{Command: sh("echo $WHICH > hello.txt"), Env: []string{"WHICH=three"}},
				},
				Judge: sh("wc -c < hello.txt"), Best: "score", Accept: true, Apply: backend != "delta",
			})
			w.ok(err)
			w.wantWinner(res, 3)
			w.wantCells("demo")
			if got := w.read("demo", "hello.txt"); got != "three\n" {
				w.Errorf("the cell's file holds %q", got)
			}
			source, err := os.ReadFile(filepath.Join(w.source, "hello.txt"))
			w.ok(err)
			if string(source) != "three\n" {
				w.Errorf("the source's file holds %q", source)
			}
			w.wantDecision(res)
			w.sound()
			w.ok(os.Remove(filepath.Join(w.home, "forkcell.db")))
			w.recover()
			w.wantDecision(res)
			w.sound()
			if got := w.read("demo", "hello.txt"); got != "three\n" {
				w.Errorf("after recover the cell's file holds %q", got)
			}
			_, err = w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo", Run: res.Attempts[2].RunID})
			w.ok(err)
			if got := w.read("demo", "hello.txt"); got != "hello\n" {
				w.Errorf("restored, the cell's file holds %q", got)
			}
			w.sound()
		})
	}
}

// wantDecision checks that there is exactly one decision, that of the race.
func (w *world) wantDecision(res *api.RaceResult) {
	w.Helper()
	list, err := w.e.Decisions(w.ctx, "", "")
	w.ok(err)
	if len(list) != 1 {
		w.Fatalf("the decisions are %+v", list)
	}
	d := list[0]
	if d.DecisionID != res.DecisionID || d.Cell != "demo" || d.Result != "accepted" || d.Race == nil || d.RunID != res.Attempts[*res.Winner-1].RunID {
		w.Fatalf("the decision is %+v", d)
	}
	var got []api.RaceAttempt
	for _, a := range d.Race.Attempts {
		got = append(got, api.RaceAttempt{
			Attempt: a.Attempt, Cell: a.Cell, RunID: a.RunID, ReceiptID: a.ReceiptID, Outcome: a.Outcome, ExitCode: a.ExitCode,
			DurationUS: a.DurationUS, Score: a.Score, JudgeExitCode: a.JudgeExitCode, JudgeReceiptID: a.JudgeReceiptID,
		})
	}
	want := slices.Clone(res.Attempts)
	for i := range want {
		want[i].ChangedFiles = 0 // the receipt has it
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("signed is something else than the result (-result +signed):\n%s", diff)
	}
}

func (w *world) recover() {
	w.Helper()
	e := rescue(w.T, w.home)
	_, err := e.Recover(w.ctx, false)
	w.ok(err)
	w.open()
}

// TestEarlierWork: pending work of the raced cell is not accepted with a winner. It is
// decided first.
func TestEarlierWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	before, err := w.e.Run(w.ctx, api.RunRequest{Cell: "demo", Args: sh("echo before > before.txt")}, engine.Stdio{})
	w.ok(err)
	attempts := api.RaceRequest{Command: sh("echo x > hello.txt"), N: 2, Keep: true}
	kept, err := w.race(attempts)
	w.ok(err)
	choice := api.ChooseRequest{Cell: "demo", Attempt: kept.Attempts[1].Cell}
	_, err = w.e.Choose(w.ctx, choice)
	w.refused(err, api.Refused, "earlier undecided work, which accepting a winner would accept with it: "+before.RunID)
	attempts.Accept = true
	_, err = w.race(attempts)
	w.refused(err, api.Refused, "earlier undecided work, which accepting a winner would accept with it: "+before.RunID)
	w.wantCells("demo", "demo-race-1", "demo-race-2")

	_, err = w.e.Accept(w.ctx, api.AcceptRequest{Cell: "demo"})
	w.ok(err)
	res, err := w.e.Choose(w.ctx, choice)
	w.ok(err)
	if len(res.Also) > 0 {
		w.Errorf("also decided is %q", res.Also)
	}
	w.wantLog("demo", "init", "run", "decision", "decision")
	w.sound()
}

// TestNothingChanged: a winner that changed nothing is accepted, too.
func TestNothingChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	res, err := w.race(api.RaceRequest{Command: []string{"true"}, N: 1, Accept: true})
	w.ok(err)
	w.wantWinner(res, 1)
	w.wantDecision(res)
	w.sound()
}

// TestMoved: if the cell moves while the race runs, nothing is accepted, and the
// winner is kept.
func TestMoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	moved := false
	res, err := race.Run(w.ctx, w.e, api.RaceRequest{Cell: "demo", Command: sh("echo x > hello.txt"), N: 2, Accept: true}, func(e api.RaceEvent) {
		if e.Kind == api.RaceAttempted && !moved {
			moved = true
			_, err := w.e.Run(w.ctx, api.RunRequest{Cell: "demo", Args: sh("echo moved > hello.txt")}, engine.Stdio{})
			w.ok(err)
		}
	})
	w.refused(err, api.Refused, "has moved from chk_")
	w.wantWinner(res, 1, "demo-race-1")
	w.wantCells("demo", "demo-race-1")
	if got := w.read("demo", "hello.txt"); got != "moved\n" || res.DecisionID != "" {
		w.Errorf("the cell's file holds %q, the decision is %q", got, res.DecisionID)
	}
	w.sound()
}

// TestNobodyWins: no winner is a result, not an error.
func TestNobodyWins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	res, err := w.race(api.RaceRequest{Command: sh("exit $FORKCELL_ATTEMPT"), N: 3, Accept: true})
	w.ok(err)
	if res.Winner != nil || len(res.Kept) > 0 || res.Attempts[2].ExitCode != 3 {
		w.Errorf("the result is %+v", res)
	}
	w.wantCells("demo")
	w.sound()
}

// TestKeep keeps all attempts, never a judge. The next race takes other names.
func TestKeep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	req := api.RaceRequest{Command: sh("exit $((FORKCELL_ATTEMPT - 1))"), N: 2, Judge: []string{"true"}, Keep: true}
	res, err := w.race(req)
	w.ok(err)
	w.wantWinner(res, 1, "demo-race-1", "demo-race-2")
	req.Keep = false
	res, err = w.race(req)
	w.ok(err)
	w.wantWinner(res, 1, "demo-race2-1")
	w.wantCells("demo", "demo-race-1", "demo-race-2", "demo-race2-1")
}

// TestFastest makes an attempt with much work, and one without any.
func TestFastest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	res, err := w.race(api.RaceRequest{Attempts: []api.RaceCommand{
		{Command: sh("sleep 0.3")}, {Command: []string{"true"}},
	}, Best: "fastest", Jobs: 1})
	w.ok(err)
	w.wantWinner(res, 2, "demo-race-2")
}

// TestEvents: the stream of a race has an attempt and a judged event for each
// attempt that succeeded, and the result at the end.
func TestEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	res, err := w.race(api.RaceRequest{Command: sh("exit $((FORKCELL_ATTEMPT - 1))"), N: 2, Judge: sh("echo 1.5"), Jobs: 1})
	w.ok(err)
	var kinds []string
	for _, e := range w.seen {
		kinds = append(kinds, strings.TrimSpace(fmt.Sprint(e.Kind, " ", e.Attempt.Attempt)))
	}
	want := []string{"forked 0", "started 1", "attempt 1", "judging 1", "judged 1", "started 2", "attempt 2", "result 0"}
	if diff := cmp.Diff(want, kinds); diff != "" {
		w.Error(diff)
	}
	if last := w.seen[len(w.seen)-1]; last.Result != res {
		w.Errorf("the last event has %+v", last.Result)
	}
	if a := w.seen[4].Attempt; a.Score == nil || *a.Score != 1.5 || *a.JudgeExitCode != 0 {
		w.Errorf("judged says %+v", a)
	}
}

// TestCancelled: whoever began has a receipt, nobody else does, and no cell stays.
func TestCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	ctx, cancel := context.WithCancelCause(w.ctx)
	why := errors.New("the caller has gone")
	var ready atomic.Int32
	e := loud{w.e, writer(func() {
		if ready.Add(1) == 2 {
			cancel(why)
		}
	})}
	res, err := race.Run(ctx, e, api.RaceRequest{Cell: "demo", Command: sh("echo ready; exec sleep 600"), N: 3, Jobs: 2, Accept: true}, nil)
	if !errors.Is(err, why) {
		w.Fatalf("the error is %v", err)
	}
	for i, a := range res.Attempts {
		if a.Outcome != "interrupted" || (a.ReceiptID != "") != (i < 2) {
			w.Errorf("attempt %d is %+v", i+1, a)
		}
	}
	if want := []string{"demo-race-1 interrupted", "demo-race-2 interrupted"}; !slices.Equal(w.outcomes(), want) {
		w.Errorf("the receipts are %q, want %q", w.outcomes(), want)
	}
	w.wantCells("demo")
	w.sound()
}

// loud is an engine that passes the output of every command on.
type loud struct {
	*engine.Engine
	out io.Writer
}

func (l loud) Run(ctx context.Context, r api.RunRequest, stdio engine.Stdio) (*api.RunResult, error) {
	stdio.Out = l.out
	return l.Engine.Run(ctx, r, stdio)
}

type writer func()

func (w writer) Write(p []byte) (int, error) {
	w()
	return len(p), nil
}

// TestEngineFails: what the engine refuses ends the race, and no cell stays.
func TestEngineFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	_, err := w.race(api.RaceRequest{Command: []string{"true"}, N: 5, RunOptions: api.RunOptions{Root: "relative"}})
	if err == nil {
		w.Error("a bad root was accepted")
	}
	_, err = w.race(api.RaceRequest{Command: []string{"true"}, N: 5, RunOptions: api.RunOptions{Workdir: "none"}})
	w.refused(err, api.Usage, "working directory")
	w.wantCells("demo")
	w.sound()
}

// TestRefused: a request that cannot be carried out forks nothing.
func TestRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	one := []string{"true"}
	cases := []struct {
		req  api.RaceRequest
		part string
	}{
		{api.RaceRequest{N: 2}, "needs a command"},
		{api.RaceRequest{Command: one}, "1 to 100 attempts"},
		{api.RaceRequest{Command: one, N: -1}, "1 to 100 attempts"},
		{api.RaceRequest{Command: one, N: 101}, "1 to 100 attempts"},
		{api.RaceRequest{Attempts: slices.Repeat([]api.RaceCommand{{Command: one}}, 101)}, "1 to 100 attempts"},
		{api.RaceRequest{Attempts: []api.RaceCommand{{Command: one}, {}}}, "attempt 2 has no command"},
		{api.RaceRequest{Attempts: []api.RaceCommand{{Command: one}}, Command: one}, "exclude each other"},
		{api.RaceRequest{Attempts: []api.RaceCommand{{Command: one}}, N: 1}, "exclude each other"},
		{api.RaceRequest{Command: one, N: 1, Best: "luck"}, "--best"},
		{api.RaceRequest{Command: one, N: 1, Best: "score"}, "--best score needs --judge"},
		{api.RaceRequest{Command: one, N: 1, Jobs: -1}, "--jobs"},
		{api.RaceRequest{Command: one, N: 1, Jobs: 101}, "--jobs"},
		{api.RaceRequest{Command: one, N: 1, Apply: true}, "--apply needs --accept"},
	}
	for _, c := range cases {
		_, err := w.race(c.req)
		w.refused(err, api.Usage, c.part)
	}
	_, err := race.Run(w.ctx, w.e, api.RaceRequest{Cell: "none", Command: one, N: 1}, nil)
	w.refused(err, api.NotFound, "no such cell")
	if len(w.seen) > 0 {
		w.Errorf("something happened: %+v", w.seen)
	}
	w.wantCells("demo")
}

// TestJudgeIsOffline: the attempts have what the policy allows, the judges have no
// network and no credentials. This process, which may have credentials, then starts
// further cells without becoming readable for others.
func TestJudgeIsOffline(t *testing.T) { // alone: others start cells, too
	w := newWorld(t, "")
	policy := &api.PolicyFile{Name: "p", Text: []byte(`version: 1
network_policies:
  site:
    endpoints:
      - host: site.example
        port: 80
        protocol: rest
        enforcement: enforce
        access: full
    binaries:
      - path: "/**"
`)}
	res, err := w.race(api.RaceRequest{
		Command: sh("getent hosts site.example > hello.txt"), N: 3, Jobs: 1, Judge: sh("! getent hosts site.example"),
		RunOptions: api.RunOptions{Policy: policy, Network: api.NetworkRequest{Resolve: []string{"site.example=127.0.0.1"}}},
	})
	w.ok(err)
	w.wantWinner(res, 1, "demo-race-1")
	for _, a := range res.Attempts {
		if a.Outcome != "succeeded" || *a.JudgeExitCode != 0 {
			w.Errorf("attempt %d is %+v", a.Attempt, a)
		}
	}
	if dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || dumpable == 1 {
		w.Errorf("the memory of this process can be dumped: %d, %v", dumpable, err)
	}
}

// TestManyAtOnce races 24 attempts, 8 at a time, while other races run on the same
// cell.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	done := make(chan error, 3)
	for range cap(done) {
		go func() {
			res, err := race.Run(w.ctx, w.e, api.RaceRequest{
				Cell: "demo", Command: sh("echo $FORKCELL_ATTEMPT > hello.txt"), N: 8, Jobs: 4, Judge: sh("cat hello.txt"), Best: "score",
			}, nil)
			if err == nil && (res.Winner == nil || *res.Winner != 8) {
				err = fmt.Errorf("the result is %+v", res)
			}
			done <- err
		}()
	}
	for range cap(done) {
		w.ok(<-done)
	}
	list, err := w.e.List(w.ctx)
	w.ok(err)
	if len(list) != 4 {
		w.Errorf("there are %d cells", len(list))
	}
	w.sound()
}

// TestTimeout ends an attempt that takes too long. It cannot win.
func TestTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	res, err := w.race(api.RaceRequest{
		Attempts:   []api.RaceCommand{{Command: []string{"sleep", "600"}}, {Command: []string{"true"}}},
		RunOptions: api.RunOptions{Timeout: 5 * time.Second},
	})
	w.ok(err)
	if res.Attempts[0].Outcome != "timed_out" {
		w.Errorf("the first attempt is %+v", res.Attempts[0])
	}
	w.wantWinner(res, 2, "demo-race-2")
}
