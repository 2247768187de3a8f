package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/storage/tree"
)

func pathsOf(items []item) map[string]bool {
	seen := map[string]bool{}
	for _, i := range items {
		seen[string(i.Path)] = true
	}
	return seen
}

// standInSource is a workspace with control files.
func standInSource() []act {
	return []act{
		{Do: "mkdir", Path: p(".git")},
		{Do: "write", Path: p(".git/config"), Data: p("[core]\n\tfsmonitor = evil\n")},
		{Do: "write", Path: p(".mcp.json"), Data: p("{}")},
		{Do: "mkdir", Path: p("sub")},
		{Do: "mkdir", Path: p("sub/.claude")},
		{Do: "write", Path: p("sub/.claude/settings.json"), Data: p("{}")},
		{Do: "mkdir", Path: p("a\xff")},
		{Do: "write", Path: p("a\xff/.mcp.json"), Data: p("{}")},
		{Do: "write", Path: p("a\xff/config"), Data: p("long enough")},
		{Do: "write", Path: p("file"), Data: p("one")},
	}
}

func standIns() []StandIn {
	return []StandIn{
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
	w := newWorld(t, BackendOverlay)
	play(t, actorJob{Dir: w.src, Acts: standInSource()})
	base, _ := w.imports()
	want := see(t, w.src)
	c := w.c
	c.StandIns = standIns()

	idle := w.begin(c, base.Layer)
	if sealed := w.seal(idle); !sealed.Unchanged {
		t.Errorf("a generation with nothing but stand-ins changed: %+v", sealed)
	}
	w.must(idle.Discard())
	w.check("after an idle generation", base.Layer, want)

	work := w.begin(c, base.Layer)
	seen := pathsOf(w.acts(work, act{Do: "append", Path: p("file"), Data: p("two")}, act{Do: "write", Path: p("sub/new"), Data: p("n")}))
	for _, hidden := range []string{".mcp.json", "sub/.claude", ".claude"} {
		if seen[hidden] {
			t.Errorf("the cell sees %s", hidden)
		}
	}
	captured, err := w.capture(work).Seal(context.Background())
	w.must(err)
	w.verify("captured", captured.Layer)
	sealed := w.seal(work)
	w.verify("sealed", sealed.Layer)
	if captured.Changed != sealed.Changed || sealed.Areas[AreaWorkspace] != captured.Areas[AreaWorkspace] {
		t.Errorf("captured %+v, sealed %+v", captured, sealed)
	}
	play(t, actorJob{Dir: w.src, Acts: []act{{Do: "append", Path: p("file"), Data: p("two")}, {Do: "write", Path: p("sub/new"), Data: p("n")}}})
	for _, layer := range []string{captured.Layer, sealed.Layer} {
		for _, name := range []string{".git/config", ".mcp.json", "sub/.claude/settings.json", "sub/new"} {
			was, err := os.ReadFile(w.src + "/" + name)
			w.must(err)
			e, ok, err := w.tree(layer).Lookup(name)
			w.must(err)
			if !ok || e.Size != int64(len(was)) {
				t.Errorf("%s of %s: %+v", name, layer, e)
			}
		}
	}
	w.noPending()
}

// TestStandInsRemovedDirectory: a cell can remove a directory with stand-ins, and
// make another one.
func TestStandInsRemovedDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, BackendOverlay)
	play(t, actorJob{Dir: w.src, Acts: standInSource()})
	base, _ := w.imports()
	c := w.c
	c.StandIns = standIns()
	work := w.begin(c, base.Layer)
	want := w.acts(work, act{Do: "rm", Path: p("sub")}, act{Do: "mkdir", Path: p("sub")}, act{Do: "mkdir", Path: p("sub/.claude")}, act{Do: "write", Path: p("sub/.claude/own"), Data: p("x")})
	sealed := w.seal(work)
	seen := map[string]bool{}
	w.must(w.tree(sealed.Layer).Walk(func(path string, _ tree.Entry) error {
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
	w := newWorld(t, BackendOverlay)
	play(t, actorJob{Dir: w.src, Acts: standInSource()})
	base, _ := w.imports()
	c := w.c
	c.StandIns = standIns()
	op := w.op()
	work, err := w.s.Begin(context.Background(), c, base.Layer, op)
	w.must(err)
	w.acts(work, act{Do: "append", Path: p("file"), Data: p("two")}, act{Do: "chmod", Path: p("sub"), N: 0o500})
	work.Close()
	// A second crash happens while they are removed.
	again, _, err := w.s.Resume(context.Background(), w.c, base.Layer, op)
	w.must(err)
	crash := errors.New("crash")
	w.s.opt.hook = func(step string) error {
		if step == "standins.removed" {
			return crash
		}
		return nil
	}
	if _, err := again.Seal(context.Background()); !errors.Is(err, crash) {
		t.Fatalf("seal: %v", err)
	}
	w.s.opt.hook = nil
	again.Close()
	again, _, err = w.s.Resume(context.Background(), w.c, base.Layer, op)
	w.must(err)
	sealed := w.seal(again)
	e, ok, err := w.tree(sealed.Layer).Lookup("sub")
	w.must(err)
	if !ok || e.Mode != 0o500 || sealed.Changed != 2 {
		t.Errorf("sealed %+v, sub %+v", sealed, e)
	}
	w.verify("sealed", sealed.Layer)
}

// TestStandInsWithLongPaths: a generation that can begin can be resumed.
func TestStandInsWithLongPaths(t *testing.T) {
	t.Parallel()
	w := newWorld(t, BackendOverlay)
	var acts []act
	dir := ""
	for range 14 {
		dir = path.Join(dir, strings.Repeat("d", 250))
		acts = append(acts, act{Do: "mkdir", Path: p("%s", dir)})
	}
	play(t, actorJob{Dir: w.src, Acts: acts})
	base, _ := w.imports()
	c := w.c
	for i := range 1200 { // more than 4 MiB
		c.StandIns = append(c.StandIns, StandIn{Path: fmt.Sprintf("%s/%0240d", dir, i), Absent: true})
	}
	op := w.op()
	work, err := w.s.Begin(context.Background(), c, base.Layer, op)
	w.must(err)
	work.Close()
	again, _, err := w.s.Resume(context.Background(), w.c, base.Layer, op)
	w.must(err)
	if sealed := w.seal(again); !sealed.Unchanged {
		t.Errorf("sealed %+v", sealed)
	}
	w.must(again.Discard())

	c.StandIns = []StandIn{{Path: strings.Repeat("x", maxRecord), Absent: true}}
	if _, err := w.s.Begin(context.Background(), c, base.Layer, w.op()); err == nil {
		t.Error("a list that cannot be read again is written")
	}
	w.noPending()
}

func TestStandInsElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, BackendClone)
	play(t, actorJob{Dir: w.src, Acts: standInSource()})
	base, _ := w.imports()
	w.c.StandIns = standIns()
	if _, err := w.s.Begin(context.Background(), w.c, base.Layer, w.op()); !errors.Is(err, ErrStandIns) {
		t.Errorf("begin: %v", err)
	}
	w.noPending()
}
