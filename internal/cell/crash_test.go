//go:build failpoints

package cell_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/forkcell/forkcell/internal/app"
	"github.com/forkcell/forkcell/internal/cell"
)

// A scenario is one operation that is killed at a failpoint in a process of its
// own. before and after are the only texts that hello.txt may hold then, in the
// cell and in the source.
type scenario struct {
	name   string
	do     func(ctx context.Context, e *cell.Engine, source string) error
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

func scenarios() []scenario {
	run := func(script string, change func(*cell.RunRequest)) func(context.Context, *cell.Engine, string) error {
		return func(ctx context.Context, e *cell.Engine, _ string) error {
			req := cell.RunRequest{Cell: "demo", Args: []string{"sh", "-c", script}}
			change(&req)
			_, err := e.Run(ctx, req, cell.Stdio{})
			return err
		}
	}
	return []scenario{
		{
			name: "run", points: runPoints, inCell: []string{"first\n", "second\n"}, inHost: []string{"hello\n"},
			do: run("echo second > hello.txt", func(*cell.RunRequest) {}),
		},
		{
			// A run that died is interrupted, which is no success: its flag
			// restores it.
			name: "restored", points: runPoints, inCell: []string{"first\n"}, inHost: []string{"hello\n"},
			do: run("echo second > hello.txt; exit 1", restoreOnFail),
		},
		{
			name: "restore", points: []string{"log.written"}, inCell: []string{"first\n", "hello\n"}, inHost: []string{"hello\n"},
			do: func(ctx context.Context, e *cell.Engine, _ string) error {
				_, err := e.Restore(ctx, cell.RestoreRequest{Cell: "demo"})
				return err
			},
		},
		{
			name: "accept", points: applyPoints, inCell: []string{"first\n"}, inHost: []string{"hello\n", "first\n"},
			do: func(ctx context.Context, e *cell.Engine, _ string) error {
				_, err := e.Accept(ctx, cell.AcceptRequest{Cell: "demo", Apply: true})
				return err
			},
		},
		{
			name: "partial", points: []string{"seal.hashed", "seal.packed", "seal.synced", "seal.renamed", "log.written"},
			inCell: []string{"first\n"}, inHost: []string{"hello\n"},
			do: func(ctx context.Context, e *cell.Engine, _ string) error {
				_, err := e.Accept(ctx, cell.AcceptRequest{Cell: "demo", Only: []string{"hello.txt"}})
				return err
			},
		},
		{
			name: "refresh", points: []string{"seal.hashed", "seal.packed", "seal.renamed", "log.written"},
			inCell: []string{"first\n"}, inHost: []string{"hello\n"},
			do: func(ctx context.Context, e *cell.Engine, source string) error {
				if err := os.WriteFile(filepath.Join(source, "more"), []byte("more\n"), 0o644); err != nil {
					return err
				}
				_, err := e.Refresh(ctx, cell.RefreshRequest{Cell: "demo"})
				return err
			},
		},
		{
			name: "fork", points: []string{"log.written"}, inCell: []string{"first\n"}, inHost: []string{"hello\n"},
			do: func(ctx context.Context, e *cell.Engine, _ string) error {
				_, err := e.Fork(ctx, cell.ForkRequest{Cell: "demo", Name: "other"})
				return err
			},
		},
		{
			name: "init", points: []string{"seal.hashed", "seal.packed", "seal.synced", "seal.renamed", "log.written"},
			inCell: []string{"first\n"}, inHost: []string{"hello\n"},
			do: func(ctx context.Context, e *cell.Engine, source string) error {
				_, err := e.Init(ctx, cell.InitRequest{Name: "other", From: source})
				return err
			},
		},
		{
			name: "gc", points: []string{"gc.marked"}, inCell: []string{"first\n"}, inHost: []string{"hello\n"},
			do: func(ctx context.Context, e *cell.Engine, _ string) error {
				_, err := e.GC(ctx, cell.GCRequest{})
				return err
			},
		},
		{
			name: "rotate", points: []string{"log.written", "key.rotated"}, inCell: []string{"first\n"}, inHost: []string{"hello\n"},
			do: func(ctx context.Context, e *cell.Engine, _ string) error {
				_, err := e.KeyRotate(ctx)
				return err
			},
		},
	}
}

// victim is set in the process that is killed.
const victim = "FORKCELL_TEST_VICTIM"

// TestVictim is not a test of its own: it is what the killed process does.
func TestVictim(t *testing.T) {
	spec := os.Getenv(victim)
	if spec == "" {
		return
	}
	part := strings.SplitN(spec, "|", 3)
	e, release, err := app.Open(part[1], app.Write)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scenarios() {
		if s.name == part[0] {
			err = s.do(t.Context(), e, part[2])
		}
	}
	if err := errors.Join(err, release()); err != nil {
		t.Fatal(err)
	}
}

// TestKilledAtEveryFailpoint: whatever is killed wherever, the next process
// finds the state before or the state after, and nothing between.
func TestKilledAtEveryFailpoint(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios() {
		for _, backend := range backends {
			for _, point := range s.points {
				t.Run(fmt.Sprintf("%s/%s/%s", s.name, backend, point), func(t *testing.T) {
					t.Parallel()
					killAt(t, s, backend, point)
				})
			}
		}
	}
}

func killAt(t *testing.T, s scenario, backend, point string) {
	w := newWorld(t)
	w.init("demo", backend)
	w.sh("demo", "echo first > hello.txt")
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestVictim$")
	at := point
	if backend == "delta" && point == "seal.hashed" && len(s.points) == len(runPoints) {
		at += "@2" // the first is the look at what changed before the run
	}
	cmd.Env = append(os.Environ(), victim+"="+s.name+"|"+w.home+"|"+w.source, "FORKCELL_FAILPOINT="+at)
	out, err := cmd.CombinedOutput()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !status.Signaled() {
		if err != nil {
			t.Fatalf("the victim failed: %v\n%s", err, out)
		}
		if backend == "delta" && strings.HasPrefix(point, "apply.") || strings.HasPrefix(point, "seal.") {
			return // this backend, or this change, does not come that way
		}
		t.Fatalf("the victim came past %s unharmed\n%s", point, out)
	}
	w.open()
	// Any command settles what the dead one left.
	_, err = w.e.Status(w.ctx, "demo")
	w.ok(err)
	_, held := w.sh("demo", "cat hello.txt")
	if backend == "delta" {
		s.inHost = append(s.inHost, s.inCell...)
	}
	if !contains(s.inCell, held) {
		t.Errorf("the cell holds %q, want one of %q", held, s.inCell)
	}
	if got := w.read("hello.txt"); !contains(s.inHost, got) {
		t.Errorf("the source holds %q, want one of %q", got, s.inHost)
	}
	if point != "run.recorded" && point != "run.prepared" {
		// It ran, so there is a receipt, and its work can be looked at.
		w.wantReceipts(s, 3)
	}
	w.noLitter()
	_, err = w.e.GC(w.ctx, cell.GCRequest{OlderThan: cell.DefaultOlderThan})
	w.ok(err)
	w.sound("demo")
	// What was interrupted can be done again.
	w.sh("demo", "echo last > hello.txt", acceptOnSuccess)
	w.wantInside("demo", "hello.txt", "last\n")
}

// wantReceipts: the first run, the killed one, and the one that looked.
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
	diff, err := w.e.Diff(w.ctx, cell.DiffRequest{Cell: "demo", Run: list[1].RunID})
	w.ok(err)
	if len(diff.Changes) != 1 {
		w.Fatalf("the killed run's diff has %+v", diff.Changes)
	}
}

// noLitter looks for what an apply would leave in the source.
func (w *world) noLitter() {
	w.Helper()
	names, err := os.ReadDir(w.source)
	w.ok(err)
	for _, n := range names {
		if strings.HasPrefix(n.Name(), ".forkcell") {
			w.Errorf("the source has %s", n.Name())
		}
	}
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}
