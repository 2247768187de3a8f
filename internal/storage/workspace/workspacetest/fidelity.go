package workspacetest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// testFidelity passes a tree with every kind of entry through all operations of
// a state, on every backend.
func testFidelity(t *testing.T, w *World) {
	want0 := Play(t, Job{Dir: w.Source, Acts: SourceActs()})
	base, report := w.Import()
	if report.Files == 0 || report.Dirs == 0 || report.Bytes == 0 {
		t.Errorf("empty report: %+v", report)
	}
	w.Check("import", base.Layer, want0)
	w.sparse(base.Layer, "sparse", "hole")

	work := w.Begin(w.Cell, base.Layer)
	want1 := w.Do(work, ChangeActs()...)
	one := w.Seal(work)
	if one.Unchanged || one.Changed == 0 || one.Parent != base.Layer {
		t.Errorf("sealed: %+v", one)
	}
	w.Check("sealed", one.Layer, want1)
	w.sparse(one.Layer, "sparse2")
	// pair1 was copied up too, but has lost no partner: pair2 is gone.
	if split := strings.Join(one.SplitLinks, " "); w.Cell.Backend == workspace.BackendOverlay && split != "hard2" {
		t.Errorf("split links: %q", split)
	}
	w.idle(one)
	w.squash(one, want1)
	w.forks(one, want1)
	if w.Cell.Backend != workspace.BackendDelta {
		w.Check("import, at the end", base.Layer, want0)
	}
	w.Switches(one, base, want0)
}

// sparse checks that holes stay holes.
func (w *World) sparse(layer string, names ...string) {
	w.T.Helper()
	for _, name := range names {
		e, _, err := w.Tree(layer).Lookup(name)
		w.Must(err)
		f, err := w.Store.OpenFile(w.Cell.Backend, layer, workspace.AreaWorkspace, name, e)
		w.Must(err)
		info, err := fsx.StatFile(f)
		w.Must(err)
		f.Close()
		if info.Blocks*512 > info.Size/2 {
			w.T.Errorf("%s takes %d bytes of its %d", name, info.Blocks*512, info.Size)
		}
	}
}

// idle checks that a generation without changes leaves nothing.
func (w *World) idle(on workspace.Sealed) {
	w.T.Helper()
	work := w.Begin(w.Cell, on.Layer)
	w.Do(work)
	if _, err := w.doAt(work, homeTarget); err != nil {
		w.T.Fatal(err)
	}
	again := w.Seal(work)
	if !again.Unchanged || again.Layer != on.Layer || again.Areas[workspace.AreaWorkspace] != on.Areas[workspace.AreaWorkspace] {
		w.T.Errorf("an idle generation was kept: %+v", again)
	}
	w.NoPending()
}

func (w *World) squash(one workspace.Sealed, want []Item) {
	w.T.Helper()
	sq, err := w.Store.Squash(context.Background(), w.Cell, one.Layer, w.Op())
	w.Must(err)
	for _, a := range []string{workspace.AreaWorkspace, workspace.AreaHome} {
		if sq.Areas[a] != one.Areas[a] {
			w.T.Errorf("squash changed %s: %+v, was %+v", a, sq.Areas[a], one.Areas[a])
		}
	}
	if n, err := w.Store.Depth(sq.Layer); n != 1 || err != nil {
		w.T.Errorf("a squashed state needs %d layers, %v", n, err)
	}
	m, err := w.Store.Manifest(sq.Layer)
	w.Must(err)
	if r := m.Refers(); len(r) != 1 {
		w.T.Errorf("a squashed manifest refers to %q", r)
	}
	w.Check("squash", sq.Layer, want)
	if w.Cell.Backend != workspace.BackendDelta {
		work := w.Begin(w.Cell, sq.Layer)
		seen := w.Do(work, Act{Do: "write", Path: Bytes("after"), Data: Bytes("squash")})
		w.Check("on a squash", w.Seal(work).Layer, seen)
	}
}

// forks changes one state in two generations at once.
func (w *World) forks(on workspace.Sealed, want []Item) {
	w.T.Helper()
	var cells [2]workspace.Cell
	var works [2]*workspace.Work
	var seen [2][]Item
	for i := range cells {
		cells[i] = w.Cell
		cells[i].ID = fmt.Sprintf("cell_fork%d", i)
		if w.Cell.Backend == workspace.BackendDelta {
			w.Must(w.Store.ForkLive(context.Background(), cells[i], on.Layer))
			cells[i].Live = w.Store.LivePath(cells[i].ID)
			SameItems(w.T, "fork", want, See(w.T, cells[i].Live))
		}
		works[i] = w.Begin(cells[i], on.Layer)
	}
	for i := range works {
		seen[i] = w.Do(works[i],
			Act{Do: "write", Path: Bytes("file"), Data: Bytes("fork %d", i)},
			Act{Do: "rm", Path: Bytes("moved")},
			Act{Do: "write", Path: Bytes("only%d", i), Data: Bytes("x")})
	}
	for i := range works {
		w.Check(fmt.Sprintf("fork %d", i), w.Seal(works[i]).Layer, seen[i])
	}
	w.Check("forked state", on.Layer, want)
}

// Switches takes a live directory back to an older state.
func (w *World) Switches(from, to workspace.Sealed, want []Item) {
	w.T.Helper()
	if w.Cell.Backend != workspace.BackendDelta {
		w.Must(w.Store.Switch(context.Background(), w.Cell, from.Layer, to.Layer, w.Op()))
		return
	}
	drift, err := w.Store.Drift(context.Background(), w.Cell, from.Layer, w.Op())
	w.Must(err)
	if !drift.Unchanged {
		w.T.Errorf("nobody touched the live directory, yet it drifted: %+v", drift)
	}
	op := w.Op()
	w.Must(w.Store.Switch(context.Background(), w.Cell, from.Layer, to.Layer, op))
	SameItems(w.T, "switched", want, See(w.T, w.Source))
	done, err := w.Store.ResumeSwitch(context.Background(), w.Cell, op)
	w.Must(err)
	if !done {
		w.T.Error("the switch is said to have been taken back")
	}
	w.Must(w.Store.ForgetSwitch(op))
	drift, err = w.Store.Drift(context.Background(), w.Cell, to.Layer, w.Op())
	w.Must(err)
	if !drift.Unchanged {
		w.T.Errorf("after the switch the directory is not the state: %+v", drift)
	}
}

// testHome checks that the cell user's home is a part of the state.
func testHome(t *testing.T, w *World) {
	base, _ := w.Import()
	work := w.Begin(w.Cell, base.Layer)
	want, err := w.doAt(work, homeTarget,
		Act{Do: "write", Path: Bytes(".history"), Data: Bytes("ls")},
		Act{Do: "mkdir", Path: Bytes(".cache")},
		Act{Do: "write", Path: Bytes(".cache/x"), Data: Bytes("x")},
		Act{Do: "chmod", Path: Bytes(".cache"), N: 0o500})
	w.Must(err)
	one := w.Seal(work)
	if one.Unchanged || one.Changed != 0 {
		t.Errorf("sealed: %+v", one)
	}
	w.Verify("home", one.Layer)
	work = w.Begin(w.Cell, one.Layer)
	seen, err := w.doAt(work, homeTarget)
	w.Must(err)
	SameItems(t, "home of the next generation", want, seen)
	w.Do(work, Act{Do: "write", Path: Bytes("ws"), Data: Bytes("1")})
	two := w.Seal(work)
	if two.Areas[workspace.AreaHome] != one.Areas[workspace.AreaHome] {
		t.Error("the home changed although nobody touched it")
	}
	w.Verify("home, later", two.Layer)
	sq, err := w.Store.Squash(context.Background(), w.Cell, two.Layer, w.Op())
	w.Must(err)
	w.Verify("home, squashed", sq.Layer)
	dst := TempDir(t)
	d, err := fsx.OpenRoot(dst)
	w.Must(err)
	defer d.Close()
	w.Must(w.Store.Materialise(context.Background(), w.Cell.Backend, sq.Layer, workspace.AreaHome, d, workspace.MaterialiseOptions{Owners: os.Geteuid() == 0}))
	SameItems(t, "home as files", want, See(t, dst))

	fresh, err := w.Store.NewHome(context.Background(), w.Cell, two.Layer, w.Op())
	w.Must(err)
	if fresh.Areas[workspace.AreaWorkspace] != two.Areas[workspace.AreaWorkspace] || fresh.Areas[workspace.AreaHome].Root == two.Areas[workspace.AreaHome].Root || fresh.Changed != 0 {
		t.Errorf("a new home: %+v", fresh)
	}
	w.Verify("new home", fresh.Layer)
	work = w.Begin(w.Cell, fresh.Layer)
	seen, err = w.doAt(work, homeTarget)
	w.Must(err)
	if len(seen) != 1 {
		t.Errorf("a new home has %+v", seen)
	}
	want, err = w.doAt(work, homeTarget, Act{Do: "write", Path: Bytes(".history"), Data: Bytes("again")})
	w.Must(err)
	w.Do(work, Act{Do: "write", Path: Bytes("ws"), Data: Bytes("2")})
	three := w.Seal(work)
	w.Verify("on a new home", three.Layer)
	work = w.Begin(w.Cell, three.Layer)
	seen, err = w.doAt(work, homeTarget)
	w.Must(err)
	SameItems(t, "home on a new home", want, seen)
	w.Must(work.Discard())
	sq, err = w.Store.Squash(context.Background(), w.Cell, three.Layer, w.Op())
	w.Must(err)
	w.Verify("new home, squashed", sq.Layer)
}
