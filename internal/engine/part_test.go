package engine_test

import (
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestAcceptedPart: the selected paths are there with their directories, and
// the others are as before.
func TestAcceptedPart(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		w.init("demo", backend)
		w.sh("demo", "rm -r docs; mkdir -p nd/deep; echo N > nd/deep/n; echo other > nd/other")
		_, err := w.e.Accept(w.ctx, api.AcceptRequest{Cell: "demo", Except: []string{"docs/a.md", "nd/other"}})
		w.ok(err)
		w.wantInside("demo", "docs/a.md", "a\n")
		w.wantInside("demo", "docs/b.md", "absent\n")
		w.wantInside("demo", "nd/deep/n", "N\n")
		w.wantInside("demo", "nd/other", "absent\n")

		w.sh("demo", "mkdir -p only/this; echo N > only/this/n; echo no > only/not; rm -r docs; echo file > docs")
		_, err = w.e.Accept(w.ctx, api.AcceptRequest{Cell: "demo", Except: []string{"docs/a.md"}})
		w.refused(err, api.Refused, "holds \"docs/a.md\", which stays")
		_, err = w.e.Accept(w.ctx, api.AcceptRequest{Cell: "demo", Only: []string{"only/this/n"}})
		w.ok(err)
		w.wantInside("demo", "only/this/n", "N\n")
		w.wantInside("demo", "only/not", "absent\n")
		w.wantInside("demo", "docs/a.md", "a\n")
		w.sound("demo")
	})
}

// TestAppliedPart: a partial apply writes the same as a partial accept, and the
// rest can be applied later.
func TestAppliedPart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.init("demo", "overlay")
	w.sh("demo", "rm -r docs; mkdir -p nd/deep; echo N > nd/deep/n; echo other > nd/other", acceptOnSuccess)
	_, err := w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo", Only: []string{"nd/deep/n", "docs"}, Except: []string{"docs/a.md"}})
	w.ok(err)
	if got := w.read("docs/a.md") + w.read("nd/deep/n"); got != "a\nN\n" {
		t.Fatalf("got %q", got)
	}
	res, err := w.e.Apply(w.ctx, api.ApplyRequest{Cell: "demo"})
	w.ok(err)
	if len(res.Written) != 3 { // docs, docs/a.md, nd/other
		t.Fatalf("got %+v", res)
	}
	w.sound("demo")
}
