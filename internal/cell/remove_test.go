package cell_test

import (
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestRemoveKeepsWork: a cell with work that nothing else has is removed with force only,
// and the refusal says what it has and what to do with it.
func TestRemoveKeepsWork(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		accepted := func(name string) {
			_, err := w.e.Accept(w.ctx, api.AcceptRequest{Cell: name})
			w.ok(err)
		}
		fork := func(name, to string) {
			_, err := w.e.Fork(w.ctx, api.ForkRequest{Cell: name, Name: to})
			w.ok(err)
		}
		keeps := func(name, what string) {
			w.Helper()
			err := w.e.Remove(w.ctx, name, false)
			w.refused(err, api.Refused, "cell "+name+" has "+what)
			if code := api.CodeOf(err); code != api.CodeHasWork {
				w.Errorf("%s: code %s", name, code)
			}
			w.refused(w.e.RemoveEnded(w.ctx, []string{name}, false), api.Refused, "cell "+name+" has "+what)
		}

		w.init("demo", backend)
		w.sh("demo", "true")
		w.sh("demo", "echo 1 > one.txt")
		keeps("demo", "1 undecided run")
		fork("demo", "copy")
		w.ok(w.e.Remove(w.ctx, "copy", false)) // the cell that it was forked from has the work
		fork("demo", "more")
		w.sh("more", "echo 2 > two.txt")
		keeps("more", "1 undecided run")
		w.sh("demo", "echo 2 > two.txt")
		keeps("demo", "2 undecided runs")

		accepted("demo")
		if backend == "delta" { // the cell works in its source
			w.sh("demo", "echo 3 > three.txt")
			keeps("demo", "1 undecided run")
		} else {
			keeps("demo", "accepted work that its source does not have (2 changes)")
			w.sh("demo", "echo 3 > three.txt")
			keeps("demo", "1 undecided run and accepted work that its source does not have (2 changes)")
		}
		w.ok(w.e.Remove(w.ctx, "more", true))
		fork("demo", "also")
		w.refused(w.e.RemoveAll(w.ctx, []string{"also", "demo"}, false), api.Refused, "cell demo has")
		w.wantPresent("all or none", "also", "demo")

		accepted("demo")
		fork("demo", "late")
		w.ok(w.e.Remove(w.ctx, "late", false))
		_, err := w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
		w.ok(err)
		w.ok(w.e.Remove(w.ctx, "demo", false))

		// A fork is the last to have the work when its origin is gone or has left it.
		w.init("origin", backend)
		w.sh("origin", "echo 1 > again.txt")
		fork("origin", "heir")
		_, err = w.e.Restore(w.ctx, api.RestoreRequest{Cell: "origin"})
		w.ok(err)
		keeps("heir", "1 undecided run")
		w.ok(w.e.Remove(w.ctx, "origin", false))
		keeps("heir", "1 undecided run")
		w.ok(w.e.Remove(w.ctx, "heir", true))
	})
}
