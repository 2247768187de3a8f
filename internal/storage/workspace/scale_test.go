package workspace_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/storage/workspace/workspacetest"
)

const (
	deepLevels = 300
	// deepName makes paths far beyond what the kernel takes at once.
	deepName = "directory-in-directory"
	hugeSize = 2 << 40
)

// makeHard makes a tree that is hard to walk: directories in one another, each
// with a second one beside, a file of holes, and files with many names.
func makeHard(t *testing.T, dir string) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	at, err := unix.Open(dir, unix.O_DIRECTORY, 0)
	must(err)
	for range deepLevels {
		must(unix.Mkdirat(at, deepName, 0o755))
		must(unix.Mkdirat(at, "beside", 0o700))
		next, err := unix.Openat(at, deepName, unix.O_DIRECTORY, 0)
		must(err)
		must(unix.Close(at))
		at = next
	}
	must(unix.Symlinkat(strings.Repeat("x", 4095), at, "link"))
	must(unix.Close(at))
	f, err := os.Create(dir + "/huge")
	must(err)
	must(f.Truncate(hugeSize))
	_, err = f.WriteAt([]byte("in the middle"), hugeSize/2)
	must(err)
	must(f.Close())
	must(os.WriteFile(dir+"/name-0", []byte("one file"), 0o644))
	for i := range 200 {
		must(os.Link(dir+"/name-0", dir+"/"+string(workspacetest.Bytes("name-%d", i+1))))
	}
}

// TestHardTrees: the cost of every operation depends on what is stored, and
// none needs a descriptor for each level of a tree.
func TestHardTrees(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		makeHard(t, w.Source)
		ctx := context.Background()
		base, report := w.Import()
		if report.Dirs != 2*deepLevels || report.Bytes < hugeSize {
			t.Errorf("imported: %+v", report)
		}
		if base.Bytes > 64<<20 {
			t.Errorf("the state takes %d bytes of disk", base.Bytes)
		}
		w.Verify("base", base.Layer)

		deepest := strings.Repeat(deepName+"/", deepLevels)
		one, err := w.Store.Compose(ctx, w.Cell, base.Layer, w.Op(), []workspace.Edit{workspacetest.NewFile(deepest+"new", "deep")})
		w.Must(err)
		if one.Changed != 1 {
			t.Errorf("composed: %d changes", one.Changed)
		}
		w.Verify("composed", one.Layer)
		flat, err := w.Store.Squash(ctx, w.Cell, one.Layer, w.Op())
		w.Must(err)
		w.Verify("squashed", flat.Layer)

		copied := workspacetest.TempDir(t)
		d, err := fsx.OpenRoot(copied)
		w.Must(err)
		defer d.Close()
		w.Must(w.Store.Materialise(ctx, w.Cell.Backend, flat.Layer, workspace.AreaWorkspace, d, workspace.MaterialiseOptions{Owners: os.Geteuid() == 0}))
		again, _, err := w.Store.Scan(ctx, workspace.Cell{}, d, nil)
		w.Must(err)
		differences, err := tree.Compare(w.Tree(flat.Layer), again)
		w.Must(err)
		if len(differences) > 0 {
			t.Errorf("the copy differs: %v", differences[0])
		}
		space, err := workspace.DiskUsage(ctx, d)
		w.Must(err)
		if space > 64<<20 {
			t.Errorf("the copy takes %d bytes of disk", space)
		}
		if w.Cell.Backend == workspace.BackendDelta {
			w.Must(w.Store.ForkLive(ctx, workspace.Cell{ID: "cell_fork", Backend: workspace.BackendDelta}, flat.Layer))
		}
		got, err := w.Store.Sweep(ctx, func(string) bool { return false }, func(string) bool { return false }, false)
		w.Must(err)
		home, err := fsx.OpenRoot(w.Home)
		w.Must(err)
		defer home.Close()
		before, err := workspace.DiskUsage(ctx, home)
		w.Must(err)
		w.Must(w.Store.Empty(ctx, &got))
		after, err := workspace.DiskUsage(ctx, home)
		w.Must(err)
		if len(got.Layers) != 3 {
			t.Errorf("swept: %+v", got)
		}
		// Objects went with the sweep itself.
		if freed := before - after; got.Bytes < freed || w.Cell.Backend != workspace.BackendDelta && got.Bytes-freed > 1<<16 {
			t.Errorf("freed %d bytes of disk, said %d", freed, got.Bytes)
		}
	})
}

// TestHardGeneration seals and captures what a command did to such a tree.
func TestHardGeneration(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		base, _ := w.Import()
		work := w.Begin(w.Cell, base.Layer)
		dir := work.Dir() + "/" + workspace.AreaWorkspace // as the overlay would leave it
		if w.Cell.Backend == workspace.BackendDelta {
			dir = w.Source
		}
		makeHard(t, dir)
		captured, err := work.Snapshot(ctx, w.Op())
		w.Must(err)
		w.Verify("captured", captured.Layer)
		sealed := w.Seal(work)
		if sealed.Areas[workspace.AreaWorkspace].Root != captured.Areas[workspace.AreaWorkspace].Root {
			t.Error("what was captured is not what was sealed")
		}
		if sealed.Bytes > 64<<20 || captured.Bytes > 64<<20 {
			t.Errorf("the states take %d and %d bytes of disk", sealed.Bytes, captured.Bytes)
		}
		w.Verify("sealed", sealed.Layer)
	})
}

// TestCancelled: reading and copying end when their context is cancelled.
func TestCancelled(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		makeHard(t, w.Source)
		base, _ := w.Import()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, verify := w.Store.Verify(ctx, w.Cell, base.Layer)
		_, squash := w.Store.Squash(ctx, w.Cell, base.Layer, w.Op())
		_, _, imported := w.Store.Import(ctx, w.Cell, w.Op(), workspace.Source{Dir: w.Source})
		_, sweep := w.Store.Sweep(ctx, func(string) bool { return false }, func(string) bool { return false }, false)
		for what, err := range map[string]error{"verify": verify, "squash": squash, "import": imported, "sweep": sweep} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}
