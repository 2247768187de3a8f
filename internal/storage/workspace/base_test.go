package workspace_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/storage/workspace/workspacetest"
)

// sharedState seals a state for areas to be based on, of two layers.
func (w *world) sharedState() workspace.Base {
	w.T.Helper()
	c := workspace.Cell{ID: "cell_shared", Backend: workspace.BackendOverlay, MountAt: "/shared"}
	base, _, err := w.Store.Import(context.Background(), c, w.Op(), workspace.Source{Fill: func(dst *fsx.Dir) (workspace.OwnerOf, error) {
		f, err := dst.Create("old", 0o644)
		if err != nil {
			return nil, err
		}
		_, err = f.WriteString("old")
		return func(string) (workspace.Owner, bool) { return workspace.Owner{}, false }, errors.Join(err, f.Close())
	}})
	w.Must(err)
	next, err := w.Store.Compose(context.Background(), c, base.Layer, w.Op(), []workspace.Edit{workspacetest.NewFile("more", "more")})
	w.Must(err)
	return workspace.Base{Layer: next.Layer, Label: "chk_shared"}
}

// TestBaseArea passes an area on a sealed state through all operations of a
// state. The sealed state never changes, and it is listed among the layers that
// are needed.
func TestBaseArea(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workspace.BackendOverlay)
	base := w.sharedState()
	w.Cell.Areas = []workspace.Area{{Name: workspacetest.DataArea, Target: "/data", Base: base}}
	first, _ := w.Import()

	work := w.Begin(w.Cell, first.Layer)
	if seen := names(w.DoInArea(work)); !slices.Equal(seen, []string{"more", "old"}) {
		t.Errorf("the area at first: %q", seen)
	}
	if idle := w.Seal(work); !idle.Unchanged || len(idle.Areas) != 2 {
		t.Errorf("an area that nobody changed is in the state: %+v", idle)
	}

	work = w.Begin(w.Cell, first.Layer)
	begun, err := w.Store.BaseStates(workspacetest.OpOf(work))
	w.Must(err)
	if d := cmp.Diff(map[string]workspace.Base{workspacetest.DataArea: base}, begun); d != "" {
		t.Errorf("begun: %s", d)
	}
	want := w.DoInArea(work,
		workspacetest.Act{Do: "append", Path: workspacetest.Bytes("old"), Data: workspacetest.Bytes(" and new")}, workspacetest.Act{Do: "rm", Path: workspacetest.Bytes("more")},
		workspacetest.Act{Do: "mkdir", Path: workspacetest.Bytes("dir")}, workspacetest.Act{Do: "write", Path: workspacetest.Bytes("dir/in"), Data: workspacetest.Bytes("in")})
	one := w.Seal(work)
	w.Verify("one", one.Layer)
	workspacetest.SameItems(t, "the area on one", want, w.AreaSeen(one.Layer))
	if begun, err := w.Store.BaseStates(workspacetest.OpOf(work)); err != nil || begun[workspacetest.DataArea] != base {
		t.Errorf("begun, when it is sealed: %+v, %v", begun, err)
	}
	two := w.AreaKept(one, want)
	w.AreaSquash(two, want)
	w.AreaForks(one)

	work = w.Begin(w.Cell, first.Layer)
	if seen := names(w.DoInArea(work)); !slices.Equal(seen, []string{"more", "old"}) {
		t.Errorf("another state sees the changes of the first: %q", seen)
	}
	w.Must(work.Discard())
	w.Verify("the sealed state", base.Layer)
	w.baseIsNeeded(one, base)
}

// baseIsNeeded sweeps, and checks that the state that an area is based on
// stays.
func (w *world) baseIsNeeded(one workspace.Sealed, base workspace.Base) {
	w.T.Helper()
	chain, err := w.Store.Chain(one.Layer)
	w.Must(err)
	if !slices.Contains(chain, base.Layer) {
		w.T.Errorf("a state does not need what its area is based on: %q", chain)
	}
	if n, err := w.Store.Depth(one.Layer); n != 2 || err != nil {
		w.T.Errorf("the state is %d layers deep, %v", n, err)
	}
	_, err = w.Store.Sweep(context.Background(), func(l string) bool { return l == one.Layer }, func(string) bool { return false }, false)
	w.Must(err)
	w.Verify("one, swept", one.Layer)
	w.AreaSeen(one.Layer)
	w.Must(os.RemoveAll(w.Home + "/layers/" + base.Layer))
	diffs, err := w.Store.Verify(context.Background(), w.Cell, one.Layer)
	if err == nil && len(diffs) == 0 {
		w.T.Error("nobody notices that what the area is based on is gone")
	}
}

// names lists the paths of what was seen, without the directory itself.
func names(items []workspacetest.Item) []string {
	var list []string
	for _, i := range items {
		if string(i.Path) != "." {
			list = append(list, string(i.Path))
		}
	}
	slices.Sort(list)
	return list
}

// TestAreaOnNothing: an area may be based on nothing at all.
func TestAreaOnNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workspace.BackendOverlay)
	w.Cell.Areas = []workspace.Area{{Name: workspacetest.DataArea, Target: "/data"}}
	first, _ := w.Import()
	work := w.Begin(w.Cell, first.Layer)
	want := w.DoInArea(work, workspacetest.Act{Do: "write", Path: workspacetest.Bytes("a"), Data: workspacetest.Bytes("a")})
	one := w.Seal(work)
	w.Verify("one", one.Layer)
	workspacetest.SameItems(t, "on one", want, w.AreaSeen(one.Layer))
	work = w.Begin(w.Cell, one.Layer)
	w.DoInArea(work, workspacetest.Act{Do: "rm", Path: workspacetest.Bytes("a")})
	two := w.Seal(work)
	w.Verify("two", two.Layer)
	if seen := names(w.AreaSeen(two.Layer)); len(seen) > 0 {
		t.Errorf("there is %q", seen)
	}
}

// TestBaseErrors names areas that cannot be based on a sealed state.
func TestBaseErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workspace.BackendOverlay)
	base := w.sharedState()
	good := workspace.Area{Name: workspacetest.DataArea, Target: "/data", Base: base}
	w.Cell.Areas = []workspace.Area{good}
	first, _ := w.Import()
	work := w.Begin(w.Cell, first.Layer)
	w.DoInArea(work, workspacetest.Act{Do: "write", Path: workspacetest.Bytes("a"), Data: workspacetest.Bytes("a")})
	one := w.Seal(work)
	try := func(a workspace.Area) error {
		c := w.Cell
		c.Areas = []workspace.Area{a}
		work, err := w.Store.Begin(context.Background(), c, one.Layer, w.Op())
		if err == nil {
			w.Must(work.Discard())
		}
		return err
	}
	w.Must(try(good))
	other, both, lost, system := good, good, good, good
	other.Base = w.sharedState()
	if err := try(other); !errors.Is(err, workspace.ErrMixed) {
		t.Errorf("on another state: %v", err)
	}
	both.Host, lost.Base.Layer, system.System = w.Source, "layer_9999", true
	lost.Name = "path:/lost"
	for what, a := range map[string]workspace.Area{"on both": both, "on what is lost": lost, "a system area": system} {
		if err := try(a); err == nil {
			t.Errorf("%s: it is allowed", what)
		}
	}
	for _, name := range []workspace.Backend{workspace.BackendClone, workspace.BackendDelta} {
		if err := w.Store.CheckAreas(workspace.Cell{Backend: name, Areas: []workspace.Area{good}}); !errors.Is(err, workspace.ErrNoBase) {
			t.Errorf("backend %s: %v", name, err)
		}
	}
}
