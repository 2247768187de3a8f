package race_test

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/engine/race"
	"github.com/forkcell/forkcell/internal/front/local"
	"github.com/forkcell/forkcell/internal/front/warm"
)

// template makes the cell demo a warm template, which ends with the test.
func (w *world) template() {
	w.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		w.Skip("needs python3")
	}
	req, err := warm.Python(api.WarmPython{Modules: []string{"os"}}, "", nil)
	w.ok(err)
	_, err = w.e.Start(w.ctx, api.StartRequest{Cell: "demo", Warm: req})
	w.ok(err)
	w.Cleanup(func() {
		e, release, err := local.Open(w.home, local.Write, caller.Caller{Actor: func() string { return "tester" }})
		w.ok(err)
		w.ok(errors.Join(e.Remove(context.Background(), "demo", true), release()))
	})
}

// write returns code that writes a number to a file.
func write(n string) api.Text { return api.Text("open('hello.txt', 'w').write(" + n + ")") }

// TestWarm races code in branches of a template, and has the results judged.
func TestWarm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.template()
	res, err := w.race(api.RaceRequest{
		Warm: true, Judge: sh("cat hello.txt"), Best: "score",
		Attempts: []api.RaceCommand{{Code: write("'1'")}, {Code: write("os.environ['FORKCELL_ATTEMPT'] + '0'")}, {Code: "raise SystemError"}, {Command: []string{"no-such-program"}}},
	})
	w.ok(err)
	w.wantWinner(res, 2, "demo-race-2")
	var outcomes []string
	for _, a := range res.Attempts {
		outcomes = append(outcomes, a.Outcome)
	}
	if !slices.Equal(outcomes, []string{"succeeded", "succeeded", "failed", "failed"}) || res.Attempts[3].ExitCode != 127 || *res.Attempts[1].Score != 20 {
		t.Errorf("%+v", res.Attempts)
	}
	w.wantCells("demo", "demo-race-2")
	if got := w.read("demo-race-2", "hello.txt"); got != "20" {
		t.Errorf("the winner has %q", got)
	}
	_, err = w.race(api.RaceRequest{Warm: true, Code: "1", N: 1, Accept: true})
	w.refused(err, api.Busy, "demo")
}

// TestWarmProcessEnds: code that ends its process has failed, and the race goes on.
func TestWarmProcessEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.template()
	res, err := w.race(api.RaceRequest{
		Warm: true, Jobs: 1,
		Attempts: []api.RaceCommand{{Code: "os._exit(3)"}, {Code: "os._exit(0)"}, {Code: "os.kill(os.getpid(), 9)"}, {Code: write("'1'")}},
	})
	w.ok(err)
	w.wantWinner(res, 4, "demo-race-4")
	for _, a := range res.Attempts[:3] {
		if a.Outcome != "failed" || a.ExitCode != 1 || a.ReceiptID == "" {
			t.Errorf("%+v", a)
		}
	}
	w.wantCells("demo", "demo-race-4")
}

// TestWarmInterrupted ends a race while its attempts run. Each that had begun has a
// receipt, and no branch is left.
func TestWarmInterrupted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.template()
	ctx, stop := context.WithCancelCause(w.ctx)
	why, started := errors.New("enough"), 0
	req := api.RaceRequest{Cell: "demo", Warm: true, Command: sh("sleep 1000"), N: 3, Jobs: 2}
	res, err := race.Run(ctx, w.e, req, func(e api.RaceEvent) {
		if e.Kind == api.RaceStarted {
			if started++; started == 2 {
				stop(why)
			}
		}
	})
	if !errors.Is(err, why) {
		t.Fatal(err)
	}
	for _, a := range res.Attempts {
		if a.Outcome != "interrupted" || (a.ReceiptID == "") != (a.Attempt == 3) {
			t.Errorf("%+v", a)
		}
	}
	w.wantCells("demo")
	if _, err := w.race(api.RaceRequest{Warm: true, Code: "1", N: 1}); err != nil {
		t.Errorf("the template cannot be used afterwards: %v", err)
	}
}
