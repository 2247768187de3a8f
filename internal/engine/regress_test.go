package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/front/local"
)

// TestFailedForkLeavesTheLogUsable: a transaction of several statements that is
// rolled back must not block the next one.
func TestFailedForkLeavesTheLogUsable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	_, err := w.e.Fork(w.ctx, api.ForkRequest{Cell: "demo", Name: "t-3"})
	w.ok(err)
	who, revision := tester(), w.info("demo").Revision
	who.Expect = &revision // names are looked at only in the transaction then
	_, err = w.e.As(who).Fork(w.ctx, api.ForkRequest{Cell: "demo", Name: "t", N: 3})
	w.refused(err, api.Refused, "in use")
	w.sh("demo", "echo more > hello.txt")
	w.sound("demo", "t-3")
	w.loseDatabase()
	w.ok(w.recover())
	w.open()
	if names := fmt.Sprint(w.e.KnownNames(w.ctx, "").Cells); names != "[demo t-3]" {
		t.Fatalf("cells are %s", names)
	}
}

// TestGCWhileACommandRuns: gc must not touch what an unfinished run needs.
func TestGCWhileACommandRuns(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		w.init("demo", backend)
		started, finished := make(chan struct{}), make(chan error)
		in, feed := pipe()
		go func() {
			_, err := w.e.Run(w.ctx, api.RunRequest{Cell: "demo", Args: []string{"sh", "-c", "echo go; read x; echo $x > hello.txt"}},
				engine.Stdio{In: in, Out: &trigger{on: started}})
			finished <- err
		}()
		w.started(started, finished)
		other, release, err := local.Open(w.home, local.Write, tester())
		w.ok(err)
		defer release()
		_, err = other.GC(w.ctx, api.GCRequest{})
		w.ok(err)
		fmt.Fprintln(feed, "done")
		w.ok(feed.Close())
		w.ok(<-finished)
		w.wantInside("demo", "hello.txt", "done\n")
		w.sound("demo")
	})
}

// TestRecoverKnowsTheAppliedState: the states that only an apply or a refresh
// made are in the log too.
func TestRecoverKnowsTheAppliedState(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"overlay", "clone"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.init("demo", backend)
			w.sh("demo", "echo cell > hello.txt; echo cell > docs/a.md", acceptOnSuccess)
			_, err := w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo", Only: []string{"docs/"}})
			w.ok(err)
			w.write("docs/b.md", "source\n")
			_, err = w.e.Refresh(w.ctx, api.RefreshRequest{Cell: "demo"})
			w.ok(err)
			w.loseDatabase()
			w.ok(w.recover())
			w.open()
			_, err = w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
			w.ok(err)
			if got := w.read("hello.txt") + w.read("docs/a.md") + w.read("docs/b.md"); got != "cell\ncell\nsource\n" {
				t.Fatalf("the source holds %q", got)
			}
			w.sound("demo")
		})
	}
}

// TestHalfMadeHome: if a process died while it made the home, the home can
// still be used.
func TestHalfMadeHome(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	for _, d := range []string{"locks", "blobs", "layers"} {
		if err := os.MkdirAll(filepath.Join(home, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(home, 0o700); err != nil {
		t.Fatal(err)
	}
	_, release, err := local.Open(home, local.Create, tester())
	if err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
}

// TestRemovedForkLeavesNothing: gc removes the directory of a removed cell.
func TestRemovedForkLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "delta")
	_, err := w.e.Fork(w.ctx, api.ForkRequest{Cell: "demo", Name: "side"})
	w.ok(err)
	w.ok(w.e.Remove(w.ctx, "side", false))
	_, err = w.e.GC(w.ctx, api.GCRequest{})
	w.ok(err)
	left, err := os.ReadDir(filepath.Join(w.home, "live"))
	w.ok(err)
	if len(left) > 0 {
		t.Fatalf("live holds %v", left)
	}
	w.sound("demo")
}
