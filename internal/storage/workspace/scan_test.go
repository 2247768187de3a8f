package workspace_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/storage/workspace/workspacetest"
)

// TestLinkedSourceChanges changes a file with several names while it is read:
// its contents, or one of its names, which then belongs to another file.
func TestLinkedSourceChanges(t *testing.T) {
	t.Parallel()
	changes := map[string]func(dir string) error{
		"written":    func(dir string) error { return os.WriteFile(dir+"/a/f", []byte("written"), 0o600) },
		"a replaced": func(dir string) error { return replace(dir + "/a/f") },
		"b replaced": func(dir string) error { return replace(dir + "/b/f") },
		"c replaced": func(dir string) error { return replace(dir + "/c/f") },
	}
	// At the first step the file has been found and not yet been opened, at the
	// second it has been read.
	for _, at := range []string{"scan.found", "scan.read"} {
		for name, change := range changes {
			t.Run(at+" "+name, func(t *testing.T) {
				t.Parallel()
				backends(t, func(t *testing.T, w *world) {
					for _, d := range []string{"/a", "/b", "/c"} {
						w.Must(os.Mkdir(w.Source+d, 0o700))
					}
					w.Must(os.WriteFile(w.Source+"/a/f", []byte("start"), 0o600))
					w.Must(os.Link(w.Source+"/a/f", w.Source+"/b/f"))
					w.Must(os.Link(w.Source+"/a/f", w.Source+"/c/f"))
					var once sync.Once
					w.open(workspace.Options{}.Unsynced(func(step string) (err error) {
						if step == at {
							once.Do(func() { err = change(w.Source) })
						}
						return err
					}))
					done := make(chan error, 1)
					var sealed workspace.Sealed
					go func() {
						var err error
						sealed, _, err = w.Store.Import(context.Background(), w.Cell, w.Op(), workspace.Source{Dir: w.Source})
						done <- err
					}()
					select {
					case err := <-done:
						w.Must(err)
					case <-time.After(30 * time.Second):
						t.Fatal("the import waits for itself")
					}
					w.Check("import", sealed.Layer, workspacetest.See(t, w.Source))
				})
			})
		}
	}
}

// replace puts a new file at a name, as editors do.
func replace(name string) error {
	return errors.Join(os.WriteFile(name+".new", []byte("replaced"), 0o600), os.Rename(name+".new", name))
}
