//go:build failpoints

package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
)

func named(name string) scenario {
	list := append(scenarios(), halfWritten())
	return list[slices.IndexFunc(list, func(s scenario) bool { return s.name == name })]
}

// TestKilledThenEdited: a person's changes in a live directory between a kill
// and the next command block nothing and are not lost.
func TestKilledThenEdited(t *testing.T) {
	t.Parallel()
	for name, points := range map[string][]string{
		"restored": append([]string{"run.executed", "seal.renamed", "run.sealed"}, switchPoints...),
		"return":   switchPoints,
	} {
		s := named(name)
		for _, point := range points {
			t.Run(name+"/"+point, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.killedAt(s, "delta", point)
				w.write("hello.txt", "edited\n")
				var stop context.CancelFunc
				w.ctx, stop = context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				if point == "apply.displaced" {
					// The name was being exchanged: that is reported once.
					err := w.settle("demo")
					w.refused(err, api.Failed, "was changed by another program")
				}
				_, held := w.sh("demo", "cat hello.txt")
				if name == "restored" && held != "first\n" {
					t.Errorf("the run was restored, and the directory has %q", held)
				}
				w.wantReceipts(s, 3)
				_, err := w.e.GC(w.ctx, api.GCRequest{OlderThan: engine.DefaultOlderThan})
				w.ok(err)
				w.sound("demo")
				w.wantRecovered("demo")
				w.wantSomewhere("hello.txt", "edited\n")
			})
		}
	}
}

// wantSomewhere looks for a text in every state of the cell.
func (w *world) wantSomewhere(path, want string) {
	w.Helper()
	nodes, err := w.e.Graph(w.ctx)
	w.ok(err)
	var seen []string
	for _, n := range nodes {
		if n.Freed {
			continue
		}
		_, err := w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo", Checkpoint: n.CheckpointID})
		w.ok(err)
		seen = append(seen, w.read(path))
	}
	if !slices.Contains(seen, want) {
		w.Errorf("no state has %q: %q", want, seen)
	}
}

// TestRewritingFails: if rewriting a live directory fails once, the record of
// the run stays the same.
func TestRewritingFails(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"apply.staging", "apply.op", "apply.displaced", "apply.commit", "apply.committed", "apply.finished"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.init("demo", "delta")
			w.sh("demo", "echo first > hello.txt")
			_, out, err := w.crashAt("restored", point+"=enospc")
			if err == nil || !strings.Contains(out, "no space left") {
				t.Fatalf("the victim said: %v\n%s", err, out)
			}
			w.open()
			err = w.settle("demo")
			w.ok(err)
			list, err := w.e.ReceiptList(w.ctx, "demo")
			w.ok(err)
			if len(list) != 2 || list[1].Outcome != "failed" || list[1].Decision != "restored" {
				t.Errorf("the receipts are %+v", list)
			}
			if got := w.read("hello.txt"); got != "first\n" {
				t.Errorf("the directory has %q", got)
			}
			w.noLeftovers()
			w.sound("demo")
		})
	}
}

// interrupted is a context that ends as soon as a file has another text.
type interrupted struct {
	context.Context
	path, was string
}

func (i interrupted) Err() error {
	if now, err := os.ReadFile(i.path); err == nil && string(now) == i.was {
		return nil
	}
	return context.Canceled
}

// halfWritten is an apply that is cancelled between two of its files.
func halfWritten() scenario {
	return scenario{
		name:   "half written",
		before: func(w *world) { w.sh("demo", "echo first > hello.txt; echo first > docs/a.md", acceptOnSuccess) },
		do: func(ctx context.Context, e *engine.Engine, source string) error {
			ctx = interrupted{ctx, filepath.Join(source, "docs/a.md"), "a\n"}
			_, err := e.Apply(ctx, api.ApplyRequest{Cell: "demo"})
			return err
		},
	}
}

// TestRollBackFails: an apply that can neither continue nor be rolled back says
// so, and the next command rolls it back.
func TestRollBackFails(t *testing.T) {
	t.Parallel()
	for _, backend := range plainBackends {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.init("demo", backend)
			named("half written").before(w)
			_, out, err := w.crashAt("half written", "apply.undo=eio")
			if err == nil || !strings.Contains(out, "half written") || strings.Contains(out, "as it was") {
				t.Fatalf("the victim said: %v\n%s", err, out)
			}
			if got := w.read("docs/a.md") + w.read("hello.txt"); got != "first\nhello\n" {
				t.Fatalf("the source holds %q", got)
			}
			w.open()
			_, err = w.e.GC(w.ctx, api.GCRequest{})
			w.ok(err)
			err = w.settle("demo")
			w.ok(err)
			if got := w.read("docs/a.md") + w.read("hello.txt"); got != "a\nhello\n" {
				t.Errorf("the source holds %q", got)
			}
			w.noLeftovers()
			w.wantApplied("first\nfirst\n")
		})
	}
}

// TestEndOfApplyFails: written files stay written, and the next command does
// the rest.
func TestEndOfApplyFails(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"apply.committed", "apply.keep", "apply.clear", "apply.finished"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.init("demo", "clone")
			w.sh("demo", "echo first > hello.txt")
			_, out, err := w.crashAt("accept", point+"=eio")
			if err == nil || !strings.Contains(out, "the files are written") {
				t.Fatalf("the victim said: %v\n%s", err, out)
			}
			w.open()
			err = w.settle("demo")
			w.ok(err)
			if got := w.read("hello.txt"); got != "first\n" {
				t.Errorf("the source holds %q", got)
			}
			w.noLeftovers()
			_, err = w.e.Undo(w.ctx, api.UndoRequest{Cell: "demo"})
			w.ok(err)
			w.wantApplied("first\na\n")
		})
	}
}

func (w *world) wantApplied(want string) {
	w.Helper()
	_, err := w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
	w.ok(err)
	if got := w.read("hello.txt") + w.read("docs/a.md"); got != want {
		w.Errorf("applied, the source holds %q", got)
	}
	w.sound("demo")
}

// TestKilledWithoutItsDirectory: an operation that was interrupted in a
// directory that is missing now is finished when the directory is back.
func TestKilledWithoutItsDirectory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ scenario, backend, point string }{
		{"accept", "overlay", "apply.staged"},
		{"accept", "clone", "apply.displaced"},
		{"accept", "clone", "apply.committed"},
		{"return", "delta", "apply.displaced"},
		{"return", "delta", "apply.committed"},
	} {
		for _, place := range []string{"nothing", "another directory"} {
			t.Run(c.scenario+"/"+c.point+"/"+place, func(t *testing.T) {
				t.Parallel()
				w, s := newWorld(t), named(c.scenario)
				w.killedAt(s, c.backend, c.point)
				away := w.source + ".away"
				w.ok(os.Rename(w.source, away))
				if place != "nothing" {
					w.ok(os.Mkdir(w.source, 0o755))
				}
				err := w.settle("demo")
				w.refused(err, api.Refused, "waits for "+w.source)
				_, err = w.e.Run(w.ctx, api.RunRequest{Cell: "demo", Args: []string{"true"}}, engine.Stdio{})
				w.refused(err, api.Refused, "waits for "+w.source)
				w.refused(w.e.Remove(w.ctx, "demo", false), api.Refused, "")
				_, err = w.e.GC(w.ctx, api.GCRequest{})
				w.ok(err)
				w.ok(os.RemoveAll(w.source))
				w.ok(os.Rename(away, w.source))
				w.wantSettled(s, c.backend, c.point)
			})
		}
	}
}

// TestRemoveWithoutItsDirectory: a cell whose directory never comes back can be
// removed by force, whether its apply had begun or not.
func TestRemoveWithoutItsDirectory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ scenario, backend, point string }{
		{"accept", "clone", "apply.intent"},
		{"accept", "clone", "apply.displaced"},
		{"return", "delta", "apply.displaced"},
		{"run", "delta", "run.executed"},
		{"run", "delta", "seal.renamed"},
		{"restored", "delta", "run.executed"},
		{"restored", "delta", "run.sealed"},
		{"restored", "delta", "apply.displaced"},
	} {
		t.Run(c.scenario+"/"+c.point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.killedAt(named(c.scenario), c.backend, c.point)
			w.ok(os.RemoveAll(w.source))
			w.ok(w.e.Remove(w.ctx, "demo", true))
			_, err := w.e.GC(w.ctx, api.GCRequest{})
			w.ok(err)
			if res, err := w.e.ReceiptVerify(w.ctx, "", "", true, ""); err != nil {
				t.Errorf("receipts: %v %+v", err, res)
			}
		})
	}
}
