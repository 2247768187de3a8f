package cell_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/app"
	"github.com/forkcell/forkcell/internal/cell"
)

// TestStatusIsUpToDate: an engine that keeps what it has computed shows each cell as
// one does that has just been opened, whatever was done to the cell or to another
// one that it shares states with.
func TestStatusIsUpToDate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "")
	cells := []string{"demo"}
	run := func(name, script string) func() error {
		return func() error {
			_, err := w.e.Run(w.ctx, api.RunRequest{Cell: name, Args: []string{"sh", "-c", script}}, cell.Stdio{})
			return err
		}
	}
	steps := []struct {
		name string
		do   func() error
	}{
		{"a run without changes", run("demo", "true")},
		{"a run with changes", run("demo", "echo 1 > new")},
		{"a fork", func() error {
			cells = append(cells, "fork")
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
	}
	for _, s := range steps {
		w.ok(s.do())
		for _, name := range cells {
			kept, err := w.e.Status(w.ctx, name)
			w.ok(err)
			fresh, release, err := app.Open(w.home, app.Read, tester())
			w.ok(err)
			want, err := fresh.Status(w.ctx, name)
			w.ok(err)
			w.ok(release())
			if diff := cmp.Diff(want, kept); diff != "" {
				t.Errorf("%s, after %s: %s", name, s.name, diff)
			}
		}
	}
}
