package workspacetest

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// Capture captures what a generation holds.
func (w *World) Capture(work *workspace.Work) *workspace.Capture {
	w.T.Helper()
	c, err := work.Capture(context.Background(), w.Op())
	w.Must(err)
	return c
}

// testCapture captures states of a generation that continues.
func testCapture(t *testing.T, w *World) {
	Play(t, Job{Dir: w.Source, Acts: SourceActs()})
	w.AddArea(areaSource()...)
	base, _ := w.Import()
	work := w.Begin(w.Cell, base.Layer)

	none, err := work.Snapshot(context.Background(), w.Op())
	w.Must(err)
	if !none.Unchanged || none.Layer != base.Layer {
		t.Errorf("a snapshot of nothing: %+v", none)
	}

	want1 := w.Do(work, ChangeActs()...)
	area1 := w.DoInArea(work, areaChanges()...)
	home1, err := w.doAt(work, homeTarget, Act{Do: "write", Path: Bytes(".history"), Data: Bytes("ls")})
	w.Must(err)
	capture := w.Capture(work)
	dropped := w.Capture(work)
	// The cell goes on before the capture is sealed.
	want2 := w.Do(work,
		Act{Do: "append", Path: Bytes("file"), Data: Bytes("later")}, Act{Do: "rm", Path: Bytes("dir")}, Act{Do: "write", Path: Bytes("empty"), Data: Bytes("e")})
	area2 := w.DoInArea(work, Act{Do: "rm", Path: Bytes("file")}, Act{Do: "append", Path: Bytes("olddir/y"), Data: Bytes("later")})
	one, err := capture.Seal(context.Background())
	w.Must(err)
	w.Must(dropped.Discard())
	if one.Parent != base.Layer || one.Unchanged || one.Changed == 0 {
		t.Errorf("captured: %+v", one)
	}
	w.sparse(one.Layer, "sparse2")
	two := w.Seal(work)
	if two.Parent != base.Layer || two.Areas[workspace.AreaWorkspace] == one.Areas[workspace.AreaWorkspace] || two.Areas[workspace.AreaHome] != one.Areas[workspace.AreaHome] {
		t.Errorf("sealed: %+v", two)
	}
	w.Check("captured", one.Layer, want1)
	w.Check("sealed", two.Layer, want2)
	SameItems(t, "captured area", area1, w.AreaSeen(one.Layer))
	SameItems(t, "sealed area", area2, w.AreaSeen(two.Layer))
	on := w.Begin(w.Cell, one.Layer)
	home, err := w.doAt(on, homeTarget)
	w.Must(err)
	w.Must(on.Discard())
	SameItems(t, "captured home", w.dropUnreliable(home1), home)
	w.NoPending()
}

// testCaptureHistories compares snapshots with the seal at the same moment.
func testCaptureHistories(t *testing.T, w *World) {
	rapid.Check(t, func(rt *rapid.T) {
		w := w.another(drawn{t, rt})
		Play(w.T, Job{Dir: w.Source, Loose: true, Acts: rapid.SliceOfN(rapid.Custom(drawAct), 5, 25).Draw(rt, "source")})
		base, _ := w.Import()
		layer := base.Layer
		for range 2 {
			work := w.Begin(w.Cell, layer)
			for range rapid.IntRange(1, 2).Draw(rt, "snapshots") {
				seen := w.doLoosely(work, rapid.SliceOfN(rapid.Custom(drawAct), 0, 12).Draw(rt, "acts"))
				snap, err := work.Snapshot(t.Context(), w.Op())
				w.Must(err)
				w.Verify("snapshot", snap.Layer)
				w.Check("snapshot", snap.Layer, seen)
				layer = snap.Layer
			}
			sealed := w.Seal(work)
			info, err := w.Store.Info(layer)
			w.Must(err)
			snap, err := info.Sealed()
			w.Must(err)
			if d := cmp.Diff(sealed.Areas, snap.Areas); d != "" {
				w.T.Errorf("the snapshot is another state than the seal: %s", d)
			}
			// Only the seal has the block for the kernel's own attributes.
			fewer := w.Cell.Backend == workspace.BackendOverlay && snap.Bytes < sealed.Bytes
			if w.Cell.Backend != workspace.BackendDelta && !sealed.Unchanged && snap.Bytes != sealed.Bytes && !fewer {
				w.T.Errorf("the snapshot holds %d bytes, the seal %d", snap.Bytes, sealed.Bytes)
			}
		}
	})
}

// testCaptureUnsealable names what cannot be kept, and leaves the generation.
func testCaptureUnsealable(t *testing.T, w *World) {
	base, _ := w.Import()
	work := w.Begin(w.Cell, base.Layer)
	if _, err := w.doAt(work, homeTarget, Act{Do: "write", Path: Bytes("g"), Data: Bytes("2")}); err != nil {
		t.Fatal(err)
	}
	g := work.Dir() + "/home/g"
	w.Must(unix.Setxattr(g, "user.overlay.redirect", []byte("x"), 0))
	problems := []string{"g: attribute user.overlay.redirect"}
	if os.Geteuid() == 0 {
		w.Must(unix.Mknod(work.Dir()+"/home/dev", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
		problems = append([]string{"dev: character device 1:3"}, problems...)
	}
	_, err := work.Snapshot(context.Background(), w.Op())
	var u *workspace.UnsealableError
	if !errors.As(err, &u) || strings.Join(u.Problems, "|") != strings.Join(problems, "|") {
		t.Errorf("snapshot: %v, want %q", err, problems)
	}
	if d := cmp.Diff([]string{OpOf(work)}, w.Names("pending")); d != "" {
		t.Error(d)
	}
	w.Must(work.Discard())
}
