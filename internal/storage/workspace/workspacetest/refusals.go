package workspacetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// testUnsealable checks that entries that cannot be kept are named, and nothing
// is lost.
func testUnsealable(t *testing.T, w *World) {
	Play(t, Job{Dir: w.Source, Acts: []Act{{Do: "write", Path: Bytes("f"), Data: Bytes("1")}}})
	base, _ := w.Import()
	work := w.Begin(w.Cell, base.Layer)
	w.Do(work, Act{Do: "write", Path: Bytes("g"), Data: Bytes("2")})
	dir := work.Dir() + "/workspace"
	if w.Cell.Backend == workspace.BackendDelta {
		dir = w.Source
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	other := "user.overlay.redirect"
	if w.Cell.Backend != workspace.BackendOverlay {
		other = "user.overlay.opaque"
	}
	must(unix.Setxattr(dir+"/g", other, []byte("x"), 0))
	problems := []string{"g: attribute " + other}
	if os.Geteuid() == 0 {
		must(unix.Mknod(dir+"/dev", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
		problems = append([]string{"dev: character device 1:3"}, problems...)
	}
	_, err := work.Seal(context.Background())
	var u *workspace.UnsealableError
	if !errors.As(err, &u) || strings.Join(u.Problems, "|") != strings.Join(problems, "|") {
		t.Fatalf("seal: %v, want %q", err, problems)
	}
	must(unix.Removexattr(dir+"/g", other))
	if os.Geteuid() == 0 {
		must(os.Remove(dir + "/dev"))
	}
	one := w.Seal(work)
	w.Verify("after the refusal", one.Layer)
	if one.Changed == 0 {
		t.Error("the change was lost")
	}
}

// testImportRefusals names what cannot be imported.
func testImportRefusals(t *testing.T, w *World) {
	Play(t, Job{Dir: w.Source, Acts: []Act{{Do: "mkdir", Path: Bytes("d")}, {Do: "write", Path: Bytes("d/f")}}})
	if err := unix.Setxattr(w.Source+"/d/f", "user.overlay.whiteout", []byte("y"), 0); err != nil {
		t.Fatal(err)
	}
	_, _, err := w.Store.Import(context.Background(), w.Cell, w.Op(), workspace.Source{Dir: w.Source})
	var u *workspace.UnsealableError
	if !errors.As(err, &u) || !strings.Contains(err.Error(), "d/f: attribute user.overlay.whiteout") {
		t.Errorf("import: %v", err)
	}
	w.NoPending()
	_, _, err = w.Store.Import(context.Background(), w.Cell, w.Op(), workspace.Source{Dir: filepath.Join(w.Source, "none")})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("import of nothing: %v", err)
	}
	w.NoPending()
}
