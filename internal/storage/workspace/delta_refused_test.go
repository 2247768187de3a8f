package workspace_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/storage/workspace/workspacetest"
)

// TestSealLive seals a live directory with entries that cannot be kept, removes
// those, and switches back.
func TestSealLive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workspace.BackendDelta)
	workspacetest.Play(t, workspacetest.Job{Dir: w.Source, Acts: []workspacetest.Act{
		{Do: "mkdir", Path: workspacetest.Bytes("d")},
		{Do: "write", Path: workspacetest.Bytes("d/same"), Data: workspacetest.Bytes("1")},
		{Do: "write", Path: workspacetest.Bytes("f"), Data: workspacetest.Bytes("1")},
	}})
	base, _ := w.Import()
	was := workspacetest.See(t, w.Source)
	work := w.Begin(w.Cell, base.Layer)
	w.Do(work, workspacetest.Act{Do: "write", Path: workspacetest.Bytes("f"), Data: workspacetest.Bytes("2")}, workspacetest.Act{Do: "write", Path: workspacetest.Bytes("g"), Data: workspacetest.Bytes("3")})
	w.Must(os.Chmod(w.Source+"/d/same", 0o400))
	w.Must(os.Chmod(w.Source+"/d", 0o500))
	want := workspacetest.See(t, w.Source)
	w.spoil()
	_, err := work.Seal(context.Background())
	var u *workspace.UnsealableError
	if !errors.As(err, &u) {
		t.Fatalf("seal: %v", err)
	}

	one, refused, err := work.SealLive(context.Background(), w.Op())
	w.Must(err)
	slices.SortFunc(refused, func(a, b workspace.RefusedEntry) int { return strings.Compare(a.Path, b.Path) })
	attr := "user.overlay.redirect"
	if list := []workspace.RefusedEntry{{Path: "d/dev"}, {Path: "d/same", Attr: attr}, {Path: "f", Attr: attr}}; !slices.Equal(refused, list) {
		t.Errorf("refused %+v, want %+v", refused, list)
	}
	w.Must(w.Store.RemoveRefused(w.Cell, append(refused, workspace.RefusedEntry{Path: "f"}, workspace.RefusedEntry{Path: "gone"}, workspace.RefusedEntry{Path: "f/x", Attr: attr})))
	workspacetest.SameItems(t, "cleared", want, workspacetest.See(t, w.Source))
	w.Check("sealed", one.Layer, want)
	w.Switches(one, base, was)

	// After a crash the next process finds the generation as it was.
	w.Must(w.Store.Switch(context.Background(), w.Cell, base.Layer, one.Layer, w.Op()))
	again, err := work.Seal(context.Background())
	w.Must(err)
	if again.Areas[workspace.AreaWorkspace] != one.Areas[workspace.AreaWorkspace] {
		t.Errorf("sealed again: %+v, not %+v", again, one)
	}
}

// spoil adds what cannot be kept, in places that nobody may write to, and leaves
// no other trace.
func (w *world) spoil() {
	w.T.Helper()
	for _, path := range []string{"/f", "/d/same", "/d"} {
		path = w.Source + path
		var st unix.Stat_t
		w.Must(unix.Lstat(path, &st))
		w.Must(unix.Chmod(path, 0o700))
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			w.Must(unix.Mknod(path+"/dev", unix.S_IFCHR|0o600, 0)) // a whiteout, which anyone may make
		} else {
			w.Must(unix.Setxattr(path, "user.overlay.redirect", []byte("x"), 0))
		}
		w.Must(unix.UtimesNano(path, []unix.Timespec{st.Atim, st.Mtim}))
		w.Must(unix.Chmod(path, st.Mode&0o7777))
	}
}
