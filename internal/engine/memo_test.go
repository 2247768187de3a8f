package engine_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/front/local"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// TestStatusIsUpToDate: an engine that keeps what it has computed and read shows each
// cell as one does that has just been opened, whatever was done to the cell or to
// another one that it shares states with, by itself or by another process.
func TestStatusIsUpToDate(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"itself", "another"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.init("demo", "")
			w.e.KeepRecords()()
			kept := w.e
			if by == "another" {
				w.open()
			}
			for _, s := range w.historySteps() {
				w.ok(s.do())
				w.upToDate(s.name, kept)
			}
		})
	}
}

type historyStep struct {
	name string
	do   func() error
}

// historySteps returns things that change the cell demo or its fork.
func (w *world) historySteps() []historyStep {
	run := func(name, script string) func() error {
		return func() error {
			_, err := w.e.Run(w.ctx, api.RunRequest{Cell: name, Args: []string{"sh", "-c", script}}, engine.Stdio{})
			return err
		}
	}
	return []historyStep{
		{"a run without changes", run("demo", "true")},
		{"a run with changes", run("demo", "echo 1 > new")},
		{"a fork", func() error {
			_, err := w.e.Fork(w.ctx, api.ForkRequest{Cell: "demo", Name: "fork"})
			return err
		}},
		{"a run in the fork", run("fork", "echo 2 > new")},
		{"accepted in the first cell, and so in the fork", func() error {
			_, err := w.e.Accept(w.ctx, api.AcceptRequest{Cell: "demo"})
			return err
		}},
		{"restored", func() error {
			_, err := w.e.Restore(w.ctx, api.RestoreRequest{Cell: "fork"})
			return err
		}},
		{"removed bytes", func() error {
			_, err := w.e.GC(w.ctx, api.GCRequest{OlderThan: time.Nanosecond})
			return err
		}},
		{"named", func() error {
			_, err := w.e.Checkpoint(w.ctx, "demo", "good")
			return err
		}},
		{"labelled", func() error {
			value := "b"
			_, err := w.e.Update(w.ctx, api.UpdateRequest{Cell: "demo", Labels: map[string]*string{"a": &value}})
			return err
		}},
		{"renamed", func() error {
			_, err := w.e.Update(w.ctx, api.UpdateRequest{Cell: "demo", Name: "other"})
			return err
		}},
		{"removed", func() error { return w.e.Remove(w.ctx, "other", true) }},
	}
}

// upToDate compares what an engine shows with what a new one does.
func (w *world) upToDate(after string, kept *engine.Engine) {
	w.Helper()
	fresh, release, err := local.Open(w.home, local.Read, tester())
	w.ok(err)
	defer func() { w.ok(release()) }()
	want, err := fresh.List(w.ctx)
	w.ok(err)
	got, err := kept.List(w.ctx)
	w.ok(err)
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("list after %s: %s", after, diff)
	}
	for _, name := range []string{"demo", "fork", "other"} {
		want, wantErr := fresh.Status(w.ctx, name)
		got, err := kept.Status(w.ctx, name)
		if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (wantErr == nil) {
			w.Errorf("%s, after %s: %v, want %v: %s", name, after, err, wantErr, diff)
		}
	}
}

// TestKeptStateOfLock: that a process works on a cell, or has stopped, is no change of
// the database, and is seen all the same.
func TestKeptStateOfLock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	w.e.KeepRecords()()
	kept := w.e
	state := func() string {
		list, err := kept.List(w.ctx)
		w.ok(err)
		res, err := kept.Status(w.ctx, "demo")
		w.ok(err)
		if res.State != list[0].State {
			t.Errorf("status %s, list %s", res.State, list[0].State)
		}
		return res.State
	}
	if got := state(); got != api.StateIdle {
		t.Error(got)
	}
	id := func() string { s, err := kept.Status(w.ctx, "demo"); w.ok(err); return s.CellID }()
	s, err := store.Open(w.home, store.Write)
	w.ok(err)
	lock, err := s.LockCell(w.ctx, id, "demo", "test", 0)
	w.ok(err)
	if got := state(); got != api.StateRunning {
		t.Error(got)
	}
	w.ok(s.Note(func(tx *store.Tx) error { return tx.PutIntent("op", id, "test", struct{}{}) }))
	if got := state(); got != api.StateRunning {
		t.Error(got)
	}
	lock.Unlock()
	if got := state(); got != api.StateUnfinished {
		t.Error(got)
	}
	w.ok(s.Note(func(tx *store.Tx) error { return tx.DropIntent("op") }))
	if got := state(); got != api.StateIdle {
		t.Error(got)
	}
}
