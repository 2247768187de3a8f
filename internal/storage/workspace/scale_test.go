package workspace

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
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
		must(os.Link(dir+"/name-0", dir+"/"+string(p("name-%d", i+1))))
	}
}

// TestHardTrees: the cost of every operation depends on what is stored, and
// none needs a descriptor for each level of a tree.
func TestHardTrees(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		makeHard(t, w.src)
		ctx := context.Background()
		base, report := w.imports()
		if report.Dirs != 2*deepLevels || report.Bytes < hugeSize {
			t.Errorf("imported: %+v", report)
		}
		if base.Bytes > 64<<20 {
			t.Errorf("the state takes %d bytes of disk", base.Bytes)
		}
		w.verify("base", base.Layer)

		deepest := strings.Repeat(deepName+"/", deepLevels)
		one, err := w.s.Compose(ctx, w.c, base.Layer, w.op(), []Edit{newFile(deepest+"new", "deep")})
		w.must(err)
		if one.Changed != 1 {
			t.Errorf("composed: %d changes", one.Changed)
		}
		w.verify("composed", one.Layer)
		flat, err := w.s.Squash(ctx, w.c, one.Layer, w.op())
		w.must(err)
		w.verify("squashed", flat.Layer)

		copied := tempDir(t)
		d, err := fsx.OpenRoot(copied)
		w.must(err)
		defer d.Close()
		w.must(w.s.Materialise(ctx, w.c.Backend, flat.Layer, AreaWorkspace, d, MaterialiseOptions{Owners: os.Geteuid() == 0}))
		again, _, err := w.s.Scan(ctx, Cell{}, d, nil)
		w.must(err)
		differences, err := tree.Compare(w.tree(flat.Layer), again)
		w.must(err)
		if len(differences) > 0 {
			t.Errorf("the copy differs: %v", differences[0])
		}
		space, err := diskUsage(ctx, d)
		w.must(err)
		if space > 64<<20 {
			t.Errorf("the copy takes %d bytes of disk", space)
		}
		if w.c.Backend == BackendDelta {
			w.must(w.s.ForkLive(ctx, Cell{ID: "cell_fork", Backend: BackendDelta}, flat.Layer))
		}
		got, err := w.s.Sweep(ctx, func(string) bool { return false }, func(string) bool { return false }, false)
		w.must(err)
		before, err := usageOf(ctx, w.s.home, ".")
		w.must(err)
		w.must(w.s.Empty(ctx, &got))
		after, err := usageOf(ctx, w.s.home, ".")
		w.must(err)
		if len(got.Layers) != 3 {
			t.Errorf("swept: %+v", got)
		}
		// Objects went with the sweep itself.
		if freed := before - after; got.Bytes < freed || w.c.Backend != BackendDelta && got.Bytes-freed > 1<<16 {
			t.Errorf("freed %d bytes of disk, said %d", freed, got.Bytes)
		}
	})
}

// TestHardGeneration seals and captures what a command did to such a tree.
func TestHardGeneration(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		base, _ := w.imports()
		work := w.begin(w.c, base.Layer)
		dir := work.Dir() + "/" + AreaWorkspace // as the overlay would leave it
		if w.c.Backend == BackendDelta {
			dir = w.src
		}
		makeHard(t, dir)
		captured, err := work.Snapshot(ctx, w.op())
		w.must(err)
		w.verify("captured", captured.Layer)
		sealed := w.seal(work)
		if sealed.Areas[AreaWorkspace].Root != captured.Areas[AreaWorkspace].Root {
			t.Error("what was captured is not what was sealed")
		}
		if sealed.Bytes > 64<<20 || captured.Bytes > 64<<20 {
			t.Errorf("the states take %d and %d bytes of disk", sealed.Bytes, captured.Bytes)
		}
		w.verify("sealed", sealed.Layer)
	})
}

// TestCancelled: reading and copying end when their context is cancelled.
func TestCancelled(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		makeHard(t, w.src)
		base, _ := w.imports()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, verify := w.s.Verify(ctx, w.c, base.Layer)
		_, squash := w.s.Squash(ctx, w.c, base.Layer, w.op())
		_, _, imported := w.s.Import(ctx, w.c, w.op(), Source{Dir: w.src})
		_, sweep := w.s.Sweep(ctx, func(string) bool { return false }, func(string) bool { return false }, false)
		for what, err := range map[string]error{"verify": verify, "squash": squash, "import": imported, "sweep": sweep} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}
