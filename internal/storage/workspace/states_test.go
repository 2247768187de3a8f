package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// newFile is an edit that makes or changes a file.
func newFile(path, data string) Edit {
	return Edit{
		Path: path,
		New: &tree.Entry{
			Kind: tree.KindFile, Mode: 0o640, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()),
			Size: int64(len(data)), Digest: sha256.Sum256([]byte(data)), MTime: fsx.Time{Sec: 5, Nsec: 6},
		},
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(data)), nil },
	}
}

// TestCompose makes states of edits and compares them with the same edits made
// by hand.
func TestCompose(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		before := play(t, actorJob{Dir: w.src, Acts: sourceActs()})
		base, _ := w.imports()
		dirEntry := &tree.Entry{Kind: tree.KindDir, Mode: 0o711, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), MTime: fsx.Time{Sec: 9}}
		linked := newFile("made/b", "linked")
		linked.LinkTo = "made/a"
		edits := []Edit{
			newFile("file", "edited"),
			newFile("made/a", "linked"),
			linked,
			{Path: "made", New: dirEntry},
			{Path: "emptydir"},
			{Path: "olddir"},
			{Path: "olddir/x"},
			{Path: "olddir/y"},
			newFile("wide/200", "200"),
			{Path: "wide/001"},
			{Path: "dir/sub", New: newFile("", "now a file").New, Open: newFile("", "now a file").Open},
			{Path: "dir/sub/deep"},
			{Path: "hard2"},
			newFile("nodir/inside", "new inside"),
		}
		kept := len(w.s.inMemory)
		one, err := w.s.Compose(context.Background(), w.c, base.Layer, w.op(), edits)
		if left := len(w.s.inMemory); left != kept {
			w.t.Errorf("%d trees are kept in memory, before %d", left, kept)
		}
		w.must(err)
		if one.Parent != base.Layer || one.Changed == 0 || one.Unchanged {
			t.Errorf("composed: %+v", one)
		}
		w.check("base, after", base.Layer, before)

		model := tempDir(t)
		d, err := fsx.OpenRoot(model)
		w.must(err)
		defer d.Close()
		w.must(w.s.Materialise(context.Background(), w.c.Backend, base.Layer, AreaWorkspace, d, MaterialiseOptions{Owners: os.Geteuid() == 0}))
		want := play(t, actorJob{Dir: model, Acts: modelActs(before)})
		w.check("composed", one.Layer, want)
		if w.c.Backend == BackendDelta {
			sameItems(t, "live", before, see(t, w.src))
		}
		w.composeErrors(base.Layer)
		w.noPending()
	})
}

// modelActs are TestCompose's edits, made by hand. Directories that no edit
// names keep their times.
func modelActs(before []item) []act {
	file := func(path, data string) []act {
		return []act{
			{Do: "rm", Path: p("%s", path)},
			{Do: "write", Path: p("%s", path), Data: p("%s", data)},
			{Do: "chmod", Path: p("%s", path), N: 0o640},
			{Do: "mtime", Path: p("%s", path), N: 5, M: 6},
		}
	}
	acts := slices.Concat(
		file("file", "edited"),
		[]act{{Do: "mkdir", Path: p("made")}},
		file("made/a", "linked"),
		[]act{
			{Do: "link", Path: p("made/b"), To: p("made/a")},
			{Do: "chmod", Path: p("made"), N: 0o711},
			{Do: "mtime", Path: p("made"), N: 9},
			{Do: "rm", Path: p("emptydir")},
			{Do: "rm", Path: p("olddir")},
		},
		file("wide/200", "200"),
		[]act{{Do: "rm", Path: p("wide/001")}, {Do: "rm", Path: p("dir/sub")}},
		file("dir/sub", "now a file"),
		[]act{{Do: "rm", Path: p("hard2")}},
		file("nodir/inside", "new inside"),
	)
	for _, it := range before {
		for _, dir := range []string{"wide", "dir", "nodir", "."} {
			if string(it.Path) == dir {
				acts = append(acts, act{Do: "mtime", Path: it.Path, N: it.Sec, M: it.Nsec})
			}
		}
	}
	return acts
}

func (w *world) composeErrors(layer string) {
	w.t.Helper()
	wrong := newFile("file", "claimed")
	wrong.Open = newFile("", "delivered").Open
	for name, edits := range map[string][]Edit{
		"other contents":    {wrong},
		"twice":             {{Path: "file"}, {Path: "file"}},
		"escapes":           {{Path: "../x"}},
		"below a file":      {newFile("file", "x"), newFile("file/y", "y")},
		"below nothing":     {newFile("nothing/y", "y")},
		"below what goes":   {{Path: "dir"}, newFile("dir/y", "y")},
		"the root goes":     {{Path: "."}},
		"a link to nothing": {func() Edit { e := newFile("l", "x"); e.LinkTo = "none"; return e }()},
	} {
		if _, err := w.s.Compose(context.Background(), w.c, layer, w.op(), edits); err == nil {
			w.t.Errorf("compose with edits that are wrong (%s) succeeded", name)
		}
	}
	same, err := w.s.Compose(context.Background(), w.c, layer, w.op(), nil)
	w.must(err)
	if !same.Unchanged || same.Layer != layer {
		w.t.Errorf("no edits gave %+v", same)
	}
}

// TestRules checks that left-out files are left out everywhere, and stay in the
// source.
func TestRules(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		rules, err := secretfiles.New(secretfiles.Options{})
		w.must(err)
		w.c.Rules = rules
		play(t, actorJob{Dir: w.src, Acts: []act{
			{Do: "write", Path: p("code"), Data: p("1")},
			{Do: "write", Path: p(".env"), Data: p("SECRET=1")},
			{Do: "mkdir", Path: p(".ssh")},
			{Do: "write", Path: p(".ssh/id"), Data: p("key")},
			{Do: "mkdir", Path: p("sub")},
			{Do: "write", Path: p("sub/x.pem"), Data: p("pem")},
			{Do: "write", Path: p("tracked.pem"), Data: p("public")},
		}})
		if _, err := exec.LookPath("git"); err == nil {
			for _, args := range [][]string{
				{"init", "-q"},
				{"add", "-f", "tracked.pem"},
				{"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "tracked"},
			} {
				out, err := exec.Command("git", append([]string{"-C", w.src}, args...)...).CombinedOutput()
				if err != nil {
					t.Fatalf("git: %v: %s", err, out)
				}
			}
		}
		base, report := w.imports()
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
		w.c.Kept = report.Kept
		if _, ok, err := w.tree(base.Layer).Lookup(".ssh/id"); ok || err != nil {
			t.Errorf("a secret is in the state: %v %v", ok, err)
		}
		work := w.begin(w.c, base.Layer)
		var masks []string
		for _, m := range work.Mounts().Masks {
			masks = append(masks, m.Target)
		}
		if got := strings.Join(masks, " "); w.c.Backend == BackendDelta && got != "/w/.env /w/.ssh /w/sub/x.pem" || w.c.Backend != BackendDelta && got != "" {
			t.Errorf("masks: %q", got)
		}
		w.acts(work, act{Do: "rm", Path: p("code")}, act{Do: "write", Path: p("sub/new"), Data: p("x")})
		one := w.seal(work)
		w.must(w.s.Switch(context.Background(), w.c, one.Layer, base.Layer, w.op()))
		for _, name := range []string{".env", ".ssh/id", "sub/x.pem"} {
			if _, err := os.Stat(filepath.Join(w.src, name)); err != nil {
				t.Errorf("it did not survive: %v", err)
			}
		}
		w.scans(base)
	})
}

// scans reads the source again, as refresh does.
func (w *world) scans(base Sealed) {
	w.t.Helper()
	src, err := fsx.OpenRoot(w.src)
	w.must(err)
	defer src.Close()
	old := w.tree(base.Layer)
	t, report, err := w.s.Scan(context.Background(), w.c, src, old)
	w.must(err)
	root, meta := old.Roots()
	if r, m := t.Roots(); r != root || m != meta {
		diffs, err := tree.Compare(old, t)
		w.t.Errorf("an unchanged source has other roots: %+v %v", diffs, err)
	}
	if len(report.LeftOut) != 3 || report.Files == 0 {
		w.t.Errorf("scan: %+v", report)
	}
	before := len(w.s.packs.files)
	w.s.Forget(t)
	w.s.Forget(old) // is stored, and stays
	if left := len(w.s.packs.files); left != before-1 {
		w.t.Errorf("%d of %d manifests are left", left, before)
	}
	// The same size and time: only the change time differs.
	name := filepath.Join(w.src, "code")
	info, err := os.Stat(name)
	w.must(err)
	w.must(os.WriteFile(name, []byte("2"), 0o644))
	w.must(os.Chtimes(name, time.Time{}, info.ModTime()))
	t, _, err = w.s.Scan(context.Background(), w.c, src, old)
	w.must(err)
	changes, err := tree.Diff(old, t, tree.DiffOptions{})
	w.must(err)
	if len(changes) != 1 || changes[0].Path != "code" {
		w.t.Errorf("scan found %+v", changes)
	}
}

// TestSourceChanges changes a file while it is read.
func TestSourceChanges(t *testing.T) {
	t.Parallel()
	for _, times := range []int{1, rereads} {
		backends(t, func(t *testing.T, w *world) {
			name := filepath.Join(w.src, "f")
			w.must(os.WriteFile(name, []byte("start"), 0o600))
			n := 0
			w.open(Options{unsynced: true, hook: func(step string) error {
				if step == "scan.read" && n < times {
					n++
					return os.WriteFile(name, bytes.Repeat([]byte("x"), n), 0o600)
				}
				return nil
			}})
			sealed, _, err := w.s.Import(context.Background(), w.c, w.op(), Source{Dir: w.src})
			if times == rereads {
				if !errors.Is(err, ErrSourceChanged) || !strings.Contains(err.Error(), name) {
					t.Errorf("import: %v", err)
				}
				w.noPending()
				return
			}
			w.must(err)
			w.check("import", sealed.Layer, see(t, w.src))
		})
	}
}

// TestFill imports what something else unpacks, with owners that an ordinary
// user cannot give.
func TestFill(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		rules, err := secretfiles.New(secretfiles.Options{})
		w.must(err)
		w.c.Rules = rules
		fill := func(dst *fsx.Dir) (OwnerOf, error) {
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
			owner := func(path string) (Owner, bool) { return Owner{1234, 5678}, path == "f" }
			return owner, dst.Chtimes(".", fsx.Time{Sec: 77})
		}
		sealed, report, err := w.s.Import(context.Background(), w.c, w.op(), Source{Fill: fill})
		w.must(err)
		if len(report.LeftOut) != 1 {
			t.Errorf("left out: %+v", report.LeftOut)
		}
		e, ok, err := w.tree(sealed.Layer).Lookup("f")
		if err != nil || !ok || e.UID != 1234 || e.GID != 5678 {
			t.Errorf("recorded: %+v %v %v", e, ok, err)
		}
		if w.tree(sealed.Layer).Root().MTime.Sec != 77 {
			t.Error("taking something out changed the root's time")
		}
		w.verify("filled", sealed.Layer)
		work := w.begin(w.c, sealed.Layer)
		w.acts(work, act{Do: "append", Path: p("f"), Data: p("x")}, act{Do: "write", Path: p("g")})
		one := w.seal(work)
		for name, want := range map[string]uint32{"f": 1234, "g": uint32(os.Geteuid())} {
			if e, _, err := w.tree(one.Layer).Lookup(name); err != nil || e.UID != want {
				t.Errorf("%s belongs to %d, not %d (%v)", name, e.UID, want, err)
			}
		}
		w.verify("changed", one.Layer)
	})
}

// TestDrift seals changes of the host separately from those of a cell.
func TestDrift(t *testing.T) {
	t.Parallel()
	w := newWorld(t, BackendDelta)
	w.must(os.WriteFile(w.src+"/f", []byte("1"), 0o600))
	base, _ := w.imports()
	w.must(os.WriteFile(w.src+"/f", []byte("2"), 0o600))
	drift, err := w.s.Drift(context.Background(), w.c, base.Layer, w.op())
	w.must(err)
	if drift.Unchanged || drift.Changed != 1 || drift.Parent != base.Layer {
		t.Errorf("drift: %+v", drift)
	}
	w.check("drift", drift.Layer, see(t, w.src))
	if n, err := w.s.Depth(drift.Layer); n != 2 || err != nil {
		t.Errorf("depth %d, %v", n, err)
	}
}

// TestVerifyNamesDamage changes the stored files, one at a time.
func TestVerifyNamesDamage(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		play(t, actorJob{Dir: w.src, Acts: []act{
			{Do: "mkdir", Path: p("d")}, {Do: "write", Path: p("d/f"), Data: p("good")}, {Do: "write", Path: p("g"), Data: p("g")},
		}})
		base, _ := w.imports()
		work := w.begin(w.c, base.Layer)
		w.acts(work, act{Do: "append", Path: p("g"), Data: p("2")})
		one := w.seal(work)
		layer := w.home + "/layers/" + base.Layer
		victim := layer + "/workspace/d/f"
		if w.c.Backend == BackendClone {
			victim = w.home + "/layers/" + one.Layer + "/workspace/d/f"
		}
		if w.c.Backend == BackendDelta {
			victim = w.home + "/objects/" + objectPath(sha256.Sum256([]byte("good")))
		}
		damage := func(what, want string, do, undo func() error) {
			t.Helper()
			w.must(do())
			diffs, err := w.s.Verify(context.Background(), w.c, one.Layer)
			var text []string
			for _, d := range diffs {
				text = append(text, d.Path+": "+strings.Join(d.What, ","))
			}
			if err != nil || !strings.Contains(strings.Join(text, "; "), want) {
				t.Errorf("%s: verify says %q, %v; want %q", what, text, err, want)
			}
			w.must(undo())
			w.verify("repaired: "+what, one.Layer)
		}
		var st unix.Stat_t
		w.must(unix.Stat(victim, &st))
		rewrite := func(data string) func() error {
			return func() error {
				return errors.Join(os.Chmod(victim, 0o600), os.WriteFile(victim, []byte(data), 0o600), os.Chmod(victim, os.FileMode(st.Mode&0o777)),
					unix.UtimesNano(victim, []unix.Timespec{st.Atim, st.Mtim}))
			}
		}
		move := func(from, to string) func() error { return func() error { return os.Rename(from, to) } }
		damage("other contents", "d/f: content", rewrite("evil"), rewrite("good"))
		hidden := w.home + "/hidden"
		if w.c.Backend == BackendDelta {
			damage("a missing object", "d/f: content", move(victim, hidden), move(hidden, victim))
		}
		if w.c.Backend == BackendOverlay {
			damage("a missing layer", "layers/"+base.Layer, move(layer, hidden), move(hidden, layer))
			other := w.home + "/layers/" + one.Layer + "/workspace/extra"
			damage("an extra file", "extra: unexpected",
				func() error { return os.WriteFile(other, nil, 0o600) }, func() error { return errors.Join(os.Remove(other), w.touchRoot(one.Layer)) })
		}
		manifest := w.home + "/layers/" + one.Layer + "/manifest"
		good, err := os.ReadFile(manifest)
		w.must(err)
		bad := slices.Clone(good)
		bad[len(bad)/2] ^= 1
		damage("an altered manifest", "manifest", func() error { return os.WriteFile(manifest, bad, 0o600) }, func() error { return os.WriteFile(manifest, good, 0o600) })
		w.newer(one.Layer)
	})
}

// touchRoot gives a layer's root back the time that the manifest says.
func (w *world) touchRoot(layer string) error {
	m := w.tree(layer).Root().MTime
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: m.Sec, Nsec: int64(m.Nsec)}}
	return unix.UtimesNano(w.home+"/layers/"+layer+"/workspace", times)
}

// newer checks that a layer of a later program is refused.
func (w *world) newer(layer string) {
	w.t.Helper()
	name := w.home + "/layers/" + layer + "/layer.json"
	good, err := os.ReadFile(name)
	w.must(err)
	w.must(os.WriteFile(name, bytes.Replace(good, []byte(`"format": 1`), []byte(`"format": 2`), 1), 0o600))
	w.open(Options{})
	if _, err := w.s.Begin(context.Background(), w.c, layer, w.op()); !errors.Is(err, ErrNewerFormat) {
		w.t.Errorf("begin on a newer layer: %v", err)
	}
	if _, err := w.s.Verify(context.Background(), w.c, layer); !errors.Is(err, ErrNewerFormat) {
		w.t.Errorf("verify of a newer layer: %v", err)
	}
	w.must(os.WriteFile(name, []byte("{"), 0o600))
	if _, _, err := w.s.Resume(context.Background(), w.c, layer, "run_"+strings.TrimPrefix(layer, "lay_")); !errors.Is(err, ErrCorrupt) {
		w.t.Errorf("resume of a broken layer: %v", err)
	}
	w.must(os.WriteFile(name, good, 0o600))
	other := w.c
	other.Backend = map[Backend]Backend{BackendOverlay: BackendClone, BackendClone: BackendDelta, BackendDelta: BackendOverlay}[w.c.Backend]
	if _, err := w.s.Begin(context.Background(), other, layer, w.op()); !errors.Is(err, ErrMixed) {
		w.t.Errorf("begin with another backend: %v", err)
	}
	if _, err := w.s.Begin(context.Background(), w.c, "lay_none", w.op()); !errors.Is(err, ErrNoLayer) {
		w.t.Errorf("begin on nothing: %v", err)
	}
}

// TestSweep removes only what nothing needs.
func TestSweep(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		play(t, actorJob{Dir: w.src, Acts: []act{{Do: "write", Path: p("f"), Data: p("base")}, {Do: "write", Path: p("g"), Data: p("g")}}})
		base, _ := w.imports()
		work := w.begin(w.c, base.Layer)
		want := w.acts(work, act{Do: "append", Path: p("f"), Data: p("+")})
		head := w.seal(work)
		work = w.begin(w.c, head.Layer)
		w.acts(work, act{Do: "append", Path: p("f"), Data: p("lost")})
		lost := w.seal(work)
		busy := w.begin(w.c, head.Layer)
		stale := w.begin(w.c, head.Layer)
		stale.Close()
		w.must(w.s.Switch(context.Background(), w.c, lost.Layer, head.Layer, "op_switch"))
		// Journals without a cell, with files that exist nowhere else.
		for name, files := range map[string][]string{"op_half": {"intent.json"}, "op_foreign": {"intent.json", "rolledback", "foreign"}} {
			w.must(os.MkdirAll(filepath.Join(w.home, "applies", name), 0o700))
			for _, f := range files {
				w.must(os.WriteFile(filepath.Join(w.home, "applies", name, f), nil, 0o600))
			}
		}
		keep := func(l string) bool { return l == head.Layer }
		inUse := func(op string) bool { return op == busy.p.op }
		for _, dry := range []bool{true, false} {
			r, err := w.s.Sweep(context.Background(), keep, inUse, dry)
			w.must(w.s.Empty(context.Background(), &r))
			w.must(err)
			gone := []string{lost.Layer}
			if w.c.Backend == BackendClone {
				gone = []string{base.Layer, lost.Layer}
			}
			if !slices.Equal(r.Layers, gone) || !slices.Equal(r.Pending, []string{stale.p.op}) || r.Bytes == 0 {
				t.Errorf("dry %v: %+v, want %q", dry, r, gone)
			}
			if n := map[Backend]int{BackendDelta: 1}[w.c.Backend]; r.Objects != n || len(r.Journals) != n {
				t.Errorf("dry %v: %d objects, %q", dry, r.Objects, r.Journals)
			}
		}
		if left, err := w.s.UnendedJournals(); err != nil || !slices.Equal(left, []string{"op_foreign", "op_half"}) {
			t.Errorf("journals left: %q, %v", left, err)
		}
		w.check("after the sweep", head.Layer, want)
		if _, err := w.s.Info(lost.Layer); !errors.Is(err, ErrNoLayer) {
			t.Errorf("the lost layer is still there: %v", err)
		}
		w.seal(busy)
		w.noPending()
		infos, damaged, err := w.s.LayerInfos()
		if err != nil || len(damaged) != 0 || len(infos) == 0 {
			t.Errorf("layers: %v %v %v", infos, damaged, err)
		}
		if w.c.Backend == BackendDelta {
			w.must(w.s.ForkLive(context.Background(), Cell{ID: "cell_x", Backend: BackendDelta}, head.Layer))
			r, err := w.s.SweepLive(context.Background(), func(string) bool { return false }, false)
			w.must(w.s.Empty(context.Background(), &r))
			if err != nil || len(r.Live) != 1 {
				t.Errorf("live: %+v %v", r, err)
			}
		}
		w.noPending()
	})
}
