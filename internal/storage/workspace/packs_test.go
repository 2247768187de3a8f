package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// TestPackAfterRemove: a reader of a manifest that was removed does not open it again,
// since nothing would close it.
func TestPackAfterRemove(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	file := filepath.Join(at, "layers", "layer_1", "manifest")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("text"), 0o600)); err != nil {
		t.Fatal(err)
	}
	home, err := fsx.OpenRoot(at)
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	p := newPacks(home)
	r, size, err := p.Pack("layer_1")
	if err != nil || size != 4 {
		t.Fatal(size, err)
	}
	b := make([]byte, 4)
	if _, err := r.ReadAt(b, 0); err != nil || string(b) != "text" {
		t.Fatalf("%q, %v", b, err)
	}
	p.remove("layer_1")
	if _, err := r.ReadAt(b, 0); !errors.Is(err, fs.ErrNotExist) || r.(*packFile).file != nil {
		t.Errorf("%v", err)
	}
}
