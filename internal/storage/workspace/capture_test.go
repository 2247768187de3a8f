package workspace

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/storage/tree"
)

func (w *world) capture(work *Work) *Capture {
	w.t.Helper()
	c, err := work.Capture(context.Background(), w.op())
	w.must(err)
	return c
}

// TestCapture captures states of a generation that continues.
func TestCapture(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		play(t, actorJob{Dir: w.src, Acts: sourceActs()})
		w.withArea(areaSource()...)
		base, _ := w.imports()
		work := w.begin(w.c, base.Layer)

		none, err := work.Snapshot(context.Background(), w.op())
		w.must(err)
		if !none.Unchanged || none.Layer != base.Layer {
			t.Errorf("a snapshot of nothing: %+v", none)
		}

		want1 := w.acts(work, changeActs()...)
		area1 := w.inArea(work, areaChanges()...)
		home1, err := w.tryActs(work, homeTarget, act{Do: "write", Path: p(".history"), Data: p("ls")})
		w.must(err)
		capture := w.capture(work)
		dropped := w.capture(work)
		// The cell goes on before the capture is sealed.
		want2 := w.acts(work,
			act{Do: "append", Path: p("file"), Data: p("later")}, act{Do: "rm", Path: p("dir")}, act{Do: "write", Path: p("empty"), Data: p("e")})
		area2 := w.inArea(work, act{Do: "rm", Path: p("file")}, act{Do: "append", Path: p("olddir/y"), Data: p("later")})
		one, err := capture.Seal(context.Background())
		w.must(err)
		w.must(dropped.Discard())
		if one.Parent != base.Layer || one.Unchanged || one.Changed == 0 {
			t.Errorf("captured: %+v", one)
		}
		w.sparse(one.Layer, "sparse2")
		two := w.seal(work)
		if two.Parent != base.Layer || two.Areas[AreaWorkspace] == one.Areas[AreaWorkspace] || two.Areas[AreaHome] != one.Areas[AreaHome] {
			t.Errorf("sealed: %+v", two)
		}
		w.check("captured", one.Layer, want1)
		w.check("sealed", two.Layer, want2)
		sameItems(t, "captured area", area1, w.areaSeen(one.Layer))
		sameItems(t, "sealed area", area2, w.areaSeen(two.Layer))
		on := w.begin(w.c, one.Layer)
		home, err := w.tryActs(on, homeTarget)
		w.must(err)
		w.must(on.Discard())
		sameItems(t, "captured home", w.dropUnreliable(home1), home)
		w.noPending()
	})
}

// TestCaptureHistories compares snapshots with the seal at the same moment.
func TestCaptureHistories(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		b := w.c.Backend
		rapid.Check(t, func(rt *rapid.T) {
			w := newWorld(drawn{t, rt}, b)
			play(w.t, actorJob{Dir: w.src, Loose: true, Acts: rapid.SliceOfN(rapid.Custom(drawAct), 5, 25).Draw(rt, "source")})
			base, _ := w.imports()
			layer := base.Layer
			for range 2 {
				work := w.begin(w.c, layer)
				for range rapid.IntRange(1, 2).Draw(rt, "snapshots") {
					seen := w.loose(work, rapid.SliceOfN(rapid.Custom(drawAct), 0, 12).Draw(rt, "acts"))
					snap, err := work.Snapshot(t.Context(), w.op())
					w.must(err)
					w.verify("snapshot", snap.Layer)
					w.check("snapshot", snap.Layer, seen)
					layer = snap.Layer
				}
				sealed := w.seal(work)
				info, err := w.s.Info(layer)
				w.must(err)
				snap, err := info.Sealed()
				w.must(err)
				if d := cmp.Diff(sealed.Areas, snap.Areas); d != "" {
					w.t.Errorf("the snapshot is another state than the seal: %s", d)
				}
				// Only the seal has the block for the kernel's own attributes.
				fewer := w.c.Backend == BackendOverlay && snap.Bytes < sealed.Bytes
				if w.c.Backend != BackendDelta && !sealed.Unchanged && snap.Bytes != sealed.Bytes && !fewer {
					w.t.Errorf("the snapshot holds %d bytes, the seal %d", snap.Bytes, sealed.Bytes)
				}
			}
		})
	})
}

// TestCaptureCost checks that a capture copies what changed and nothing else.
func TestCaptureCost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, BackendOverlay)
	play(t, actorJob{Dir: w.src, Acts: sourceActs()})
	base, _ := w.imports()
	work := w.begin(w.c, base.Layer)
	w.acts(work, act{Do: "append", Path: p("dir/in"), Data: p("+")}, act{Do: "rm", Path: p("wide")})
	c := w.capture(work)
	got := see(t, c.w.Dir()+"/workspace")
	var names []string
	for _, it := range got {
		names = append(names, string(it.Path))
	}
	slices.Sort(names)
	if d := cmp.Diff([]string{".", "dir", "dir/in", "wide"}, names); d != "" {
		t.Error(d)
	}
	w.must(c.Discard())
	w.seal(work)
}

// TestCaptureUnsealable names what cannot be kept, and leaves the generation.
func TestCaptureUnsealable(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		base, _ := w.imports()
		work := w.begin(w.c, base.Layer)
		if _, err := w.tryActs(work, homeTarget, act{Do: "write", Path: p("g"), Data: p("2")}); err != nil {
			t.Fatal(err)
		}
		g := work.Dir() + "/home/g"
		w.must(unix.Setxattr(g, "user.overlay.redirect", []byte("x"), 0))
		problems := []string{"g: attribute user.overlay.redirect"}
		if os.Geteuid() == 0 {
			w.must(unix.Mknod(work.Dir()+"/home/dev", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
			problems = append([]string{"dev: character device 1:3"}, problems...)
		}
		_, err := work.Snapshot(context.Background(), w.op())
		var u *UnsealableError
		if !errors.As(err, &u) || strings.Join(u.Problems, "|") != strings.Join(problems, "|") {
			t.Errorf("snapshot: %v, want %q", err, problems)
		}
		left, err := w.s.listDir("pending")
		w.must(err)
		if d := cmp.Diff([]string{work.p.op}, left); d != "" {
			t.Error(d)
		}
		w.must(work.Discard())
	})
}

var captureSteps = append([]string{"capture.copied"}, sealSteps...)

// TestCaptureFails makes every step of a snapshot fail. Nothing is left but a
// state that already has its name, and the generation is as before.
func TestCaptureFails(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		w.withArea(act{Do: "write", Path: p("h"), Data: p("1")})
		base, _ := w.imports()
		work := w.begin(w.c, base.Layer)
		want := w.acts(work, act{Do: "write", Path: p("f"), Data: p("x")})
		w.inArea(work, act{Do: "append", Path: p("h"), Data: p("2")})
		for _, step := range captureSteps {
			w.s.opt.hook = func(s string) error {
				if s == step {
					return syscall.ENOSPC
				}
				return nil
			}
			op := w.op()
			if _, err := work.Snapshot(context.Background(), op); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("at %s: %v", step, err)
			}
			w.s.opt.hook = nil
			again, sealed, err := w.s.Resume(context.Background(), w.c, base.Layer, op)
			w.must(err)
			if again != nil || (sealed != nil) != (step == "seal.renamed") {
				t.Errorf("after %s: %v, %v", step, again, sealed)
			}
			if sealed != nil {
				w.check("after "+step, sealed.Layer, want)
			}
		}
		w.check("sealed", w.seal(work).Layer, want)
		w.noPending()
	})
}

// TestCaptureCrash kills a process at every step of a snapshot: a sweep removes
// what is left of it, and the generation can be sealed.
func TestCaptureCrash(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		w.withArea(act{Do: "write", Path: p("h"), Data: p("1")})
		base, _ := w.imports()
		work := w.begin(w.c, base.Layer)
		want := w.acts(work, act{Do: "write", Path: p("f"), Data: p("x")})
		data := w.inArea(work, act{Do: "append", Path: p("h"), Data: p("2")})
		op := work.p.op
		work.Close()
		var areas map[string]tree.AreaRoots
		for _, step := range captureSteps {
			snap := w.op()
			crash(t, crashJob{Home: w.home, Live: w.c.Live, Backend: w.c.Backend, Layer: base.Layer, Op: op, Snapshot: snap, Step: step})
			w.open(Options{})
			r, err := w.s.Sweep(context.Background(), func(string) bool { return true }, func(o string) bool { return o == op }, false)
			w.must(w.s.Empty(context.Background(), &r))
			w.must(err)
			if done := step == "seal.renamed"; slices.Contains(r.Pending, snap) == done {
				t.Errorf("after %s: %+v", step, r)
			} else if done {
				_, sealed, err := w.s.Resume(context.Background(), w.c, base.Layer, snap)
				w.must(err)
				w.check("snapshot", sealed.Layer, want)
				areas = sealed.Areas
			}
		}
		again, _, err := w.s.Resume(context.Background(), w.c, base.Layer, op)
		w.must(err)
		one := w.seal(again)
		if d := cmp.Diff(one.Areas, areas); d != "" {
			t.Errorf("the snapshot is another state than the seal: %s", d)
		}
		w.check("sealed", one.Layer, want)
		sameItems(t, "area", data, w.areaSeen(one.Layer))
		w.noPending()
	})
}

// TestCaptureStable: without a freezer, files are copied until two copies agree.
func TestCaptureStable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, BackendOverlay)
	play(t, actorJob{Dir: w.src, Acts: sourceActs()})
	base, _ := w.imports()
	work := w.begin(w.c, base.Layer)
	want := w.acts(work, changeActs()...)
	c, err := work.CaptureStable(t.Context(), w.op)
	w.must(err)
	sealed, err := c.Seal(t.Context())
	w.must(err)
	w.check("captured", sealed.Layer, want)
	// A file that changes before every copy.
	n := 0
	_, err = work.CaptureStable(t.Context(), func() string {
		n++
		w.must(os.WriteFile(work.Dir()+"/workspace/restless", []byte(strings.Repeat("x", n)), 0o600))
		return w.op()
	})
	if !errors.Is(err, ErrUnstable) || n != stablePasses {
		t.Errorf("after %d copies: %v", n, err)
	}
	w.must(work.Discard())
	w.noPending()
}

// TestCaptureStableHome: the home of a copy is of the same moment as its workspace, also if
// both change while the last of the two copies is made.
func TestCaptureStableHome(t *testing.T) {
	t.Parallel()
	w := newWorld(t, BackendOverlay)
	base, _ := w.imports()
	work := w.begin(w.c, base.Layer)
	n := 0
	w.s.opt.hook = func(step string) error {
		if step != "capture.area" {
			return nil
		}
		if n++; n == 4 { // of two areas in the second copy
			for _, area := range []string{AreaWorkspace, AreaHome} {
				w.must(os.WriteFile(work.Dir()+"/"+area+"/later", nil, 0o600))
			}
		}
		return nil
	}
	c, err := work.CaptureStable(t.Context(), w.op)
	w.must(err)
	_, files := os.Lstat(c.w.Dir() + "/workspace/later")
	_, talk := os.Lstat(c.w.Dir() + "/home/later")
	if n < 4 || (files == nil) != (talk == nil) {
		t.Errorf("after %d areas: workspace %v, home %v", n, files, talk)
	}
	w.must(c.Discard())
	w.must(work.Discard())
	w.noPending()
}
