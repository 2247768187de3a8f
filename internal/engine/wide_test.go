package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// wide is the number of entries in one directory. It affects only the time: a
// directory of a tree is split with far fewer.
const wide = 10_000

// heapBelow fails if more memory is in use.
func (w *world) heapBelow(limit uint64) {
	w.Helper()
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	if mem.HeapAlloc > limit {
		w.Errorf("%d MiB in use", mem.HeapAlloc>>20)
	}
}

// TestWideDirectory: many entries in one directory go through every verb.
func TestWideDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(os.Mkdir(filepath.Join(w.source, "wide"), 0o755))
	for i := range wide {
		w.ok(os.WriteFile(filepath.Join(w.source, fmt.Sprintf("wide/f%06d", i)), nil, 0o644))
	}
	made := w.init("demo", "overlay")
	if made.Files < wide {
		t.Errorf("imported %d files", made.Files)
	}
	// Half of them are removed, and as many are added.
	_, out := w.sh("demo", fmt.Sprintf(`cd wide && rm -f f*[02468] && i=0; while [ $i -lt %d ]; do : > g$i; i=$((i+1)); done; ls -f | wc -l`, wide/2), acceptOnSuccess)
	if strings.TrimSpace(out) != fmt.Sprint(wide+2) {
		t.Errorf("the cell has %q names", out)
	}
	diff, err := w.e.Diff(w.ctx, api.DiffRequest{Cell: "demo"})
	w.ok(err)
	if len(diff.Changes) < wide {
		t.Errorf("%d changes", len(diff.Changes))
	}
	before, err := w.e.Status(w.ctx, "demo")
	w.ok(err)
	res, err := w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
	w.ok(err)
	if len(res.Written) < wide {
		t.Errorf("%d changes written", len(res.Written))
	}
	if names, err := os.ReadDir(filepath.Join(w.source, "wide")); err != nil || len(names) != wide {
		t.Errorf("the source has %d names: %v", len(names), err)
	}
	_, err = w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo", Checkpoint: made.CheckpointID})
	w.ok(err)
	dir := t.TempDir()
	for _, name := range []string{"out.tar", "out"} {
		_, err = w.e.Export(w.ctx, api.ExportRequest{Cell: "demo", Checkpoint: before.Head, Output: filepath.Join(dir, name)})
		w.ok(err)
	}
	if names, err := os.ReadDir(filepath.Join(dir, "out/wide")); err != nil || len(names) != wide {
		t.Errorf("the export has %d names: %v", len(names), err)
	}
	w.heapBelow(512 << 20)
	w.sound("demo")
}
