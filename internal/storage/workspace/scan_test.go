package workspace

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"
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
						w.must(os.Mkdir(w.src+d, 0o700))
					}
					w.must(os.WriteFile(w.src+"/a/f", []byte("start"), 0o600))
					w.must(os.Link(w.src+"/a/f", w.src+"/b/f"))
					w.must(os.Link(w.src+"/a/f", w.src+"/c/f"))
					var once sync.Once
					w.open(Options{unsynced: true, hook: func(step string) (err error) {
						if step == at {
							once.Do(func() { err = change(w.src) })
						}
						return err
					}})
					done := make(chan error, 1)
					var sealed Sealed
					go func() {
						var err error
						sealed, _, err = w.s.Import(context.Background(), w.c, w.op(), Source{Dir: w.src})
						done <- err
					}()
					select {
					case err := <-done:
						w.must(err)
					case <-time.After(30 * time.Second):
						t.Fatal("the import waits for itself")
					}
					w.check("import", sealed.Layer, see(t, w.src))
				})
			})
		}
	}
}

// replace puts a new file at a name, as editors do.
func replace(name string) error {
	return errors.Join(os.WriteFile(name+".new", []byte("replaced"), 0o600), os.Rename(name+".new", name))
}
