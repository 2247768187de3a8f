package workspace

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// sharedState seals a state for areas to be based on, of two layers.
func (w *world) sharedState() Base {
	w.t.Helper()
	c := Cell{ID: "cell_shared", Backend: BackendOverlay, MountAt: "/shared"}
	base, _, err := w.s.Import(context.Background(), c, w.op(), Source{Fill: func(dst *fsx.Dir) (OwnerOf, error) {
		f, err := dst.Create("old", 0o644)
		if err != nil {
			return nil, err
		}
		_, err = f.WriteString("old")
		return func(string) (Owner, bool) { return Owner{}, false }, errors.Join(err, f.Close())
	}})
	w.must(err)
	next, err := w.s.Compose(context.Background(), c, base.Layer, w.op(), []Edit{newFile("more", "more")})
	w.must(err)
	return Base{Layer: next.Layer, Label: "chk_shared"}
}

// TestBaseArea passes an area on a sealed state through all operations of a
// state. The sealed state never changes, and it is listed among the layers that
// are needed.
func TestBaseArea(t *testing.T) {
	t.Parallel()
	w := newWorld(t, BackendOverlay)
	base := w.sharedState()
	w.c.Areas = []Area{{Name: dataArea, Target: "/data", Base: base}}
	first, _ := w.imports()

	work := w.begin(w.c, first.Layer)
	if seen := names(w.inArea(work)); !slices.Equal(seen, []string{"more", "old"}) {
		t.Errorf("the area at first: %q", seen)
	}
	if idle := w.seal(work); !idle.Unchanged || len(idle.Areas) != 2 {
		t.Errorf("an area that nobody changed is in the state: %+v", idle)
	}

	work = w.begin(w.c, first.Layer)
	begun, err := w.s.BaseStates(work.p.op)
	w.must(err)
	if d := cmp.Diff(map[string]Base{dataArea: base}, begun); d != "" {
		t.Errorf("begun: %s", d)
	}
	want := w.inArea(work,
		act{Do: "append", Path: p("old"), Data: p(" and new")}, act{Do: "rm", Path: p("more")},
		act{Do: "mkdir", Path: p("dir")}, act{Do: "write", Path: p("dir/in"), Data: p("in")})
	one := w.seal(work)
	w.verify("one", one.Layer)
	sameItems(t, "the area on one", want, w.areaSeen(one.Layer))
	if begun, err := w.s.BaseStates(work.p.op); err != nil || begun[dataArea] != base {
		t.Errorf("begun, when it is sealed: %+v, %v", begun, err)
	}
	two := w.areaKept(one, want)
	w.areaSquash(two, want)
	w.areaForks(one)

	work = w.begin(w.c, first.Layer)
	if seen := names(w.inArea(work)); !slices.Equal(seen, []string{"more", "old"}) {
		t.Errorf("another state sees the changes of the first: %q", seen)
	}
	w.must(work.Discard())
	w.verify("the sealed state", base.Layer)
	w.baseIsNeeded(one, base)
}

// baseIsNeeded sweeps, and checks that the state that an area is based on
// stays.
func (w *world) baseIsNeeded(one Sealed, base Base) {
	w.t.Helper()
	chain, err := w.s.Chain(one.Layer)
	w.must(err)
	if !slices.Contains(chain, base.Layer) {
		w.t.Errorf("a state does not need what its area is based on: %q", chain)
	}
	if n, err := w.s.Depth(one.Layer); n != 2 || err != nil {
		w.t.Errorf("the state is %d layers deep, %v", n, err)
	}
	_, err = w.s.Sweep(context.Background(), func(l string) bool { return l == one.Layer }, func(string) bool { return false }, false)
	w.must(err)
	w.verify("one, swept", one.Layer)
	w.areaSeen(one.Layer)
	w.must(os.RemoveAll(w.home + "/layers/" + base.Layer))
	diffs, err := w.s.Verify(context.Background(), w.c, one.Layer)
	if err == nil && len(diffs) == 0 {
		w.t.Error("nobody notices that what the area is based on is gone")
	}
}

// names lists the paths of what was seen, without the directory itself.
func names(items []item) []string {
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
	w := newWorld(t, BackendOverlay)
	w.c.Areas = []Area{{Name: dataArea, Target: "/data"}}
	first, _ := w.imports()
	work := w.begin(w.c, first.Layer)
	want := w.inArea(work, act{Do: "write", Path: p("a"), Data: p("a")})
	one := w.seal(work)
	w.verify("one", one.Layer)
	sameItems(t, "on one", want, w.areaSeen(one.Layer))
	work = w.begin(w.c, one.Layer)
	w.inArea(work, act{Do: "rm", Path: p("a")})
	two := w.seal(work)
	w.verify("two", two.Layer)
	if seen := names(w.areaSeen(two.Layer)); len(seen) > 0 {
		t.Errorf("there is %q", seen)
	}
}

// TestBaseErrors names areas that cannot be based on a sealed state.
func TestBaseErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t, BackendOverlay)
	base := w.sharedState()
	good := Area{Name: dataArea, Target: "/data", Base: base}
	w.c.Areas = []Area{good}
	first, _ := w.imports()
	work := w.begin(w.c, first.Layer)
	w.inArea(work, act{Do: "write", Path: p("a"), Data: p("a")})
	one := w.seal(work)
	try := func(a Area) error {
		c := w.c
		c.Areas = []Area{a}
		work, err := w.s.Begin(context.Background(), c, one.Layer, w.op())
		if err == nil {
			w.must(work.Discard())
		}
		return err
	}
	w.must(try(good))
	other, both, lost, system := good, good, good, good
	other.Base = w.sharedState()
	if err := try(other); !errors.Is(err, ErrMixed) {
		t.Errorf("on another state: %v", err)
	}
	both.Host, lost.Base.Layer, system.System = w.src, "layer_9999", true
	lost.Name = "path:/lost"
	for what, a := range map[string]Area{"on both": both, "on what is lost": lost, "a system area": system} {
		if err := try(a); err == nil {
			t.Errorf("%s: it is allowed", what)
		}
	}
	for _, name := range []Backend{BackendClone, BackendDelta} {
		b, err := w.s.backend(name)
		w.must(err)
		if err := checkAreas(b, Cell{Backend: name, Areas: []Area{good}}); !errors.Is(err, ErrNoBase) {
			t.Errorf("backend %s: %v", name, err)
		}
	}
}
