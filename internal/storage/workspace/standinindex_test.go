package workspace

import (
	"context"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forkcell/forkcell/internal/storage/gitread"
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
	e, _, err := w.tree(layer).Lookup(".git/index")
	w.must(err)
	f, err := w.s.OpenFile(BackendOverlay, layer, AreaWorkspace, ".git/index", e)
	w.must(err)
	defer f.Close()
	text, err := io.ReadAll(f)
	w.must(err)
	entries, err := gitread.ParseIndex(text)
	w.must(err)
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
	s := IndexStandIn(".git/index", source, hidden)
	if s == nil {
		t.Fatal("no stand-in")
	}
	if IndexStandIn(".git/index", source, []string{"other"}) != nil || IndexStandIn(".git/index", []byte("DIRC"), hidden) != nil {
		t.Error("a stand-in that changes nothing, or of no index")
	}
	for name, c := range map[string]struct {
		do   act
		want []string // nil: unchanged
	}{
		"nothing":   {do: act{Do: "mkdir", Path: p("d")}},
		"commit":    {act{Do: "write", Path: p(".git/index"), Data: gitIndex("!.claude/own", "!.claude/settings.json", "!.mcp.json", "file", "new")}, []string{"!.claude/own", ".claude/settings.json", ".mcp.json", "file", "new"}},
		"own flags": {act{Do: "write", Path: p(".git/index"), Data: gitIndex("!.mcp.json", "!file")}, []string{".mcp.json", "!file"}},
		"removed":   {act{Do: "write", Path: p(".git/index"), Data: gitIndex("file")}, []string{"file"}},
	} {
		for _, crashes := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, BackendOverlay)
				play(t, actorJob{Dir: w.src, Acts: []act{
					{Do: "mkdir", Path: p(".git")},
					{Do: "write", Path: p(".git/index"), Data: source},
					{Do: "write", Path: p("file"), Data: p("one")},
				}})
				base, _ := w.imports()
				cell := w.c
				cell.StandIns = []StandIn{*s}
				op := w.op()
				work, err := w.s.Begin(context.Background(), cell, base.Layer, op)
				w.must(err)
				w.acts(work, c.do)
				captured, err := w.capture(work).Seal(context.Background())
				w.must(err)
				if crashes {
					work.Close()
					work, _, err = w.s.Resume(context.Background(), w.c, base.Layer, op)
					w.must(err)
					crash := errors.New("crash")
					w.s.opt.hook = func(step string) error {
						if step == "standins.removed" {
							return crash
						}
						return nil
					}
					if _, err := work.Seal(context.Background()); !errors.Is(err, crash) {
						t.Fatalf("seal: %v", err)
					}
					w.s.opt.hook = nil
					work.Close()
					work, _, err = w.s.Resume(context.Background(), w.c, base.Layer, op)
					w.must(err)
				}
				sealed := w.seal(work)
				want := c.want
				if want == nil {
					want = w.skipped(base.Layer)
				}
				for _, layer := range []string{captured.Layer, sealed.Layer} {
					if d := cmp.Diff(want, w.skipped(layer)); d != "" {
						t.Error(d)
					}
					w.verify("sealed", layer)
				}
				if c.want == nil && sealed.Changed != 1 {
					t.Errorf("%d changes", sealed.Changed)
				}
			})
		}
	}
}
