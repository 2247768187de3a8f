package workspacetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// testVerifyNamesDamage changes the stored files, one at a time.
func testVerifyNamesDamage(t *testing.T, w *World) {
	Play(t, Job{Dir: w.Source, Acts: []Act{
		{Do: "mkdir", Path: Bytes("d")}, {Do: "write", Path: Bytes("d/f"), Data: Bytes("good")}, {Do: "write", Path: Bytes("g"), Data: Bytes("g")},
	}})
	base, _ := w.Import()
	work := w.Begin(w.Cell, base.Layer)
	w.Do(work, Act{Do: "append", Path: Bytes("g"), Data: Bytes("2")})
	one := w.Seal(work)
	layer := w.Home + "/layers/" + base.Layer
	victim := layer + "/workspace/d/f"
	if w.Cell.Backend == workspace.BackendClone {
		victim = w.Home + "/layers/" + one.Layer + "/workspace/d/f"
	}
	if w.Cell.Backend == workspace.BackendDelta {
		victim = w.Home + "/objects/" + objectName("good")
	}
	damage := func(what, want string, do, undo func() error) {
		t.Helper()
		w.Must(do())
		diffs, err := w.Store.Verify(context.Background(), w.Cell, one.Layer)
		var text []string
		for _, d := range diffs {
			text = append(text, d.Path+": "+strings.Join(d.What, ","))
		}
		if err != nil || !strings.Contains(strings.Join(text, "; "), want) {
			t.Errorf("%s: verify says %q, %v; want %q", what, text, err, want)
		}
		w.Must(undo())
		w.Verify("repaired: "+what, one.Layer)
	}
	var st unix.Stat_t
	w.Must(unix.Stat(victim, &st))
	rewrite := func(data string) func() error {
		return func() error {
			return errors.Join(os.Chmod(victim, 0o600), os.WriteFile(victim, []byte(data), 0o600), os.Chmod(victim, os.FileMode(st.Mode&0o777)),
				unix.UtimesNano(victim, []unix.Timespec{st.Atim, st.Mtim}))
		}
	}
	move := func(from, to string) func() error { return func() error { return os.Rename(from, to) } }
	damage("other contents", "d/f: content", rewrite("evil"), rewrite("good"))
	hidden := w.Home + "/hidden"
	if w.Cell.Backend == workspace.BackendDelta {
		damage("a missing object", "d/f: content", move(victim, hidden), move(hidden, victim))
	}
	if w.Cell.Backend == workspace.BackendOverlay {
		damage("a missing layer", "layers/"+base.Layer, move(layer, hidden), move(hidden, layer))
		other := w.Home + "/layers/" + one.Layer + "/workspace/extra"
		damage("an extra file", "extra: unexpected",
			func() error { return os.WriteFile(other, nil, 0o600) }, func() error { return errors.Join(os.Remove(other), w.touchRoot(one.Layer)) })
	}
	manifest := w.Home + "/layers/" + one.Layer + "/manifest"
	good, err := os.ReadFile(manifest)
	w.Must(err)
	bad := slices.Clone(good)
	bad[len(bad)/2] ^= 1
	damage("an altered manifest", "manifest", func() error { return os.WriteFile(manifest, bad, 0o600) }, func() error { return os.WriteFile(manifest, good, 0o600) })
	w.newer(one.Layer)
}

// touchRoot gives a layer's root back the time that the manifest says.
func (w *World) touchRoot(layer string) error {
	m := w.Tree(layer).Root().MTime
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: m.Sec, Nsec: int64(m.Nsec)}}
	return unix.UtimesNano(w.Home+"/layers/"+layer+"/workspace", times)
}

// newer checks that a layer of a later program is refused.
func (w *World) newer(layer string) {
	w.T.Helper()
	name := w.Home + "/layers/" + layer + "/layer.json"
	good, err := os.ReadFile(name)
	w.Must(err)
	w.Must(os.WriteFile(name, bytes.Replace(good, []byte(`"format": 1`), []byte(`"format": 2`), 1), 0o600))
	w.reopen()
	if _, err := w.Store.Begin(context.Background(), w.Cell, layer, w.Op()); !errors.Is(err, workspace.ErrNewerFormat) {
		w.T.Errorf("begin on a newer layer: %v", err)
	}
	if _, err := w.Store.Verify(context.Background(), w.Cell, layer); !errors.Is(err, workspace.ErrNewerFormat) {
		w.T.Errorf("verify of a newer layer: %v", err)
	}
	w.Must(os.WriteFile(name, []byte("{"), 0o600))
	if _, _, err := w.Store.Resume(context.Background(), w.Cell, layer, "run_"+strings.TrimPrefix(layer, "lay_")); !errors.Is(err, workspace.ErrCorrupt) {
		w.T.Errorf("resume of a broken layer: %v", err)
	}
	w.Must(os.WriteFile(name, good, 0o600))
	other := w.Cell
	other.Backend = map[workspace.Backend]workspace.Backend{workspace.BackendOverlay: workspace.BackendClone, workspace.BackendClone: workspace.BackendDelta, workspace.BackendDelta: workspace.BackendOverlay}[w.Cell.Backend]
	if _, err := w.Store.Begin(context.Background(), other, layer, w.Op()); !errors.Is(err, workspace.ErrMixed) {
		w.T.Errorf("begin with another backend: %v", err)
	}
	if _, err := w.Store.Begin(context.Background(), w.Cell, "lay_none", w.Op()); !errors.Is(err, workspace.ErrNoLayer) {
		w.T.Errorf("begin on nothing: %v", err)
	}
}

// objectName is where contents are, below objects.
func objectName(data string) string {
	name := fmt.Sprintf("%x", sha256.Sum256([]byte(data)))
	return name[:2] + "/" + name
}
