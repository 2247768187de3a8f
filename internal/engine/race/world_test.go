package race_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/engine/race"
	"github.com/forkcell/forkcell/internal/front/local"
	_ "github.com/forkcell/forkcell/internal/sandbox/driver/first" // cells of these tests
)

func TestMain(m *testing.M) {
	if code, is := local.Helper(); is {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// world is a home with the cell demo, made from a directory with one file.
type world struct {
	*testing.T
	ctx          context.Context
	e            *engine.Engine
	home, source string
	seen         []api.RaceEvent
}

func newWorld(t *testing.T, backend string) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{T: t, ctx: t.Context(), home: filepath.Join(dir, "home"), source: filepath.Join(dir, "src")}
	w.ok(os.MkdirAll(w.source, 0o755))
	w.ok(os.WriteFile(filepath.Join(w.source, "hello.txt"), []byte("hello\n"), 0o644))
	w.open()
	_, err := w.e.Init(w.ctx, api.InitRequest{Name: "demo", From: w.source, Backend: backend})
	w.ok(err)
	return w
}

func (w *world) open() {
	w.Helper()
	w.e = open(w.T, w.home)
}

// open opens a home as another process would.
func open(t *testing.T, home string) *engine.Engine {
	t.Helper()
	e, release, err := local.Open(home, local.Create, caller.Caller{Actor: func() string { return "tester" }, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = release() })
	return e
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// race runs a race and remembers its events.
func (w *world) race(req api.RaceRequest) (*api.RaceResult, error) {
	req.Cell = "demo"
	w.seen = nil
	return race.Run(w.ctx, w.e, req, func(e api.RaceEvent) { w.seen = append(w.seen, e) })
}

func sh(script string) []string { return []string{"sh", "-c", script} }

// read returns a file of a cell's present state.
func (w *world) read(name, file string) string {
	w.Helper()
	out := filepath.Join(w.TempDir(), "out")
	_, err := w.e.Export(w.ctx, api.ExportRequest{Cell: name, Output: out})
	w.ok(err)
	text, err := os.ReadFile(filepath.Join(out, file))
	w.ok(err)
	return string(text)
}

// wantCells checks which cells exist.
func (w *world) wantCells(want ...string) {
	w.Helper()
	list, err := w.e.List(w.ctx)
	w.ok(err)
	var got []string
	for _, c := range list {
		got = append(got, c.Name)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.Errorf("the cells are %q, want %q", got, want)
	}
}

// sound checks everything that was signed, and the states of the cell.
func (w *world) sound() {
	w.Helper()
	res, err := w.e.ReceiptVerify(w.ctx, "", "", true, "")
	if err != nil {
		w.Errorf("the log does not verify: %v: %+v", err, res)
	}
	if _, err := w.e.Verify(w.ctx, "demo", "", true); err != nil {
		w.Errorf("the cell does not verify: %v", err)
	}
}

func (w *world) refused(err error, kind api.Kind, part string) {
	w.Helper()
	if err == nil || api.KindOf(err) != kind || !strings.Contains(err.Error(), part) {
		w.Errorf("the error is %v (%s), want %s with %q", err, api.KindOf(err), kind, part)
	}
}

// outcomes lists the outcome of each receipt of the home.
func (w *world) outcomes() []string {
	w.Helper()
	list, err := w.e.ReceiptList(w.ctx, "")
	w.ok(err)
	var out []string
	for _, r := range list {
		out = append(out, r.Cell+" "+r.Outcome)
	}
	slices.Sort(out)
	return out
}

// rescue opens a home whose database is lost.
func rescue(t *testing.T, home string) *engine.Engine {
	t.Helper()
	e, release, err := local.Open(home, local.Rescue, caller.Caller{Actor: func() string { return "tester" }, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = release() })
	return e
}
