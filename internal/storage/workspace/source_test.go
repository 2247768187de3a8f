package workspace_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/storage/workspace/workspacetest"
)

// TestSourceChanges changes a file while it is read.
func TestSourceChanges(t *testing.T) {
	t.Parallel()
	for _, times := range []int{1, workspace.Rereads} {
		backends(t, func(t *testing.T, w *world) {
			name := filepath.Join(w.Source, "f")
			w.Must(os.WriteFile(name, []byte("start"), 0o600))
			n := 0
			w.open(workspace.Options{}.Unsynced(func(step string) error {
				if step == "scan.read" && n < times {
					n++
					return os.WriteFile(name, bytes.Repeat([]byte("x"), n), 0o600)
				}
				return nil
			}))
			sealed, _, err := w.Store.Import(context.Background(), w.Cell, w.Op(), workspace.Source{Dir: w.Source})
			if times == workspace.Rereads {
				if !errors.Is(err, workspace.ErrSourceChanged) || !strings.Contains(err.Error(), name) {
					t.Errorf("import: %v", err)
				}
				w.NoPending()
				return
			}
			w.Must(err)
			w.Check("import", sealed.Layer, workspacetest.See(t, w.Source))
		})
	}
}
