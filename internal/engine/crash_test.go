//go:build failpoints

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/front/local"
)

// A scenario is one operation that is killed at a failpoint in a separate
// process. inCell and inHost are the only texts that hello.txt may have then,
// in the cell and in the source.
type scenario struct {
	name   string
	before func(w *world) // what is done first; nil is one run that is left pending
	do     func(ctx context.Context, e *engine.Engine, source string) error
	settle func(w *world) // what is done first after the kill, if anything special
	after  func(w *world) // what must still be possible, if anything special
	on     []string       // the backends that have anything to do; nil is all
	points []string
	inCell []string
	inHost []string
}

var runPoints = []string{
	"run.recorded", "run.prepared", "run.executed", "seal.hashed", "seal.packed", "seal.synced", "seal.renamed",
	"run.sealed", "log.written", "run.concluded",
}

var applyPoints = []string{
	"apply.intent", "apply.staging", "apply.stage", "apply.staged", "apply.journalled", "apply.op", "apply.displaced",
	"apply.applied", "apply.commit", "apply.committed", "apply.finished", "apply.executed", "log.written",
}

var switchPoints = []string{"apply.intent", "apply.staged", "apply.displaced", "apply.committed", "apply.finished", "log.written"}

// passedBy are the points that a scenario does not reach on a backend. It must
// reach all others of its table.
var passedBy = map[string][]string{
	// Its directory is the source: there is nothing to write, only to record.
	"accept/delta": {
		"apply.intent", "apply.staging", "apply.stage", "apply.staged", "apply.journalled", "apply.op", "apply.displaced",
		"apply.applied", "apply.commit", "apply.committed", "apply.finished", "apply.executed",
	},
}

func scenarios() []scenario {
	run := func(script string, change func(*api.RunRequest)) func(context.Context, *engine.Engine, string) error {
		return func(ctx context.Context, e *engine.Engine, _ string) error {
			req := api.RunRequest{Cell: "demo", Args: []string{"sh", "-c", script}}
			change(&req)
			_, err := e.Run(ctx, req, engine.Stdio{})
			return err
		}
	}
	return []scenario{
		{
			name: "run", points: runPoints, inCell: []string{"first\n", "second\n"}, inHost: []string{"hello\n"},
			do: run("echo second > hello.txt", func(*api.RunRequest) {}),
		},
		{
			// A run that died is interrupted, not succeeded: its flag restores
			// it.
			name: "restored", points: runPoints, inCell: []string{"first\n"}, inHost: []string{"hello\n"},
			do: run("echo second > hello.txt; exit 1", restoreOnFail),
		},
		{
			name: "restore", points: []string{"log.written"}, inCell: []string{"first\n", "hello\n"}, inHost: []string{"hello\n"},
			do: func(ctx context.Context, e *engine.Engine, _ string) error {
				_, err := e.Restore(ctx, api.RestoreRequest{Cell: "demo"})
				return err
			},
		},
		{
			// A removed cell is there as it was, or it is removed and can still be brought back.
			name: "undelete", points: []string{"log.written"}, inCell: []string{"first\n"}, inHost: []string{"hello\n", "first\n"},
			before: func(w *world) {
				w.sh("demo", "echo first > hello.txt")
				w.ok(w.e.Remove(w.ctx, "demo", true))
			},
			do: func(ctx context.Context, e *engine.Engine, _ string) error {
				_, err := e.Undelete(ctx, "demo")
				return err
			},
			settle: func(w *world) {
				if len(w.present()) == 0 {
					_, err := w.e.Undelete(w.ctx, "demo")
					w.ok(err)
				}
			},
		},
		{
			// Back to a state that only this operation needs.
			name: "return", on: []string{"delta"}, points: switchPoints, inCell: []string{"first\n", "older\n"},
			before: func(w *world) {
				w.sh("demo", "echo older > hello.txt")
				_, err := w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo"})
				w.ok(err)
				w.sh("demo", "echo first > hello.txt", acceptOnSuccess)
			},
			do: func(ctx context.Context, e *engine.Engine, _ string) error {
				log, err := e.Log(ctx, "demo")
				if err != nil {
					return err
				}
				older := log[slices.IndexFunc(log, func(l api.LogEntry) bool { return l.Kind == "run" })]
				_, err = e.Restore(ctx, api.RestoreRequest{Cell: "demo", Checkpoint: older.CheckpointID})
				return err
			},
		},
		{
			// What was applied is a separate state, which nothing else needs.
			name: "selected", on: plainBackends,
			points: []string{"apply.staged", "apply.displaced", "apply.committed", "apply.executed", "log.written"},
			inCell: []string{"first\n"}, inHost: []string{"hello\n", "first\n"},
			before: func(w *world) { w.sh("demo", "echo first > hello.txt; echo first > docs/a.md", acceptOnSuccess) },
			do: func(ctx context.Context, e *engine.Engine, _ string) error {
				_, err := e.Apply(ctx, api.ApplyRequest{Cell: "demo", Only: []string{"hello.txt"}})
				return err
			},
			after: func(w *world) {
				_, err := w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
				w.ok(err)
				if got := w.read("hello.txt") + w.read("docs/a.md"); got != "first\nfirst\n" {
					w.Errorf("applied whole, the source holds %q", got)
				}
			},
		},
		{
			name: "accept", points: applyPoints, inCell: []string{"first\n"}, inHost: []string{"hello\n", "first\n"},
			do: func(ctx context.Context, e *engine.Engine, _ string) error {
				_, err := e.Accept(ctx, api.AcceptRequest{Cell: "demo", Apply: true})
				return err
			},
		},
		{
			name: "partial", points: []string{"seal.hashed", "seal.packed", "seal.synced", "seal.renamed", "log.written"},
			inCell: []string{"first\n"}, inHost: []string{"hello\n"},
			do: func(ctx context.Context, e *engine.Engine, _ string) error {
				_, err := e.Accept(ctx, api.AcceptRequest{Cell: "demo", Only: []string{"hello.txt"}})
				return err
			},
		},
		{
			name: "refresh", points: []string{"seal.hashed", "seal.packed", "seal.renamed", "log.written"},
			inCell: []string{"first\n"}, inHost: []string{"hello\n"},
			do: func(ctx context.Context, e *engine.Engine, source string) error {
				if err := os.WriteFile(filepath.Join(source, "more"), []byte("more\n"), 0o644); err != nil {
					return err
				}
				_, err := e.Refresh(ctx, api.RefreshRequest{Cell: "demo"})
				return err
			},
		},
		{
			name: "fork", points: []string{"log.written"}, inCell: []string{"first\n"}, inHost: []string{"hello\n"},
			do: func(ctx context.Context, e *engine.Engine, _ string) error {
				_, err := e.Fork(ctx, api.ForkRequest{Cell: "demo", Name: "other"})
				return err
			},
		},
		{
			name: "init", points: []string{"seal.hashed", "seal.packed", "seal.synced", "seal.renamed", "log.written"},
			inCell: []string{"first\n"}, inHost: []string{"hello\n"},
			do: func(ctx context.Context, e *engine.Engine, source string) error {
				_, err := e.Init(ctx, api.InitRequest{Name: "other", From: source})
				return err
			},
		},
		{
			// The shared caches have all of it or nothing, and it can be done again.
			name: "promote", on: []string{"overlay"}, inCell: []string{"first\n"}, inHost: []string{"hello\n"},
			points: []string{"seal.hashed", "seal.packed", "seal.synced", "seal.renamed", "promote.sealed", "log.written", "log.written@2", "log.written@4"},
			before: func(w *world) { w.sh("demo", "echo first > hello.txt\n"+fill("first"), cachedFile, acceptOnSuccess) },
			do: func(ctx context.Context, e *engine.Engine, _ string) error {
				_, err := e.Promote(ctx, api.PromoteRequest{Cell: "demo"})
				return err
			},
			after: func(w *world) {
				if n := len(w.caches()); n != 0 {
					w.Errorf("half a promotion left %d shared caches", n)
				}
				w.promote("demo")
				w.ok(os.WriteFile(filepath.Join(w.source, "go.sum"), listed(), 0o644))
				w.from("new", w.source)
				w.wantCache("promoted again", "new", sharedBySource)
				w.sound("demo", "new", "cache:home", "cache:"+w.source)
			},
		},
		{
			// The process that finishes the run knows what its caches were based on.
			name: "cached", on: []string{"overlay"}, inCell: []string{"first\n", "second\n"}, inHost: []string{"hello\n"},
			points: []string{"run.executed", "seal.hashed", "seal.renamed", "run.sealed"},
			before: func(w *world) {
				w.sh("demo", "echo first > hello.txt\n"+fill("first"), cachedFile, acceptOnSuccess)
				w.promote("demo")
				_, err := w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo", Checkpoint: "base"})
				w.ok(err)
				w.sh("demo", "echo first > hello.txt", acceptOnSuccess)
			},
			do: run("echo second > hello.txt; echo second > /cache/go/build/second", cachedFile),
			after: func(w *world) {
				list, err := w.e.ReceiptList(w.ctx, "demo")
				w.ok(err)
				at := slices.IndexFunc(list, func(r api.ReceiptInfo) bool { return r.Outcome == "interrupted" })
				if at < 0 {
					w.Fatalf("no run was interrupted: %+v", list)
				}
				if use := w.receiptCache(list[at].ReceiptID); use == nil || use.From != "cache:"+w.source {
					w.Errorf("the receipt of the interrupted run says %+v", use)
				}
			},
		},
		publishScenario(),
		{
			name: "gc", points: []string{"gc.marked"}, inCell: []string{"first\n"}, inHost: []string{"hello\n"},
			do: func(ctx context.Context, e *engine.Engine, _ string) error {
				_, err := e.GC(ctx, api.GCRequest{})
				return err
			},
		},
		{
			name: "rotate", points: []string{"log.written", "key.rotated"}, inCell: []string{"first\n"}, inHost: []string{"hello\n"},
			do: func(ctx context.Context, e *engine.Engine, _ string) error {
				_, err := e.KeyRotate(ctx)
				return err
			},
		},
	}
}

// victim is set in the process that is killed.
const victim = "FORKCELL_TEST_VICTIM"

// TestVictim is the code of the killed process; other tests start it.
func TestVictim(t *testing.T) {
	spec := os.Getenv(victim)
	if spec == "" {
		return
	}
	part := strings.SplitN(spec, "|", 3)
	e, release, err := local.Open(part[1], local.Write, tester())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range append(scenarios(), halfWritten()) {
		if s.name == part[0] {
			err = s.do(t.Context(), e, part[2])
		}
	}
	if err := errors.Join(err, release()); err != nil {
		t.Fatal(err)
	}
}

// TestKilledAtEveryFailpoint: after a kill at any point, the next process finds
// the state before or the state after the operation.
func TestKilledAtEveryFailpoint(t *testing.T) {
	t.Parallel()
	eachKill(t, scenarios(), func(w *world, s scenario) {
		if s.settle != nil {
			s.settle(w)
		}
		// Any command settles what the dead one left.
		err := w.settle("demo")
		w.ok(err)
	})
}

// TestKilledThenCollected: gc does not free what a killed process left, even if
// gc runs first and keeps as little as it can.
func TestKilledThenCollected(t *testing.T) {
	t.Parallel()
	var some []scenario
	for _, s := range scenarios() {
		switch s.name {
		case "run", "restored", "return", "accept", "selected", "partial", "promote", "cached":
			some = append(some, s)
		}
	}
	eachKill(t, some, func(w *world, s scenario) {
		var req api.GCRequest
		if s.name == "restored" {
			req.OlderThan = engine.DefaultOlderThan // one that was concluded may go else
		}
		_, err := w.e.GC(w.ctx, req)
		w.ok(err)
	})
}

// eachKill kills every scenario at every point on every backend. first is the
// first action of the next process.
func eachKill(t *testing.T, list []scenario, first func(w *world, s scenario)) {
	for _, s := range list {
		if s.on == nil {
			s.on = backends
		}
		for _, backend := range s.on {
			for _, point := range s.points {
				t.Run(fmt.Sprintf("%s/%s/%s", s.name, backend, point), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t)
					if !w.killedAt(s, backend, point) {
						return
					}
					first(w, s)
					w.wantSettled(s, backend, point)
				})
			}
		}
	}
}

// killedAt runs a scenario and kills it. It returns false for a point that the
// backend does not reach.
func (w *world) killedAt(s scenario, backend, point string) bool {
	w.Helper()
	w.init("demo", backend)
	if s.before == nil {
		w.sh("demo", "echo first > hello.txt")
	} else {
		s.before(w)
	}
	at := point
	if backend == "delta" && point == "seal.hashed" && len(s.points) == len(runPoints) {
		at += "@2" // the first is the look at what changed before the run
	}
	killed, out, err := w.crashAt(s.name, at)
	passed := slices.Contains(passedBy[s.name+"/"+backend], point)
	switch {
	case killed && passed:
		w.Fatalf("it does come by %s: take it off the list", point)
	case !killed && err != nil:
		w.Fatalf("the victim failed: %v\n%s", err, out)
	case !killed && !passed:
		w.Fatalf("the victim came past %s unharmed\n%s", point, out)
	}
	w.open()
	return killed
}

// crashAt runs a scenario in a new process with a failpoint.
func (w *world) crashAt(scenario, failpoint string) (killed bool, out string, err error) {
	w.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestVictim$")
	cmd.Env = append(os.Environ(), victim+"="+scenario+"|"+w.home+"|"+w.source, "FORKCELL_FAILPOINT="+failpoint)
	text, err := cmd.CombinedOutput()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled(), string(text), err
}

// wantSettled checks what must hold when a command has run after the kill.
func (w *world) wantSettled(s scenario, backend, point string) {
	w.Helper()
	if s.settle != nil {
		s.settle(w)
	}
	_, held := w.sh("demo", "cat hello.txt")
	if backend == "delta" {
		s.inHost = append(s.inHost, s.inCell...)
	}
	if !slices.Contains(s.inCell, held) {
		w.Errorf("the cell holds %q, want one of %q", held, s.inCell)
	}
	if got := w.read("hello.txt"); !slices.Contains(s.inHost, got) {
		w.Errorf("the source holds %q, want one of %q", got, s.inHost)
	}
	if point != "run.recorded" && point != "run.prepared" {
		// It ran, so there is a receipt, and its work can be shown.
		w.wantReceipts(s, 3)
	}
	w.noLeftovers()
	_, err := w.e.GC(w.ctx, api.GCRequest{OlderThan: engine.DefaultOlderThan})
	w.ok(err)
	w.sound("demo")
	if s.after != nil {
		s.after(w)
	}
	// What was interrupted can be done again.
	w.sh("demo", "echo last > hello.txt", acceptOnSuccess)
	w.wantInside("demo", "hello.txt", "last\n")
}

// wantReceipts checks the receipts of the first run, the killed one, and the
// one that checked.
func (w *world) wantReceipts(s scenario, n int) {
	w.Helper()
	if s.name != "run" && s.name != "restored" {
		return
	}
	list, err := w.e.ReceiptList(w.ctx, "demo")
	w.ok(err)
	if len(list) != n {
		w.Fatalf("there are %d receipts, want %d: %+v", len(list), n, list)
	}
	diff, err := w.e.Diff(w.ctx, api.DiffRequest{Cell: "demo", Run: list[1].RunID})
	w.ok(err)
	if len(diff.Changes) != 1 {
		w.Fatalf("the killed run's diff has %+v", diff.Changes)
	}
}

// noLeftovers looks for what an apply would leave in the source.
func (w *world) noLeftovers() {
	w.Helper()
	names, err := os.ReadDir(w.source)
	w.ok(err)
	for _, n := range names {
		if strings.HasPrefix(n.Name(), ".forkcell") {
			w.Errorf("the source has %s", n.Name())
		}
	}
}
