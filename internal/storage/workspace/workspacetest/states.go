package workspacetest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// testCompose makes states of edits and compares them with the same edits made
// by hand.
func testCompose(t *testing.T, w *World) {
	before := Play(t, Job{Dir: w.Source, Acts: SourceActs()})
	base, _ := w.Import()
	dirEntry := &tree.Entry{Kind: tree.KindDir, Mode: 0o711, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), MTime: fsx.Time{Sec: 9}}
	linked := NewFile("made/b", "linked")
	linked.LinkTo = "made/a"
	edits := []workspace.Edit{
		NewFile("file", "edited"),
		NewFile("made/a", "linked"),
		linked,
		{Path: "made", New: dirEntry},
		{Path: "emptydir"},
		{Path: "olddir"},
		{Path: "olddir/x"},
		{Path: "olddir/y"},
		NewFile("wide/200", "200"),
		{Path: "wide/001"},
		{Path: "dir/sub", New: NewFile("", "now a file").New, Open: NewFile("", "now a file").Open},
		{Path: "dir/sub/deep"},
		{Path: "hard2"},
		NewFile("nodir/inside", "new inside"),
	}
	one, err := w.Store.Compose(context.Background(), w.Cell, base.Layer, w.Op(), edits)
	w.Must(err)
	if one.Parent != base.Layer || one.Changed == 0 || one.Unchanged {
		t.Errorf("composed: %+v", one)
	}
	w.Check("base, after", base.Layer, before)

	model := TempDir(t)
	d, err := fsx.OpenRoot(model)
	w.Must(err)
	defer d.Close()
	w.Must(w.Store.Materialise(context.Background(), w.Cell.Backend, base.Layer, workspace.AreaWorkspace, d, workspace.MaterialiseOptions{Owners: os.Geteuid() == 0}))
	want := Play(t, Job{Dir: model, Acts: modelActs(before)})
	w.Check("composed", one.Layer, want)
	if w.Cell.Backend == workspace.BackendDelta {
		SameItems(t, "live", before, See(t, w.Source))
	}
	w.composeErrors(base.Layer)
	w.NoPending()
}

// modelActs are TestCompose's edits, made by hand. Directories that no edit
// names keep their times.
func modelActs(before []Item) []Act {
	file := func(path, data string) []Act {
		return []Act{
			{Do: "rm", Path: Bytes("%s", path)},
			{Do: "write", Path: Bytes("%s", path), Data: Bytes("%s", data)},
			{Do: "chmod", Path: Bytes("%s", path), N: 0o640},
			{Do: "mtime", Path: Bytes("%s", path), N: 5, M: 6},
		}
	}
	acts := slices.Concat(
		file("file", "edited"),
		[]Act{{Do: "mkdir", Path: Bytes("made")}},
		file("made/a", "linked"),
		[]Act{
			{Do: "link", Path: Bytes("made/b"), To: Bytes("made/a")},
			{Do: "chmod", Path: Bytes("made"), N: 0o711},
			{Do: "mtime", Path: Bytes("made"), N: 9},
			{Do: "rm", Path: Bytes("emptydir")},
			{Do: "rm", Path: Bytes("olddir")},
		},
		file("wide/200", "200"),
		[]Act{{Do: "rm", Path: Bytes("wide/001")}, {Do: "rm", Path: Bytes("dir/sub")}},
		file("dir/sub", "now a file"),
		[]Act{{Do: "rm", Path: Bytes("hard2")}},
		file("nodir/inside", "new inside"),
	)
	for _, it := range before {
		for _, dir := range []string{"wide", "dir", "nodir", "."} {
			if string(it.Path) == dir {
				acts = append(acts, Act{Do: "mtime", Path: it.Path, N: it.Sec, M: it.Nsec})
			}
		}
	}
	return acts
}

func (w *World) composeErrors(layer string) {
	w.T.Helper()
	wrong := NewFile("file", "claimed")
	wrong.Open = NewFile("", "delivered").Open
	for name, edits := range map[string][]workspace.Edit{
		"other contents":    {wrong},
		"twice":             {{Path: "file"}, {Path: "file"}},
		"escapes":           {{Path: "../x"}},
		"below a file":      {NewFile("file", "x"), NewFile("file/y", "y")},
		"below nothing":     {NewFile("nothing/y", "y")},
		"below what goes":   {{Path: "dir"}, NewFile("dir/y", "y")},
		"the root goes":     {{Path: "."}},
		"a link to nothing": {func() workspace.Edit { e := NewFile("l", "x"); e.LinkTo = "none"; return e }()},
	} {
		if _, err := w.Store.Compose(context.Background(), w.Cell, layer, w.Op(), edits); err == nil {
			w.T.Errorf("compose with edits that are wrong (%s) succeeded", name)
		}
	}
	same, err := w.Store.Compose(context.Background(), w.Cell, layer, w.Op(), nil)
	w.Must(err)
	if !same.Unchanged || same.Layer != layer {
		w.T.Errorf("no edits gave %+v", same)
	}
}

// testRules checks that left-out files are left out everywhere, and stay in the
// source.
func testRules(t *testing.T, w *World) {
	rules, err := secretfiles.New(secretfiles.Options{})
	w.Must(err)
	w.Cell.Rules = rules
	Play(t, Job{Dir: w.Source, Acts: []Act{
		{Do: "write", Path: Bytes("code"), Data: Bytes("1")},
		{Do: "write", Path: Bytes(".env"), Data: Bytes("SECRET=1")},
		{Do: "mkdir", Path: Bytes(".ssh")},
		{Do: "write", Path: Bytes(".ssh/id"), Data: Bytes("key")},
		{Do: "mkdir", Path: Bytes("sub")},
		{Do: "write", Path: Bytes("sub/x.pem"), Data: Bytes("pem")},
		{Do: "write", Path: Bytes("tracked.pem"), Data: Bytes("public")},
	}})
	if _, err := exec.LookPath("git"); err == nil {
		for _, args := range [][]string{
			{"init", "-q"},
			{"add", "-f", "tracked.pem"},
			{"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "tracked"},
		} {
			out, err := exec.Command("git", append([]string{"-C", w.Source}, args...)...).CombinedOutput()
			if err != nil {
				t.Fatalf("git: %v: %s", err, out)
			}
		}
	}
	base, report := w.Import()
	var left []string
	for _, l := range report.LeftOut {
		left = append(left, l.Path)
	}
	if got := strings.Join(left, " "); got != ".env .ssh sub/x.pem" {
		t.Errorf("left out: %q", got)
	}
	if got := strings.Join(report.Kept, " "); got != "tracked.pem" {
		t.Errorf("kept: %q", got)
	}
	w.Cell.Kept = report.Kept
	if _, ok, err := w.Tree(base.Layer).Lookup(".ssh/id"); ok || err != nil {
		t.Errorf("a secret is in the state: %v %v", ok, err)
	}
	work := w.Begin(w.Cell, base.Layer)
	var masks []string
	for _, m := range work.Mounts().Masks {
		masks = append(masks, m.Target)
	}
	if got := strings.Join(masks, " "); w.Cell.Backend == workspace.BackendDelta && got != "/w/.env /w/.ssh /w/sub/x.pem" || w.Cell.Backend != workspace.BackendDelta && got != "" {
		t.Errorf("masks: %q", got)
	}
	w.Do(work, Act{Do: "rm", Path: Bytes("code")}, Act{Do: "write", Path: Bytes("sub/new"), Data: Bytes("x")})
	one := w.Seal(work)
	w.Must(w.Store.Switch(context.Background(), w.Cell, one.Layer, base.Layer, w.Op()))
	for _, name := range []string{".env", ".ssh/id", "sub/x.pem"} {
		if _, err := os.Stat(filepath.Join(w.Source, name)); err != nil {
			t.Errorf("it did not survive: %v", err)
		}
	}
	w.scans(base)
}

// scans reads the source again, as refresh does.
func (w *World) scans(base workspace.Sealed) {
	w.T.Helper()
	src, err := fsx.OpenRoot(w.Source)
	w.Must(err)
	defer src.Close()
	old := w.Tree(base.Layer)
	t, report, err := w.Store.Scan(context.Background(), w.Cell, src, old)
	w.Must(err)
	root, meta := old.Roots()
	if r, m := t.Roots(); r != root || m != meta {
		diffs, err := tree.Compare(old, t)
		w.T.Errorf("an unchanged source has other roots: %+v %v", diffs, err)
	}
	if len(report.LeftOut) != 3 || report.Files == 0 {
		w.T.Errorf("scan: %+v", report)
	}
	w.Store.Forget(t)
	w.Store.Forget(old) // is stored, and stays
	// The same size and time: only the change time differs.
	name := filepath.Join(w.Source, "code")
	info, err := os.Stat(name)
	w.Must(err)
	w.Must(os.WriteFile(name, []byte("2"), 0o644))
	w.Must(os.Chtimes(name, time.Time{}, info.ModTime()))
	t, _, err = w.Store.Scan(context.Background(), w.Cell, src, old)
	w.Must(err)
	changes, err := tree.Diff(old, t, tree.DiffOptions{})
	w.Must(err)
	if len(changes) != 1 || changes[0].Path != "code" {
		w.T.Errorf("scan found %+v", changes)
	}
}

// testFill imports what something else unpacks, with owners that an ordinary
// user cannot give.
func testFill(t *testing.T, w *World) {
	rules, err := secretfiles.New(secretfiles.Options{})
	w.Must(err)
	w.Cell.Rules = rules
	fill := func(dst *fsx.Dir) (workspace.OwnerOf, error) {
		f, err := dst.Create("f", 0o644)
		if err != nil {
			return nil, err
		}
		f.Close()
		if os.Geteuid() == 0 {
			if err := dst.Chown("f", 1234, 5678); err != nil {
				return nil, err
			}
		}
		s, err := dst.Create(".env", 0o644)
		if err != nil {
			return nil, err
		}
		s.Close()
		owner := func(path string) (workspace.Owner, bool) { return workspace.Owner{UID: 1234, GID: 5678}, path == "f" }
		return owner, dst.Chtimes(".", fsx.Time{Sec: 77})
	}
	sealed, report, err := w.Store.Import(context.Background(), w.Cell, w.Op(), workspace.Source{Fill: fill})
	w.Must(err)
	if len(report.LeftOut) != 1 {
		t.Errorf("left out: %+v", report.LeftOut)
	}
	e, ok, err := w.Tree(sealed.Layer).Lookup("f")
	if err != nil || !ok || e.UID != 1234 || e.GID != 5678 {
		t.Errorf("recorded: %+v %v %v", e, ok, err)
	}
	if w.Tree(sealed.Layer).Root().MTime.Sec != 77 {
		t.Error("taking something out changed the root's time")
	}
	w.Verify("filled", sealed.Layer)
	work := w.Begin(w.Cell, sealed.Layer)
	w.Do(work, Act{Do: "append", Path: Bytes("f"), Data: Bytes("x")}, Act{Do: "write", Path: Bytes("g")})
	one := w.Seal(work)
	for name, want := range map[string]uint32{"f": 1234, "g": uint32(os.Geteuid())} {
		if e, _, err := w.Tree(one.Layer).Lookup(name); err != nil || e.UID != want {
			t.Errorf("%s belongs to %d, not %d (%v)", name, e.UID, want, err)
		}
	}
	w.Verify("changed", one.Layer)
}

// testDrift seals changes of the host separately from those of a cell.
func testDrift(t *testing.T, w *World) {
	w.Must(os.WriteFile(w.Source+"/f", []byte("1"), 0o600))
	base, _ := w.Import()
	w.Must(os.WriteFile(w.Source+"/f", []byte("2"), 0o600))
	drift, err := w.Store.Drift(context.Background(), w.Cell, base.Layer, w.Op())
	w.Must(err)
	if drift.Unchanged || drift.Changed != 1 || drift.Parent != base.Layer {
		t.Errorf("drift: %+v", drift)
	}
	w.Check("drift", drift.Layer, See(t, w.Source))
	if n, err := w.Store.Depth(drift.Layer); n != 2 || err != nil {
		t.Errorf("depth %d, %v", n, err)
	}
}

// testSweep removes only what nothing needs.
func testSweep(t *testing.T, w *World) {
	Play(t, Job{Dir: w.Source, Acts: []Act{{Do: "write", Path: Bytes("f"), Data: Bytes("base")}, {Do: "write", Path: Bytes("g"), Data: Bytes("g")}}})
	base, _ := w.Import()
	work := w.Begin(w.Cell, base.Layer)
	want := w.Do(work, Act{Do: "append", Path: Bytes("f"), Data: Bytes("+")})
	head := w.Seal(work)
	work = w.Begin(w.Cell, head.Layer)
	w.Do(work, Act{Do: "append", Path: Bytes("f"), Data: Bytes("lost")})
	lost := w.Seal(work)
	busy := w.Begin(w.Cell, head.Layer)
	stale := w.Begin(w.Cell, head.Layer)
	stale.Close()
	w.Must(w.Store.Switch(context.Background(), w.Cell, lost.Layer, head.Layer, "op_switch"))
	// Journals without a cell, with files that exist nowhere else.
	for name, files := range map[string][]string{"op_half": {"intent.json"}, "op_foreign": {"intent.json", "rolledback", "foreign"}} {
		w.Must(os.MkdirAll(filepath.Join(w.Home, "applies", name), 0o700))
		for _, f := range files {
			w.Must(os.WriteFile(filepath.Join(w.Home, "applies", name, f), nil, 0o600))
		}
	}
	keep := func(l string) bool { return l == head.Layer }
	inUse := func(op string) bool { return op == OpOf(busy) }
	for _, dry := range []bool{true, false} {
		r, err := w.Store.Sweep(context.Background(), keep, inUse, dry)
		w.Must(w.Store.Empty(context.Background(), &r))
		w.Must(err)
		gone := []string{lost.Layer}
		if w.Cell.Backend == workspace.BackendClone {
			gone = []string{base.Layer, lost.Layer}
		}
		if !slices.Equal(r.Layers, gone) || !slices.Equal(r.Pending, []string{OpOf(stale)}) || r.Bytes == 0 {
			t.Errorf("dry %v: %+v, want %q", dry, r, gone)
		}
		if n := map[workspace.Backend]int{workspace.BackendDelta: 1}[w.Cell.Backend]; r.Objects != n || len(r.Journals) != n {
			t.Errorf("dry %v: %d objects, %q", dry, r.Objects, r.Journals)
		}
	}
	if left, err := w.Store.UnendedJournals(); err != nil || !slices.Equal(left, []string{"op_foreign", "op_half"}) {
		t.Errorf("journals left: %q, %v", left, err)
	}
	w.Check("after the sweep", head.Layer, want)
	if _, err := w.Store.Info(lost.Layer); !errors.Is(err, workspace.ErrNoLayer) {
		t.Errorf("the lost layer is still there: %v", err)
	}
	w.Seal(busy)
	w.NoPending()
	infos, damaged, err := w.Store.LayerInfos()
	if err != nil || len(damaged) != 0 || len(infos) == 0 {
		t.Errorf("layers: %v %v %v", infos, damaged, err)
	}
	if w.Cell.Backend == workspace.BackendDelta {
		w.Must(w.Store.ForkLive(context.Background(), workspace.Cell{ID: "cell_x", Backend: workspace.BackendDelta}, head.Layer))
		r, err := w.Store.SweepLive(context.Background(), func(string) bool { return false }, false)
		w.Must(w.Store.Empty(context.Background(), &r))
		if err != nil || len(r.Live) != 1 {
			t.Errorf("live: %+v %v", r, err)
		}
	}
	w.NoPending()
}
