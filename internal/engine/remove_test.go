package engine_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
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
			w.refused(w.e.RemoveCells(w.ctx, api.RemoveRequest{Cells: []string{name}, Stop: true}), api.Refused, "cell "+name+" has "+what)
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

// TestUndelete: a removed cell is kept for a while, whatever removed it, and comes back as it
// was, also from a database that was rebuilt.
func TestUndelete(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		gc := func(req api.GCRequest) *api.GCResult {
			res, err := w.e.GC(w.ctx, req)
			w.ok(err)
			return res
		}
		usual := api.GCRequest{OlderThan: engine.DefaultOlderThan}
		w.init("demo", backend)
		w.sh("demo", "echo 1 > one.txt", acceptOnSuccess)
		w.sh("demo", "echo 2 > two.txt")
		before, err := w.e.Status(w.ctx, "demo")
		w.ok(err)
		back := func() {
			w.Helper()
			_, err := w.e.Undelete(w.ctx, "demo")
			w.ok(err)
			after, err := w.e.Status(w.ctx, "demo")
			w.ok(err)
			after.Revision, after.OwnBytes, after.CreatedAt = before.Revision, before.OwnBytes, before.CreatedAt
			if !reflect.DeepEqual(before, after) {
				w.Errorf("the cell is another one:\n%+v\n%+v", before, after)
			}
			w.wantInside("demo", "two.txt", "2\n")
			w.sound("demo")
			before, err = w.e.Status(w.ctx, "demo")
			w.ok(err)
		}

		_, err = w.e.Undelete(w.ctx, "demo")
		w.refused(err, api.NotFound, "no such removed cell: demo")
		w.ok(w.e.Remove(w.ctx, "demo", true))
		w.wantPresent("after the removal")
		removed, err := w.e.ListMatching(w.ctx, api.CellFilter{State: api.StateRemoved})
		w.ok(err)
		if len(removed) != 1 || removed[0].Name != "demo" || removed[0].Head != before.Head {
			w.Errorf("removed cells: %+v", removed)
		}
		if freed := gc(usual).Checkpoints; len(freed) > 0 {
			w.Errorf("gc has freed %v", freed)
		}
		if own, err := w.e.OwnBytes(w.ctx); err != nil || own < before.OwnBytes {
			w.Errorf("what is kept does not count: %d, %v", own, err)
		}
		back()

		w.ok(w.e.Remove(w.ctx, "demo", true))
		w.loseDatabase()
		w.ok(w.recover())
		w.open()
		if freed := gc(usual).Checkpoints; len(freed) > 0 {
			w.Errorf("gc of a rebuilt database has freed %v", freed)
		}
		w.init("other", backend)
		w.ok(w.e.Rename(w.ctx, "other", "demo"))
		_, err = w.e.Undelete(w.ctx, "demo")
		w.refused(err, api.Refused, "there is another cell demo")
		w.ok(w.e.Rename(w.ctx, "demo", "other"))
		back()

		for what, remove := range map[string]func() api.GCRequest{
			"gc of all removed cells": func() api.GCRequest { return api.GCRequest{OlderThan: engine.DefaultOlderThan, Removed: true} },
			"gc of old work":          func() api.GCRequest { return api.GCRequest{OlderThan: time.Nanosecond} },
		} {
			w.init("gone", backend)
			w.ok(w.e.Remove(w.ctx, "gone", false))
			if freed := gc(remove()).Checkpoints; len(freed) == 0 {
				w.Errorf("%s has freed nothing", what)
			}
			_, err = w.e.Undelete(w.ctx, "gone")
			w.refused(err, api.NotFound, "no such removed cell: gone")
		}
		w.init("gone", backend)
		w.ok(w.e.RemoveCells(w.ctx, api.RemoveRequest{Cells: []string{"gone"}, Now: true}))
		_, err = w.e.Undelete(w.ctx, "gone")
		w.refused(err, api.NotFound, "no such removed cell: gone")
		if freed := gc(usual).Checkpoints; len(freed) == 0 {
			w.Errorf("gc keeps what rm --now removed")
		}
	})
}
