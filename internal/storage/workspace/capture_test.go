package workspace_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/storage/workspace/workspacetest"
)

// TestCaptureCost checks that a capture copies what changed and nothing else.
func TestCaptureCost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workspace.BackendOverlay)
	workspacetest.Play(t, workspacetest.Job{Dir: w.Source, Acts: workspacetest.SourceActs()})
	base, _ := w.Import()
	work := w.Begin(w.Cell, base.Layer)
	w.Do(work, workspacetest.Act{Do: "append", Path: workspacetest.Bytes("dir/in"), Data: workspacetest.Bytes("+")}, workspacetest.Act{Do: "rm", Path: workspacetest.Bytes("wide")})
	c := w.Capture(work)
	got := workspacetest.See(t, c.Dir()+"/workspace")
	var names []string
	for _, it := range got {
		names = append(names, string(it.Path))
	}
	slices.Sort(names)
	if d := cmp.Diff([]string{".", "dir", "dir/in", "wide"}, names); d != "" {
		t.Error(d)
	}
	w.Must(c.Discard())
	w.Seal(work)
}

var captureSteps = append([]string{"capture.copied"}, sealSteps...)

// TestCaptureFails makes every step of a snapshot fail. Nothing is left but a
// state that already has its name, and the generation is as before.
func TestCaptureFails(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		w.AddArea(workspacetest.Act{Do: "write", Path: workspacetest.Bytes("h"), Data: workspacetest.Bytes("1")})
		base, _ := w.Import()
		work := w.Begin(w.Cell, base.Layer)
		want := w.Do(work, workspacetest.Act{Do: "write", Path: workspacetest.Bytes("f"), Data: workspacetest.Bytes("x")})
		w.DoInArea(work, workspacetest.Act{Do: "append", Path: workspacetest.Bytes("h"), Data: workspacetest.Bytes("2")})
		for _, step := range captureSteps {
			*w.Store.Hook() = func(s string) error {
				if s == step {
					return syscall.ENOSPC
				}
				return nil
			}
			op := w.Op()
			if _, err := work.Snapshot(context.Background(), op); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("at %s: %v", step, err)
			}
			*w.Store.Hook() = nil
			again, sealed, err := w.Store.Resume(context.Background(), w.Cell, base.Layer, op)
			w.Must(err)
			if again != nil || (sealed != nil) != (step == "seal.renamed") {
				t.Errorf("after %s: %v, %v", step, again, sealed)
			}
			if sealed != nil {
				w.Check("after "+step, sealed.Layer, want)
			}
		}
		w.Check("sealed", w.Seal(work).Layer, want)
		w.NoPending()
	})
}

// TestCaptureCrash kills a process at every step of a snapshot: a sweep removes
// what is left of it, and the generation can be sealed.
func TestCaptureCrash(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		w.AddArea(workspacetest.Act{Do: "write", Path: workspacetest.Bytes("h"), Data: workspacetest.Bytes("1")})
		base, _ := w.Import()
		work := w.Begin(w.Cell, base.Layer)
		want := w.Do(work, workspacetest.Act{Do: "write", Path: workspacetest.Bytes("f"), Data: workspacetest.Bytes("x")})
		data := w.DoInArea(work, workspacetest.Act{Do: "append", Path: workspacetest.Bytes("h"), Data: workspacetest.Bytes("2")})
		op := workspacetest.OpOf(work)
		work.Close()
		var areas map[string]tree.AreaRoots
		for _, step := range captureSteps {
			snap := w.Op()
			crash(t, crashJob{Home: w.Home, Live: w.Cell.Live, Backend: w.Cell.Backend, Layer: base.Layer, Op: op, Snapshot: snap, Step: step})
			w.open(workspace.Options{})
			r, err := w.Store.Sweep(context.Background(), func(string) bool { return true }, func(o string) bool { return o == op }, false)
			w.Must(w.Store.Empty(context.Background(), &r))
			w.Must(err)
			if done := step == "seal.renamed"; slices.Contains(r.Pending, snap) == done {
				t.Errorf("after %s: %+v", step, r)
			} else if done {
				_, sealed, err := w.Store.Resume(context.Background(), w.Cell, base.Layer, snap)
				w.Must(err)
				w.Check("snapshot", sealed.Layer, want)
				areas = sealed.Areas
			}
		}
		again, _, err := w.Store.Resume(context.Background(), w.Cell, base.Layer, op)
		w.Must(err)
		one := w.Seal(again)
		if d := cmp.Diff(one.Areas, areas); d != "" {
			t.Errorf("the snapshot is another state than the seal: %s", d)
		}
		w.Check("sealed", one.Layer, want)
		workspacetest.SameItems(t, "area", data, w.AreaSeen(one.Layer))
		w.NoPending()
	})
}

// TestCaptureStable: without a freezer, files are copied until two copies agree.
func TestCaptureStable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workspace.BackendOverlay)
	workspacetest.Play(t, workspacetest.Job{Dir: w.Source, Acts: workspacetest.SourceActs()})
	base, _ := w.Import()
	work := w.Begin(w.Cell, base.Layer)
	want := w.Do(work, workspacetest.ChangeActs()...)
	c, err := work.CaptureStable(t.Context(), w.Op)
	w.Must(err)
	sealed, err := c.Seal(t.Context())
	w.Must(err)
	w.Check("captured", sealed.Layer, want)
	// A file that changes before every copy.
	n := 0
	_, err = work.CaptureStable(t.Context(), func() string {
		n++
		w.Must(os.WriteFile(work.Dir()+"/workspace/restless", []byte(strings.Repeat("x", n)), 0o600))
		return w.Op()
	})
	if !errors.Is(err, workspace.ErrUnstable) || n != workspace.StablePasses {
		t.Errorf("after %d copies: %v", n, err)
	}
	w.Must(work.Discard())
	w.NoPending()
}

// TestCaptureStableHome: the home of a copy is of the same moment as its workspace, also if
// both change while the last of the two copies is made.
func TestCaptureStableHome(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workspace.BackendOverlay)
	base, _ := w.Import()
	work := w.Begin(w.Cell, base.Layer)
	n := 0
	*w.Store.Hook() = func(step string) error {
		if step != "capture.area" {
			return nil
		}
		if n++; n == 4 { // of two areas in the second copy
			for _, area := range []string{workspace.AreaWorkspace, workspace.AreaHome} {
				w.Must(os.WriteFile(work.Dir()+"/"+area+"/later", nil, 0o600))
			}
		}
		return nil
	}
	c, err := work.CaptureStable(t.Context(), w.Op)
	w.Must(err)
	_, files := os.Lstat(c.Dir() + "/workspace/later")
	_, talk := os.Lstat(c.Dir() + "/home/later")
	if n < 4 || (files == nil) != (talk == nil) {
		t.Errorf("after %d areas: workspace %v, home %v", n, files, talk)
	}
	w.Must(c.Discard())
	w.Must(work.Discard())
	w.NoPending()
}
