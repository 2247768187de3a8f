package workspacetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// homeTarget is the home directory in the cell.
const homeTarget = "/home/sandbox"

// World is one home with one cell of one backend. What goes wrong ends its test.
type World struct {
	T     testing.TB
	Store *workspace.Store
	Cell  workspace.Cell
	// Home is the directory of the home, and Source that of the cell's source, which is
	// the live directory of a delta cell.
	Home, Source string

	ops      int
	openHome Open
}

// Open opens the states of a home.
type Open func(home string) (*workspace.Store, error)

// NewWorld makes a home and a source in a directory, with a cell of a backend.
func NewWorld(t testing.TB, b workspace.Backend, dir string, open Open) *World {
	t.Helper()
	w := &World{T: t, Home: dir + "/home", Source: dir + "/src", openHome: open}
	for _, d := range []string{w.Home, w.Source} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.reopen()
	w.Cell = workspace.Cell{ID: "cell_1", Backend: b, MountAt: "/w"}
	if b == workspace.BackendDelta {
		w.Cell.Live = w.Source
	}
	return w
}

// another makes another home of the same kind.
func (w *World) another(t testing.TB) *World {
	t.Helper()
	return NewWorld(t, w.Cell.Backend, TempDir(t), w.openHome)
}

// reopen opens the home once more, as another process would.
func (w *World) reopen() {
	w.T.Helper()
	s, err := w.openHome(w.Home)
	w.Must(err)
	w.T.Cleanup(func() { s.Close() })
	w.Store = s
}

// Op returns the name of a new operation.
func (w *World) Op() string {
	w.ops++
	return fmt.Sprintf("run_%04d", w.ops)
}

// Must ends the test at an error.
func (w *World) Must(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

// Import imports the source.
func (w *World) Import() (workspace.Sealed, workspace.Report) {
	w.T.Helper()
	sealed, report, err := w.Store.Import(context.Background(), w.Cell, w.Op(), workspace.Source{Dir: w.Source})
	w.Must(err)
	return sealed, report
}

// Begin begins a generation.
func (w *World) Begin(c workspace.Cell, layer string) *workspace.Work {
	w.T.Helper()
	work, err := w.Store.Begin(context.Background(), c, layer, w.Op())
	w.Must(err)
	return work
}

// Do makes changes in a generation as a cell would, and returns what the cell
// sees at the end.
func (w *World) Do(work *workspace.Work, acts ...Act) []Item {
	w.T.Helper()
	items, err := w.doAt(work, "/w", acts...)
	w.Must(err)
	return w.dropUnreliable(items)
}

// dropUnreliable drops what overlay is known to report wrongly while a generation is
// mounted: names of a file that was copied up and then linked have different
// inode numbers.
func (w *World) dropUnreliable(items []Item) []Item {
	if w.Cell.Backend == workspace.BackendOverlay {
		for i := range items {
			items[i].Link = unknownLink
		}
	}
	return items
}

// doAt works at the given target of the generation's mounts.
func (w *World) doAt(work *workspace.Work, target string, acts ...Act) ([]Item, error) {
	w.T.Helper()
	return tryPlay(w.T, w.job(work, target, acts))
}

// job makes the actor see a target of a generation's mounts.
func (w *World) job(work *workspace.Work, target string, acts []Act) Job {
	w.T.Helper()
	job := Job{Acts: acts}
	set := work.Mounts()
	for _, b := range set.Binds {
		if b.Target == target {
			job.Dir = b.Source
		}
	}
	for _, o := range set.Overlays {
		if o.Target == target {
			job.Dir = TempDir(w.T)
			job.Mounts = []Mount{{Target: job.Dir, Upper: o.Upper, Work: o.Work, Lower: o.Lower}}
		}
	}
	return job
}

// Seal seals a generation, and discards one without changes.
func (w *World) Seal(work *workspace.Work) workspace.Sealed {
	w.T.Helper()
	sealed, err := work.Seal(context.Background())
	w.Must(err)
	if sealed.Unchanged {
		w.Must(work.Discard())
	}
	return sealed
}

// Check verifies a state from its bytes, writes it out, and compares the files
// with what was seen.
func (w *World) Check(what, layer string, want []Item) {
	w.T.Helper()
	w.Verify(what, layer)
	dst := TempDir(w.T)
	d, err := fsx.OpenRoot(dst)
	w.Must(err)
	defer d.Close()
	w.Must(w.Store.Materialise(context.Background(), w.Cell.Backend, layer, workspace.AreaWorkspace, d, workspace.MaterialiseOptions{Owners: os.Geteuid() == 0}))
	got := See(w.T, dst)
	SameItems(w.T, what, want, got)
	if w.Cell.Backend == workspace.BackendOverlay {
		work := w.Begin(w.Cell, layer)
		view, err := w.doAt(work, "/w")
		w.Must(err)
		SameItems(w.T, what+", mounted", view, got)
		w.Must(work.Discard())
	}
}

// Verify verifies a state from its bytes.
func (w *World) Verify(what, layer string) {
	w.T.Helper()
	diffs, err := w.Store.Verify(context.Background(), w.Cell, layer)
	w.Must(err)
	for _, d := range diffs {
		w.T.Errorf("%s: verify %s: %q %v\n want %+v\n got  %+v", what, layer, d.Path, d.What, d.Want, d.Got)
	}
}

// Tree returns the workspace of a state.
func (w *World) Tree(layer string) *tree.Tree {
	w.T.Helper()
	m, err := w.Store.Manifest(layer)
	w.Must(err)
	t, ok := m.Area(workspace.AreaWorkspace)
	if !ok {
		w.T.Fatalf("%s has no workspace", layer)
	}
	return t
}

// Names lists a directory of the home. A missing one is empty.
func (w *World) Names(dir string) (list []string) {
	w.T.Helper()
	entries, err := os.ReadDir(w.Home + "/" + dir)
	if !errors.Is(err, os.ErrNotExist) {
		w.Must(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// OpOf returns the name of the operation that a generation belongs to.
func OpOf(work *workspace.Work) string { return filepath.Base(work.Dir()) }

// NoPending checks that no operation has left anything.
func (w *World) NoPending() {
	w.T.Helper()
	if left := w.Names("pending"); len(left) > 0 {
		w.T.Errorf("left in pending: %q", left)
	}
}
