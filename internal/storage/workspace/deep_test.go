package workspace_test

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/storage/workspace/workspacetest"
)

// testDepth is the depth of the deepest trees that are tried.
const testDepth = 30_000

// makeDeep makes directories in one another, with a file in the last.
func makeDeep(t *testing.T, dir string, levels int) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	at, err := unix.Open(dir, unix.O_DIRECTORY, 0)
	must(err)
	for range levels {
		must(unix.Mkdirat(at, "d", 0o755))
		next, err := unix.Openat(at, "d", unix.O_DIRECTORY, 0)
		must(err)
		must(unix.Close(at))
		at = next
	}
	must(unix.Symlinkat("end", at, "link"))
	must(unix.Close(at))
}

// deepest is the path of a name in the last directory of makeDeep.
func deepest(name string) string { return strings.Repeat("d/", testDepth) + name }

func openDescriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// TestComposeDeep: an edit at the bottom of a deep tree takes neither a descriptor
// nor a path for each level.
func TestComposeDeep(t *testing.T) {
	t.Parallel()
	for _, b := range []workspace.Backend{workspace.BackendOverlay, workspace.BackendDelta} {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, b)
			makeDeep(t, w.Source, testDepth)
			base, _ := w.Import()
			edit := workspacetest.NewFile(deepest("new"), "deep")
			plain := edit.Open
			edit.Open = func() (io.ReadCloser, error) {
				if n := openDescriptors(t); n > testDepth/2 {
					t.Errorf("%d open descriptors", n)
				}
				return plain()
			}
			one, err := w.Store.Compose(context.Background(), w.Cell, base.Layer, w.Op(), []workspace.Edit{edit, {Path: deepest("link")}})
			w.Must(err)
			if one.Changed != 2 {
				t.Errorf("%d changes", one.Changed)
			}
			w.Verify("composed", one.Layer)
		})
	}
}

// TestTakeBackDeep: owners and lists of a deep live directory are put back
// level by level.
func TestTakeBackDeep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workspace.BackendDelta)
	base, _ := w.Import()
	work := w.Begin(w.Cell, base.Layer)
	const levels = 8000
	makeDeep(t, w.Source, levels)
	taken, err := work.TakeBack(context.Background())
	w.Must(err)
	if len(taken) > 0 {
		t.Errorf("taken back: %d things", len(taken))
	}
	sealed := w.Seal(work)
	if sealed.Changed != levels+1 {
		t.Errorf("%d changes", sealed.Changed)
	}
}
