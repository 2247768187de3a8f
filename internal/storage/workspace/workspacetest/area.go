package workspacetest

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/mount"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// DataArea is the name of the area that AddArea gives the cell.
const DataArea = "path:/data"

// AddArea gives the cell an area over a new directory of the host. Everything
// in it may be read by others: private files would not be in the area.
func (w *World) AddArea(acts ...Act) (host string) {
	w.T.Helper()
	host = path.Join(path.Dir(w.Source), "data")
	w.Must(os.Mkdir(host, 0o755))
	Play(w.T, Job{Dir: host, Acts: acts, Loose: true})
	w.Must(filepath.WalkDir(host, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&os.ModeSymlink != 0 || os.Geteuid() != 0 {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil {
			return err
		}
		return unix.Chmod(name, st.Mode&0o7777|0o005)
	}))
	w.Cell.Areas = []workspace.Area{{Name: DataArea, Host: host, Target: "/data"}}
	return host
}

// WithoutAreas returns the cell without its areas.
func (w *World) WithoutAreas() workspace.Cell {
	c := w.Cell
	c.Areas = nil
	return c
}

// DoInArea makes changes in the area and returns its contents at the end.
func (w *World) DoInArea(work *workspace.Work, acts ...Act) []Item {
	w.T.Helper()
	items, err := w.doAt(work, "/data", acts...)
	w.Must(err)
	return w.dropUnreliable(items)
}

// AreaSeen is what a generation on a state sees in the area.
func (w *World) AreaSeen(layer string) []Item {
	w.T.Helper()
	work := w.Begin(w.Cell, layer)
	defer func() { w.Must(work.Discard()) }()
	return w.DoInArea(work)
}

// testArea passes an area through all operations of a state, on every backend.
func testArea(t *testing.T, w *World) {
	host := w.AddArea(areaSource()...)
	before := See(t, host)
	base, _ := w.Import()

	work := w.Begin(w.Cell, base.Layer)
	SameItems(t, "the area at first", before, w.DoInArea(work))
	if idle := w.Seal(work); !idle.Unchanged || len(idle.Areas) != 2 {
		t.Errorf("an area that nobody changed is in the state: %+v", idle)
	}
	w.NoPending()

	work = w.Begin(w.Cell, base.Layer)
	want := w.DoInArea(work, areaChanges()...)
	one := w.Seal(work)
	if _, ok := one.Areas[DataArea]; !ok || one.Changed != 0 || one.Unchanged {
		t.Errorf("sealed: %+v", one)
	}
	SameItems(t, "the host", before, See(t, host))
	w.Verify("one", one.Layer)
	SameItems(t, "the area on one", want, w.AreaSeen(one.Layer))

	two := w.AreaKept(one, want)
	work = w.Begin(w.Cell, two.Layer)
	want = w.DoInArea(work,
		Act{Do: "rm", Path: Bytes("olddir/y")}, Act{Do: "rm", Path: Bytes("made")}, Act{Do: "rm", Path: Bytes("wide")},
		Act{Do: "rm", Path: Bytes("emptydir")}, Act{Do: "mkdir", Path: Bytes("emptydir")}, Act{Do: "write", Path: Bytes("empty"), Data: Bytes("again")})
	three := w.Seal(work)
	w.Verify("three", three.Layer)
	SameItems(t, "the area on three", want, w.AreaSeen(three.Layer))
	w.AreaSquash(three, want)
	w.AreaForks(one)
	SameItems(t, "the area on the import", before, w.AreaSeen(base.Layer))
	SameItems(t, "the host, at the end", before, See(t, host))
}

// AreaKept checks that a state keeps an area that a generation does not ask
// for.
func (w *World) AreaKept(one workspace.Sealed, want []Item) workspace.Sealed {
	w.T.Helper()
	work := w.Begin(w.WithoutAreas(), one.Layer)
	if _, err := w.doAt(work, "/w", Act{Do: "write", Path: Bytes("ws"), Data: Bytes("1")}); err != nil {
		w.T.Fatal(err)
	}
	if set := work.Mounts(); len(set.Overlays) > 2 || slices.ContainsFunc(set.Binds, func(b mount.Bind) bool { return b.Target == "/data" }) {
		w.T.Errorf("the area is there although nobody asked: %+v", set)
	}
	two := w.Seal(work)
	composed, err := w.Store.Compose(context.Background(), w.Cell, two.Layer, w.Op(), []workspace.Edit{NewFile("composed", "c")})
	w.Must(err)
	for what, s := range map[string]workspace.Sealed{"without it": two, "composed": composed} {
		if s.Areas[DataArea] != one.Areas[DataArea] || s.Unchanged {
			w.T.Errorf("%s: %+v", what, s)
		}
		w.Verify(what, s.Layer)
		SameItems(w.T, what, want, w.AreaSeen(s.Layer))
	}
	// A generation that only reads it leaves nothing.
	work = w.Begin(w.Cell, two.Layer)
	w.DoInArea(work)
	if idle := w.Seal(work); !idle.Unchanged {
		w.T.Errorf("an idle generation was kept: %+v", idle)
	}
	if w.Cell.Backend == workspace.BackendDelta {
		w.Must(os.WriteFile(w.Source+"/drifted", nil, 0o600))
		drift, err := w.Store.Drift(context.Background(), w.Cell, two.Layer, w.Op())
		w.Must(err)
		if drift.Areas[DataArea] != one.Areas[DataArea] {
			w.T.Errorf("drift: %+v", drift)
		}
		return drift
	}
	return two
}

// AreaSquash squashes a state with an area and removes the other layers.
func (w *World) AreaSquash(three workspace.Sealed, want []Item) {
	w.T.Helper()
	sq, err := w.Store.Squash(context.Background(), w.Cell, three.Layer, w.Op())
	w.Must(err)
	if d := cmp.Diff(three.Areas, sq.Areas); d != "" {
		w.T.Errorf("squash changed the roots: %s", d)
	}
	if n, err := w.Store.Depth(sq.Layer); n != 1 || err != nil {
		w.T.Errorf("a squashed state needs %d layers, %v", n, err)
	}
	w.Verify("squashed", sq.Layer)
	SameItems(w.T, "the area on a squash", want, w.AreaSeen(sq.Layer))
	work := w.Begin(w.Cell, sq.Layer)
	now := w.DoInArea(work, Act{Do: "write", Path: Bytes("after"), Data: Bytes("squash")}, Act{Do: "rm", Path: Bytes("file")})
	after := w.Seal(work)
	w.Verify("after the squash", after.Layer)
	SameItems(w.T, "the area after the squash", now, w.AreaSeen(after.Layer))
}

// AreaForks changes one area in two generations at once.
func (w *World) AreaForks(on workspace.Sealed) {
	w.T.Helper()
	var works [2]*workspace.Work
	for i := range works {
		works[i] = w.Begin(w.Cell, on.Layer)
	}
	for i, work := range works {
		want := w.DoInArea(work, Act{Do: "write", Path: Bytes("fork%d", i), Data: Bytes("x")}, Act{Do: "rm", Path: Bytes("file")})
		sealed := w.Seal(work)
		w.Verify("fork", sealed.Layer)
		SameItems(w.T, "fork", want, w.AreaSeen(sealed.Layer))
	}
}
