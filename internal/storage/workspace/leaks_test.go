package workspace_test

import (
	"context"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/storage/workspace/workspacetest"
)

// TestForgotten: a tree that is not stored is held until it is forgotten, and those of a
// composition are not held at all.
func TestForgotten(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		base, _ := w.Import()
		trees, _ := w.Store.Held()
		_, err := w.Store.Compose(context.Background(), w.Cell, base.Layer, w.Op(), []workspace.Edit{workspacetest.NewFile("file", "new")})
		w.Must(err)
		if left, _ := w.Store.Held(); left != trees {
			t.Errorf("%d trees are kept in memory, before %d", left, trees)
		}
		src, err := fsx.OpenRoot(w.Source)
		w.Must(err)
		defer src.Close()
		old := w.Tree(base.Layer)
		scanned, _, err := w.Store.Scan(context.Background(), w.Cell, src, old)
		w.Must(err)
		_, manifests := w.Store.Held()
		w.Store.Forget(scanned)
		w.Store.Forget(old) // is stored, and stays
		if _, left := w.Store.Held(); left != manifests-1 {
			t.Errorf("%d of %d manifests are left", left, manifests)
		}
	})
}
