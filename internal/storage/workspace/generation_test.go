package workspace_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// TestGenerationsInTurn: a generation finds nothing of the one before it.
func TestGenerationsInTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workspace.BackendOverlay)
	base, _ := w.Import()
	first := w.Begin(w.Cell, base.Layer)
	w.Must(first.RecordInit([]byte("someone")))
	w.Must(os.WriteFile(filepath.Join(first.Dir(), "tmp", "left"), []byte("behind"), 0o600))
	w.Must(os.MkdirAll(filepath.Join(first.Dir(), "work", workspace.AreaHome, "work", "incompat", "volatile"), 0o700))
	sealed, err := first.Seal(context.Background())
	w.Must(err)
	if !sealed.Unchanged {
		t.Fatal("a generation in which nothing happened is sealed as changed")
	}
	w.Must(first.Discard())
	second := w.Begin(w.Cell, base.Layer)
	for _, dir := range []string{"tmp", "work/" + workspace.AreaHome, "work/" + workspace.AreaWorkspace, workspace.AreaHome, workspace.AreaWorkspace} {
		left, err := os.ReadDir(filepath.Join(second.Dir(), dir))
		if err != nil || len(left) > 0 {
			t.Errorf("%s holds %v, %v", dir, left, err)
		}
	}
	if record, err := second.InitRecord(); err != nil || record != nil {
		t.Errorf("the record of another: %q, %v", record, err)
	}
	w.Must(second.RecordInit([]byte("a long record")))
	w.Must(second.RecordInit([]byte("short")))
	if record, err := second.InitRecord(); err != nil || string(record) != "short" {
		t.Errorf("the record is %q, %v", record, err)
	}
}

// TestGenerationsTogether: no two generations get the same directory, and nothing is
// left of those that are discarded.
func TestGenerationsTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workspace.BackendOverlay)
	base, _ := w.Import()
	works := make([]*workspace.Work, 24)
	ops := make([]string, len(works))
	for i := range ops {
		ops[i] = w.Op()
	}
	var group sync.WaitGroup
	for i, op := range ops {
		group.Go(func() {
			work, err := w.Store.Begin(context.Background(), w.Cell, base.Layer, op)
			if err != nil {
				t.Error(err)
			}
			works[i] = work
		})
	}
	group.Wait()
	seen := map[uint64]bool{}
	for _, work := range works {
		var st unix.Stat_t
		w.Must(unix.Stat(work.Dir(), &st))
		seen[st.Ino] = true
	}
	if len(seen) != len(works) {
		t.Errorf("%d directories for %d generations", len(seen), len(works))
	}
	for _, work := range works {
		group.Go(func() {
			if err := work.Discard(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if left := w.Names("pending"); len(left) > 0 {
		t.Errorf("pending holds %q", left)
	}
}

// TestRemount: the mark of a volatile overlay, with which the kernel refuses
// another mount, is removed.
func TestRemount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workspace.BackendOverlay)
	base, _ := w.Import()
	work := w.Begin(w.Cell, base.Layer)
	scratch := filepath.Join(work.Dir(), "work", workspace.AreaWorkspace)
	w.Must(os.MkdirAll(filepath.Join(scratch, "work", "incompat", "volatile"), 0o700))
	w.Must(work.Remount())
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	w.Must(work.Discard())
}
