package workspace_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/mount"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/storage/workspace/workspacetest"
)

// TestAreaMounts checks what a driver gets.
func TestAreaMounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workspace.BackendOverlay)
	host := w.AddArea(workspacetest.Act{Do: "write", Path: workspacetest.Bytes("f"), Data: workspacetest.Bytes("1")})
	w.Cell.Areas[0].System = true
	base, _ := w.Import()
	work := w.Begin(w.Cell, base.Layer)
	w.DoInArea(work, workspacetest.Act{Do: "append", Path: workspacetest.Bytes("f"), Data: workspacetest.Bytes("2")})
	one := w.Seal(work)
	work = w.Begin(w.WithoutAreas(), one.Layer)
	w.Do(work, workspacetest.Act{Do: "write", Path: workspacetest.Bytes("ws"), Data: workspacetest.Bytes("1")})
	two := w.Seal(work)
	w.Cell.Areas = append(w.Cell.Areas, workspace.Area{Name: "a", Host: w.Source, Target: "/data/in"})
	work = w.Begin(w.Cell, two.Layer)
	dir := work.Dir()
	want := []mount.Overlay{
		{
			Target: "/data", Lower: []string{w.Home + "/layers/" + one.Layer + "/area-0", host},
			Upper: dir + "/area-1", Work: dir + "/work/area-1", HostLower: true, System: true,
		},
		{Target: "/data/in", Lower: []string{w.Source}, Upper: dir + "/area-0", Work: dir + "/work/area-0", HostLower: true},
	}
	if d := cmp.Diff(want, work.Mounts().Overlays[:2]); d != "" {
		t.Error(d)
	}
	work.Close()
	again, _, err := w.Store.Resume(context.Background(), w.WithoutAreas(), two.Layer, workspacetest.OpOf(work))
	w.Must(err)
	if d := cmp.Diff(want, again.Mounts().Overlays[:2]); d != "" {
		t.Errorf("resumed: %s", d)
	}
	w.Must(again.Discard())
}

// TestAreaErrors names invalid areas.
func TestAreaErrors(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		host := w.AddArea(workspacetest.Act{Do: "write", Path: workspacetest.Bytes("f"), Data: workspacetest.Bytes("1")})
		base, _ := w.Import()
		work := w.Begin(w.Cell, base.Layer)
		w.DoInArea(work, workspacetest.Act{Do: "append", Path: workspacetest.Bytes("f"), Data: workspacetest.Bytes("2")})
		one := w.Seal(work)
		good := w.Cell.Areas[0]
		try := func(areas ...workspace.Area) error {
			c := w.Cell
			c.Areas = areas
			work, err := w.Store.Begin(context.Background(), c, one.Layer, w.Op())
			if err == nil {
				w.Must(work.Discard())
			}
			return err
		}
		system := good
		system.System = true
		if err := try(system); errors.Is(err, workspace.ErrNoSystemArea) != (w.Cell.Backend != workspace.BackendOverlay) {
			t.Errorf("a system area: %v", err)
		}
		moved := good
		moved.Host = w.Source
		if err := try(moved); !errors.Is(err, workspace.ErrMixed) {
			t.Errorf("of another directory: %v", err)
		}
		for what, areas := range map[string][]workspace.Area{
			"twice":        {good, good},
			"no name":      {{Host: host, Target: "/x"}},
			"reserved":     {{Name: workspace.AreaHome, Host: host, Target: "/x"}},
			"relative":     {{Name: "x", Host: host, Target: "x"}},
			"not clean":    {{Name: "x", Host: host + "/..", Target: "/x"}},
			"no UTF-8":     {{Name: "x\xff", Host: host, Target: "/x"}},
			"one target":   {good, {Name: "x", Host: host, Target: good.Target}},
			"no directory": {{Name: "x", Host: host + "/f", Target: "/x"}},
		} {
			if err := try(areas...); err == nil {
				t.Errorf("%s: begun", what)
			}
		}
		w.Must(os.Rename(host, host+"-gone"))
		var gone *workspace.HostDirError
		err := try(workspace.Area{Name: "new", Host: host, Target: "/new"})
		if !errors.As(err, &gone) || gone.Host != host || gone.Area != "new" || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a host directory that is no more: %v", err)
		}
		if err := try(good); errors.As(err, &gone) != (w.Cell.Backend == workspace.BackendOverlay) {
			t.Errorf("an older area whose host directory is no more: %v", err)
		}
		w.Verify("without the host", one.Layer)
		w.NoPending()
	})
}

// TestAreaTampered checks that verify finds changes of an area's bytes.
func TestAreaTampered(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		w.AddArea(workspacetest.Act{Do: "write", Path: workspacetest.Bytes("f"), Data: workspacetest.Bytes("1")}, workspacetest.Act{Do: "write", Path: workspacetest.Bytes("g"), Data: workspacetest.Bytes("1")})
		base, _ := w.Import()
		work := w.Begin(w.Cell, base.Layer)
		w.DoInArea(work, workspacetest.Act{Do: "append", Path: workspacetest.Bytes("f"), Data: workspacetest.Bytes("2")}, workspacetest.Act{Do: "rm", Path: workspacetest.Bytes("g")})
		one := w.Seal(work)
		dir := w.Home + "/layers/" + one.Layer + "/area-0"
		w.Must(os.WriteFile(dir+"/f", []byte("xx"), 0o600))
		wrong := []string{"/data/f"}
		if w.Cell.Backend == workspace.BackendOverlay {
			w.Must(os.Remove(dir + "/g"))
			wrong = append(wrong, "/data/g")
		}
		diffs, err := w.Store.Verify(context.Background(), w.Cell, one.Layer)
		w.Must(err)
		for _, path := range wrong {
			if !slices.ContainsFunc(diffs, func(d tree.Difference) bool { return d.Path == path }) {
				t.Errorf("%s was not found: %+v", path, diffs)
			}
		}
	})
}

// TestAreaUnsealable names what an area cannot keep.
func TestAreaUnsealable(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		w.AddArea(workspacetest.Act{Do: "write", Path: workspacetest.Bytes("f"), Data: workspacetest.Bytes("1")})
		base, _ := w.Import()
		work := w.Begin(w.Cell, base.Layer)
		w.DoInArea(work, workspacetest.Act{Do: "append", Path: workspacetest.Bytes("f"), Data: workspacetest.Bytes("2")})
		w.Must(unix.Setxattr(work.Dir()+"/area-0/f", "user.overlay.redirect", []byte("x"), 0))
		var u *workspace.UnsealableError
		_, err := work.Seal(context.Background())
		if !errors.As(err, &u) || !strings.Contains(err.Error(), "/data: f: attribute user.overlay.redirect") {
			t.Errorf("seal: %v", err)
		}
		_, err = work.Capture(context.Background(), w.Op())
		if !errors.As(err, &u) || !strings.Contains(err.Error(), "/data: f: attribute user.overlay.redirect") {
			t.Errorf("capture: %v", err)
		}
		w.Must(unix.Removexattr(work.Dir()+"/area-0/f", "user.overlay.redirect"))
		w.Verify("after the refusal", w.Seal(work).Layer)
		w.NoPending()
	})
}
