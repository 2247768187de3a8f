package engine_test

import (
	"slices"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestAcceptWhatWasShown: a request that names what was shown accepts nothing else.
func TestAcceptWhatWasShown(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		first := w.init("demo", backend)
		evil, _ := w.sh("demo", "echo evil > evil; echo evil > hello.txt")
		good, _ := w.sh("demo", "echo good > good")
		for what, req := range map[string]api.AcceptRequest{
			"one of two":      {Runs: []string{good.RunID}},
			"a run by name":   {Run: good.RunID},
			"a foreign state": {Runs: []string{evil.RunID, good.RunID, "chk_0"}},
		} {
			req.Cell = "demo"
			if _, err := w.e.Accept(w.ctx, req); err == nil || api.CodeOf(err) != api.CodeNotShown && api.KindOf(err) != api.NotFound {
				t.Errorf("%s: %v", what, err)
			}
		}
		status, err := w.e.Status(w.ctx, "demo")
		w.ok(err)
		if !slices.Equal(status.PendingRuns, []string{evil.RunID, good.RunID}) {
			t.Fatalf("a refused acceptance decided: %v", status.PendingRuns)
		}

		res, err := w.e.Accept(w.ctx, api.AcceptRequest{Cell: "demo", Runs: []string{good.RunID}, LeaveOut: []string{evil.RunID}})
		w.ok(err)
		if res.Decision != "accepted" || res.RunID != good.RunID || !slices.Equal(res.Also, []string{evil.RunID + " restored"}) {
			t.Errorf("got %+v", res)
		}
		w.wantInside("demo", "good", "good\n")
		w.wantInside("demo", "evil", "absent\n")
		w.wantInside("demo", "hello.txt", "hello\n")
		w.wantRecovered("demo")
		w.sound("demo")

		// What is left out can be brought back, and both be accepted by name.
		_, err = w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo", Checkpoint: first.CheckpointID})
		w.ok(err)
		one, _ := w.sh("demo", "echo 1 > one")
		two, _ := w.sh("demo", "echo 2 > two")
		res, err = w.e.Accept(w.ctx, api.AcceptRequest{Cell: "demo", Runs: []string{two.RunID, one.RunID}})
		w.ok(err)
		if !slices.Equal(res.Also, []string{one.RunID + " accepted"}) {
			t.Errorf("got %+v", res)
		}
		w.sound("demo")
	})
}

// TestLeftOutWhole: a path that work on both sides changed stays whole, as does a
// repository, and the answer names it.
func TestLeftOutWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	one, _ := w.sh("demo", "mkdir -p a/b .git; echo 1 > a/b/one; echo 1 > both; echo 1 > .git/one; echo 1 > lone; mkdir -p bare/objects bare/refs; echo 1 > bare/refs/one")
	two, _ := w.sh("demo", "echo 2 > a/b/two; echo 2 >> both; echo 2 > .git/two; echo 2 > bare/refs/two")
	three, _ := w.sh("demo", "rm lone; echo 3 > three")
	res, err := w.e.Accept(w.ctx, api.AcceptRequest{Cell: "demo", Runs: []string{two.RunID, three.RunID}, LeaveOut: []string{one.RunID}})
	w.ok(err)
	var whole []string
	for _, n := range res.Whole {
		whole = append(whole, n.Path)
	}
	if !slices.Equal(whole, []string{".git", "bare", "both", "lone"}) {
		t.Errorf("whole: %v", whole)
	}
	for name, want := range map[string]string{
		"a/b/one": "absent\n", "a/b/two": "2\n", "both": "1\n2\n", ".git/one": "1\n", "bare/refs/one": "1\n", ".git/two": "2\n", "lone": "absent\n", "three": "3\n",
	} {
		w.wantInside("demo", name, want)
	}
	w.wantRecovered("demo")
	w.sound("demo")
}

// TestPartOfSeveral: a selection is one of all that was shown, whichever run changed it.
func TestPartOfSeveral(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	one, _ := w.sh("demo", "echo 1 > a; echo 1 > b")
	two, _ := w.sh("demo", "echo 2 >> a; echo 2 > c")
	res, err := w.e.Accept(w.ctx, api.AcceptRequest{Cell: "demo", Runs: []string{one.RunID, two.RunID}, ExceptPaths: []string{"b"}})
	w.ok(err)
	if res.Decision != "partial" || !slices.Equal(res.Also, []string{one.RunID + " partial"}) {
		t.Errorf("got %+v", res)
	}
	for name, want := range map[string]string{"a": "1\n2\n", "b": "absent\n", "c": "2\n"} {
		w.wantInside("demo", name, want)
	}
	w.wantRecovered("demo")
	w.sound("demo")
}
