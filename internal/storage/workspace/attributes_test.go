package workspace_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/storage/workspace/workspacetest"
)

// manyAttributes gives a file as many extended attributes as its file system
// takes, up to hundreds of the largest kind.
func manyAttributes(t *testing.T, path string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for size := 64 << 10; size > 0; size /= 4 {
		for len(all) < 300 {
			name, value := fmt.Sprintf("user.%03d", len(all)), bytes.Repeat([]byte{byte(len(all))}, size)
			err := unix.Setxattr(path, name, value, 0)
			if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.E2BIG) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			all[name] = value
		}
	}
	if len(all) < 10 {
		t.Fatalf("only %d attributes", len(all))
	}
	return all
}

// TestManyAttributes: large lists of extended attributes are imported, sealed and
// written back whole.
func TestManyAttributes(t *testing.T) {
	t.Parallel()
	const shared = "/dev/shm" // other file systems take only a few
	if err := unix.Setxattr(workspacetest.TempDirIn(t, shared), "user.probe", nil, 0); err != nil {
		t.Skipf("%s has user attributes since Linux 6.6: %v", shared, err)
	}
	for _, b := range []workspace.Backend{workspace.BackendClone, workspace.BackendDelta} {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			w := newWorldIn(t, b, workspacetest.TempDirIn(t, shared))
			file := w.Source + "/file"
			w.Must(os.WriteFile(file, []byte("1"), 0o644))
			all := manyAttributes(t, file)
			base, _ := w.Import()
			w.Verify("imported", base.Layer)
			work := w.Begin(w.Cell, base.Layer)
			if b == workspace.BackendClone {
				file = work.Dir() + "/" + workspace.AreaWorkspace + "/file"
			}
			w.Must(os.WriteFile(file, []byte("two"), 0o644))
			w.Must(unix.Removexattr(file, "user.007"))
			sealed := w.Seal(work)
			w.Verify("sealed", sealed.Layer)
			e, _, err := w.Tree(sealed.Layer).Lookup("file")
			w.Must(err)
			if len(e.Xattrs) != len(all)-1 || sealed.Changed != 1 {
				t.Errorf("%d of %d attributes, %d changes", len(e.Xattrs), len(all), sealed.Changed)
			}
			// The directory is changed by an apply.
			w.Must(w.Store.Switch(ctx, w.Cell, sealed.Layer, base.Layer, w.Op()))
			for name, want := range all {
				value := make([]byte, 64<<10)
				n, err := unix.Getxattr(w.Source+"/file", name, value)
				if err != nil || !bytes.Equal(value[:max(n, 0)], want) {
					t.Fatalf("%s: %d bytes, %v", name, n, err)
				}
			}
			runtime.GC()
			var mem runtime.MemStats
			runtime.ReadMemStats(&mem)
			if mem.HeapAlloc > 512<<20 {
				t.Errorf("%d MiB in use", mem.HeapAlloc>>20)
			}
		})
	}
}
