package engine_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestRecoverDescribesAreas: a lost layer.json is written again also for a
// state with more areas than the two, with the states that they are based on.
func TestRecoverDescribesAreas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	source := w.from("one", "")
	w.sh("one", fill("one"), acceptOnSuccess)
	w.promote("one")
	w.from("two", source)
	w.sh("two", "echo two > /cache/go/build/two", acceptOnSuccess)
	w.sh("two", "echo later > later", acceptOnSuccess, func(r *api.RunRequest) { r.Cache = api.CacheOff })
	layers, err := filepath.Glob(filepath.Join(w.home, "layers/*/layer.json"))
	w.ok(err)
	for _, lost := range append([][]string{layers}, each(layers)...) {
		for _, f := range lost {
			w.ok(os.Remove(f))
		}
		w.ok(w.recover())
		w.open()
		_, err := w.e.GC(w.ctx, api.GCRequest{})
		w.ok(err)
		w.wantCache("after "+strings.Join(lost, " "), "two", append([]string{"./go/build/two"}, sharedBySource...))
		w.sound("one", "two", "cache:home", "cache:"+source)
	}
}

func each(list []string) (out [][]string) {
	for _, s := range list {
		out = append(out, []string{s})
	}
	return out
}

// TestRecoverDescribesLayers: a lost layer.json is written again if the layer
// has the signed state.
func TestRecoverDescribesLayers(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		p := newPast(w.T, backend)
		layers, err := filepath.Glob(filepath.Join(p.home, "layers/*/layer.json"))
		p.ok(err)
		p.closeHome()
		lose := func(files ...string) {
			p.Helper()
			for _, f := range files {
				p.ok(os.Remove(f))
			}
			res, err := p.runRecover(false)
			p.ok(err)
			if len(res.Problems) > 0 || len(res.Notes) != len(files) {
				p.Fatalf("without %q: problems %q, notes %q", files, res.Problems, res.Notes)
			}
			p.reopen()
			p.verified()
			p.sound("demo")
			p.wantInside("demo", "docs/a.md", "a\nlater\n")
			p.closeHome()
		}
		for _, f := range layers {
			lose(f)
		}
		lose(layers...)

		// It must be the state that was signed.
		top := filepath.Join(p.home, "layers", p.layerOf(p.pending.CheckpointAfter))
		p.ok(os.Remove(filepath.Join(top, "layer.json")))
		if backend == "delta" {
			p.ok(os.Remove(filepath.Join(top, "manifest")))
		} else {
			p.ok(os.WriteFile(filepath.Join(top, "workspace/docs/a.md"), []byte("altered"), 0o600))
		}
		res, err := p.runRecover(false)
		p.ok(err)
		if len(res.Problems) != 1 || !strings.Contains(res.Problems[0], "its layer.json is lost") {
			p.Fatalf("%+v", res)
		}
		if _, err := os.Stat(filepath.Join(top, "layer.json")); err == nil {
			p.Error("the layer.json of an altered layer is written again")
		}
	})
}
