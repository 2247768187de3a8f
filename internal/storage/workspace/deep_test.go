package workspace

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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
	for _, b := range []Backend{BackendOverlay, BackendDelta} {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, b)
			makeDeep(t, w.src, testDepth)
			base, _ := w.imports()
			edit := newFile(deepest("new"), "deep")
			plain := edit.Open
			edit.Open = func() (io.ReadCloser, error) {
				if n := openDescriptors(t); n > testDepth/2 {
					t.Errorf("%d open descriptors", n)
				}
				return plain()
			}
			one, err := w.s.Compose(context.Background(), w.c, base.Layer, w.op(), []Edit{edit, {Path: deepest("link")}})
			w.must(err)
			if one.Changed != 2 {
				t.Errorf("%d changes", one.Changed)
			}
			w.verify("composed", one.Layer)
		})
	}
}

// TestTakeBackDeep: owners and lists of a deep live directory are put back
// level by level.
func TestTakeBackDeep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, BackendDelta)
	base, _ := w.imports()
	work := w.begin(w.c, base.Layer)
	const levels = 8000
	makeDeep(t, w.src, levels)
	taken, err := work.TakeBack(context.Background())
	w.must(err)
	if len(taken) > 0 {
		t.Errorf("taken back: %d things", len(taken))
	}
	sealed := w.seal(work)
	if sealed.Changed != levels+1 {
		t.Errorf("%d changes", sealed.Changed)
	}
}
