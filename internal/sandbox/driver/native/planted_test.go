package native

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/mount"
)

// TestPlantedLinks has a workspace whose owner has put a link where something is
// to be attached. What the init makes there must be made in the cell.
func TestPlantedLinks(t *testing.T) {
	if made, err := madeOutside(t, Options{}); len(made) > 0 {
		t.Errorf("made outside of the cell: %v (the run: %v)", made, err)
	}
}

// madeOutside runs a cell with a link in the place of an overlay's parent, and
// returns what was made where the link leads, and the error of the run.
func madeOutside(t *testing.T, opt Options) (made []os.DirEntry, runErr error) {
	t.Helper()
	f := newFixture(t, opt)
	outside, err := os.MkdirTemp("/var/tmp", "forkcell-planted-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(outside) })
	there := filepath.Join(outside, "deep")
	if err := errors.Join(os.Chmod(outside, 0o755), os.Mkdir(there, 0o777), os.Chmod(there, 0o777)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(f.Base, "sub")); err != nil {
		t.Fatal(err)
	}
	inner := mount.Overlay{Target: f.Workspace + "/sub/deep/deeper"}
	for _, d := range []string{"lower", "upper", "work"} {
		if err := os.Mkdir(filepath.Join(filepath.Dir(f.Base), d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	inner.Lower = []string{filepath.Join(filepath.Dir(f.Base), "lower")}
	inner.Upper, inner.Work = filepath.Join(filepath.Dir(f.Base), "upper"), filepath.Join(filepath.Dir(f.Base), "work")
	f.Spec.Mounts.Overlays = append(f.Spec.Mounts.Overlays, inner)
	_, _, _, runErr = f.Try(nil, "true")
	made, err = os.ReadDir(there)
	if err != nil {
		t.Fatal(err)
	}
	return made, runErr
}
