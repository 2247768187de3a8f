package workspace_test

import (
	"context"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/storage/gitread"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/storage/workspace/workspacetest"
)

// gitIndex returns an index with entries, of which those that begin with ! are skipped.
func gitIndex(names ...string) []byte {
	b := binary.BigEndian.AppendUint32([]byte("DIRC\x00\x00\x00\x02"), uint32(len(names)))
	skip := map[string]bool{}
	for _, n := range names {
		if n[0] == '!' {
			n = n[1:]
			skip[n] = true
		}
		entry := make([]byte, 62, 80)
		entry[24+2] = 0x81
		binary.BigEndian.PutUint16(entry[60:], uint16(len(n)))
		entry = append(entry, n...)
		b = append(b, append(entry, make([]byte, 8-len(entry)%8)...)...)
	}
	sum := sha1.Sum(b)
	b, err := gitread.WithSkipFlags(append(b, sum[:]...), func(e gitread.IndexEntry) bool { return skip[e.Name] })
	if err != nil {
		panic(err)
	}
	return b
}

// skipped returns the names that a state's index lists, with ! before those that are
// skipped.
func (w *world) skipped(layer string) (names []string) {
	e, _, err := w.Tree(layer).Lookup(".git/index")
	w.Must(err)
	f, err := w.Store.OpenFile(workspace.BackendOverlay, layer, workspace.AreaWorkspace, ".git/index", e)
	w.Must(err)
	defer f.Close()
	text, err := io.ReadAll(f)
	w.Must(err)
	entries, err := gitread.ParseIndex(text)
	w.Must(err)
	for _, e := range entries {
		name := e.Name
		if e.IsSkipped() {
			name = "!" + name
		}
		names = append(names, name)
	}
	return names
}

// TestIndexStandIn: a cell sees an index that skips hidden paths, and may change it. A
// state never has the flags, whatever the cell wrote and whenever it crashed; flags of the
// state's own and those that the cell set for other paths stay.
func TestIndexStandIn(t *testing.T) {
	t.Parallel()
	source := gitIndex("!.claude/own", ".claude/settings.json", ".mcp.json", "file")
	hidden := []string{".mcp.json", ".claude"}
	s := workspace.IndexStandIn(".git/index", source, hidden)
	if s == nil {
		t.Fatal("no stand-in")
	}
	if workspace.IndexStandIn(".git/index", source, []string{"other"}) != nil || workspace.IndexStandIn(".git/index", []byte("DIRC"), hidden) != nil {
		t.Error("a stand-in that changes nothing, or of no index")
	}
	for name, c := range map[string]struct {
		do   workspacetest.Act
		want []string // nil: unchanged
	}{
		"nothing":   {do: workspacetest.Act{Do: "mkdir", Path: workspacetest.Bytes("d")}},
		"commit":    {workspacetest.Act{Do: "write", Path: workspacetest.Bytes(".git/index"), Data: gitIndex("!.claude/own", "!.claude/settings.json", "!.mcp.json", "file", "new")}, []string{"!.claude/own", ".claude/settings.json", ".mcp.json", "file", "new"}},
		"own flags": {workspacetest.Act{Do: "write", Path: workspacetest.Bytes(".git/index"), Data: gitIndex("!.mcp.json", "!file")}, []string{".mcp.json", "!file"}},
		"removed":   {workspacetest.Act{Do: "write", Path: workspacetest.Bytes(".git/index"), Data: gitIndex("file")}, []string{"file"}},
	} {
		for _, crashes := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, workspace.BackendOverlay)
				workspacetest.Play(t, workspacetest.Job{Dir: w.Source, Acts: []workspacetest.Act{
					{Do: "mkdir", Path: workspacetest.Bytes(".git")},
					{Do: "write", Path: workspacetest.Bytes(".git/index"), Data: source},
					{Do: "write", Path: workspacetest.Bytes("file"), Data: workspacetest.Bytes("one")},
				}})
				base, _ := w.Import()
				cell := w.Cell
				cell.StandIns = []workspace.StandIn{*s}
				op := w.Op()
				work, err := w.Store.Begin(context.Background(), cell, base.Layer, op)
				w.Must(err)
				w.Do(work, c.do)
				captured, err := w.Capture(work).Seal(context.Background())
				w.Must(err)
				if crashes {
					work.Close()
					work, _, err = w.Store.Resume(context.Background(), w.Cell, base.Layer, op)
					w.Must(err)
					crash := errors.New("crash")
					*w.Store.Hook() = func(step string) error {
						if step == "standins.removed" {
							return crash
						}
						return nil
					}
					if _, err := work.Seal(context.Background()); !errors.Is(err, crash) {
						t.Fatalf("seal: %v", err)
					}
					*w.Store.Hook() = nil
					work.Close()
					work, _, err = w.Store.Resume(context.Background(), w.Cell, base.Layer, op)
					w.Must(err)
				}
				sealed := w.Seal(work)
				want := c.want
				if want == nil {
					want = w.skipped(base.Layer)
				}
				for _, layer := range []string{captured.Layer, sealed.Layer} {
					if d := cmp.Diff(want, w.skipped(layer)); d != "" {
						t.Error(d)
					}
					w.Verify("sealed", layer)
				}
				if c.want == nil && sealed.Changed != 1 {
					t.Errorf("%d changes", sealed.Changed)
				}
			})
		}
	}
}
