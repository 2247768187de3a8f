package workspace_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/storage/workspace/workspacetest"
)

func pathsOf(items []workspacetest.Item) map[string]bool {
	seen := map[string]bool{}
	for _, i := range items {
		seen[string(i.Path)] = true
	}
	return seen
}

// standInSource is a workspace with control files.
func standInSource() []workspacetest.Act {
	return []workspacetest.Act{
		{Do: "mkdir", Path: workspacetest.Bytes(".git")},
		{Do: "write", Path: workspacetest.Bytes(".git/config"), Data: workspacetest.Bytes("[core]\n\tfsmonitor = evil\n")},
		{Do: "write", Path: workspacetest.Bytes(".mcp.json"), Data: workspacetest.Bytes("{}")},
		{Do: "mkdir", Path: workspacetest.Bytes("sub")},
		{Do: "mkdir", Path: workspacetest.Bytes("sub/.claude")},
		{Do: "write", Path: workspacetest.Bytes("sub/.claude/settings.json"), Data: workspacetest.Bytes("{}")},
		{Do: "mkdir", Path: workspacetest.Bytes("a\xff")},
		{Do: "write", Path: workspacetest.Bytes("a\xff/.mcp.json"), Data: workspacetest.Bytes("{}")},
		{Do: "write", Path: workspacetest.Bytes("a\xff/config"), Data: workspacetest.Bytes("long enough")},
		{Do: "write", Path: workspacetest.Bytes("file"), Data: workspacetest.Bytes("one")},
	}
}

func standIns() []workspace.StandIn {
	return []workspace.StandIn{
		{Path: ".git/config", Contents: []byte("[core]\n")},
		{Path: ".mcp.json", Absent: true},
		{Path: ".claude", Absent: true},
		{Path: "sub/.claude", Absent: true},
		{Path: "a\xff/.mcp.json", Absent: true},
		{Path: "a\xff/config", Contents: []byte("short")},
	}
}

// TestStandIns: a generation shows stand-ins, and neither its captures nor its seal
// have them.
func TestStandIns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workspace.BackendOverlay)
	workspacetest.Play(t, workspacetest.Job{Dir: w.Source, Acts: standInSource()})
	base, _ := w.Import()
	want := workspacetest.See(t, w.Source)
	c := w.Cell
	c.StandIns = standIns()

	idle := w.Begin(c, base.Layer)
	if sealed := w.Seal(idle); !sealed.Unchanged {
		t.Errorf("a generation with nothing but stand-ins changed: %+v", sealed)
	}
	w.Must(idle.Discard())
	w.Check("after an idle generation", base.Layer, want)

	work := w.Begin(c, base.Layer)
	seen := pathsOf(w.Do(work, workspacetest.Act{Do: "append", Path: workspacetest.Bytes("file"), Data: workspacetest.Bytes("two")}, workspacetest.Act{Do: "write", Path: workspacetest.Bytes("sub/new"), Data: workspacetest.Bytes("n")}))
	for _, hidden := range []string{".mcp.json", "sub/.claude", ".claude"} {
		if seen[hidden] {
			t.Errorf("the cell sees %s", hidden)
		}
	}
	captured, err := w.Capture(work).Seal(context.Background())
	w.Must(err)
	w.Verify("captured", captured.Layer)
	sealed := w.Seal(work)
	w.Verify("sealed", sealed.Layer)
	if captured.Changed != sealed.Changed || sealed.Areas[workspace.AreaWorkspace] != captured.Areas[workspace.AreaWorkspace] {
		t.Errorf("captured %+v, sealed %+v", captured, sealed)
	}
	workspacetest.Play(t, workspacetest.Job{Dir: w.Source, Acts: []workspacetest.Act{{Do: "append", Path: workspacetest.Bytes("file"), Data: workspacetest.Bytes("two")}, {Do: "write", Path: workspacetest.Bytes("sub/new"), Data: workspacetest.Bytes("n")}}})
	for _, layer := range []string{captured.Layer, sealed.Layer} {
		for _, name := range []string{".git/config", ".mcp.json", "sub/.claude/settings.json", "sub/new"} {
			was, err := os.ReadFile(w.Source + "/" + name)
			w.Must(err)
			e, ok, err := w.Tree(layer).Lookup(name)
			w.Must(err)
			if !ok || e.Size != int64(len(was)) {
				t.Errorf("%s of %s: %+v", name, layer, e)
			}
		}
	}
	w.NoPending()
}

// TestStandInsRemovedDirectory: a cell can remove a directory with stand-ins, and
// make another one.
func TestStandInsRemovedDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workspace.BackendOverlay)
	workspacetest.Play(t, workspacetest.Job{Dir: w.Source, Acts: standInSource()})
	base, _ := w.Import()
	c := w.Cell
	c.StandIns = standIns()
	work := w.Begin(c, base.Layer)
	want := w.Do(work, workspacetest.Act{Do: "rm", Path: workspacetest.Bytes("sub")}, workspacetest.Act{Do: "mkdir", Path: workspacetest.Bytes("sub")}, workspacetest.Act{Do: "mkdir", Path: workspacetest.Bytes("sub/.claude")}, workspacetest.Act{Do: "write", Path: workspacetest.Bytes("sub/.claude/own"), Data: workspacetest.Bytes("x")})
	sealed := w.Seal(work)
	seen := map[string]bool{}
	w.Must(w.Tree(sealed.Layer).Walk(func(path string, _ tree.Entry) error {
		seen[path] = true
		return nil
	}))
	if seen["sub/.claude/settings.json"] || !seen["sub/.claude/own"] || !seen[".mcp.json"] || !pathsOf(want)["sub/.claude/own"] {
		t.Errorf("sealed: %v", seen)
	}
}

// TestStandInsAfterCrash: a crash does not make stand-ins a part of the state.
func TestStandInsAfterCrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workspace.BackendOverlay)
	workspacetest.Play(t, workspacetest.Job{Dir: w.Source, Acts: standInSource()})
	base, _ := w.Import()
	c := w.Cell
	c.StandIns = standIns()
	op := w.Op()
	work, err := w.Store.Begin(context.Background(), c, base.Layer, op)
	w.Must(err)
	w.Do(work, workspacetest.Act{Do: "append", Path: workspacetest.Bytes("file"), Data: workspacetest.Bytes("two")}, workspacetest.Act{Do: "chmod", Path: workspacetest.Bytes("sub"), N: 0o500})
	work.Close()
	// A second crash happens while they are removed.
	again, _, err := w.Store.Resume(context.Background(), w.Cell, base.Layer, op)
	w.Must(err)
	crash := errors.New("crash")
	*w.Store.Hook() = func(step string) error {
		if step == "standins.removed" {
			return crash
		}
		return nil
	}
	if _, err := again.Seal(context.Background()); !errors.Is(err, crash) {
		t.Fatalf("seal: %v", err)
	}
	*w.Store.Hook() = nil
	again.Close()
	again, _, err = w.Store.Resume(context.Background(), w.Cell, base.Layer, op)
	w.Must(err)
	sealed := w.Seal(again)
	e, ok, err := w.Tree(sealed.Layer).Lookup("sub")
	w.Must(err)
	if !ok || e.Mode != 0o500 || sealed.Changed != 2 {
		t.Errorf("sealed %+v, sub %+v", sealed, e)
	}
	w.Verify("sealed", sealed.Layer)
}

// TestStandInsWithLongPaths: a generation that can begin can be resumed.
func TestStandInsWithLongPaths(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workspace.BackendOverlay)
	var acts []workspacetest.Act
	dir := ""
	for range 14 {
		dir = path.Join(dir, strings.Repeat("d", 250))
		acts = append(acts, workspacetest.Act{Do: "mkdir", Path: workspacetest.Bytes("%s", dir)})
	}
	workspacetest.Play(t, workspacetest.Job{Dir: w.Source, Acts: acts})
	base, _ := w.Import()
	c := w.Cell
	for i := range 1200 { // more than 4 MiB
		c.StandIns = append(c.StandIns, workspace.StandIn{Path: fmt.Sprintf("%s/%0240d", dir, i), Absent: true})
	}
	op := w.Op()
	work, err := w.Store.Begin(context.Background(), c, base.Layer, op)
	w.Must(err)
	work.Close()
	again, _, err := w.Store.Resume(context.Background(), w.Cell, base.Layer, op)
	w.Must(err)
	if sealed := w.Seal(again); !sealed.Unchanged {
		t.Errorf("sealed %+v", sealed)
	}
	w.Must(again.Discard())

	c.StandIns = []workspace.StandIn{{Path: strings.Repeat("x", workspace.MaxRecord), Absent: true}}
	if _, err := w.Store.Begin(context.Background(), c, base.Layer, w.Op()); err == nil {
		t.Error("a list that cannot be read again is written")
	}
	w.NoPending()
}

func TestStandInsElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, workspace.BackendClone)
	workspacetest.Play(t, workspacetest.Job{Dir: w.Source, Acts: standInSource()})
	base, _ := w.Import()
	w.Cell.StandIns = standIns()
	if _, err := w.Store.Begin(context.Background(), w.Cell, base.Layer, w.Op()); !errors.Is(err, workspace.ErrStandIns) {
		t.Errorf("begin: %v", err)
	}
	w.NoPending()
}
