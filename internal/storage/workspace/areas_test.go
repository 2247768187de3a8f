package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/mount"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

const dataArea = "path:/data"

// withArea gives the cell an area over a new directory of the host. Everything
// in it may be read by others: private files would not be in the area.
func (w *world) withArea(acts ...act) (host string) {
	w.t.Helper()
	host = path.Join(path.Dir(w.src), "data")
	w.must(os.Mkdir(host, 0o755))
	play(w.t, actorJob{Dir: host, Acts: acts, Loose: true})
	w.must(filepath.WalkDir(host, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&os.ModeSymlink != 0 || os.Geteuid() != 0 {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil {
			return err
		}
		return unix.Chmod(name, st.Mode&0o7777|0o005)
	}))
	w.c.Areas = []Area{{Name: dataArea, Host: host, Target: "/data"}}
	return host
}

// without returns the cell without its areas.
func (w *world) without() Cell {
	c := w.c
	c.Areas = nil
	return c
}

// inArea makes changes in the area and returns its contents at the end.
func (w *world) inArea(work *Work, acts ...act) []item {
	w.t.Helper()
	items, err := w.tryActs(work, "/data", acts...)
	w.must(err)
	return w.dropUnreliable(items)
}

// areaSeen is what a generation on a state sees in the area.
func (w *world) areaSeen(layer string) []item {
	w.t.Helper()
	work := w.begin(w.c, layer)
	defer func() { w.must(work.Discard()) }()
	return w.inArea(work)
}

// areaSource is a directory of the host, with less in it than sourceActs: what
// a state keeps of a file does not depend on the area.
func areaSource() []act {
	acts := []act{
		{Do: "write", Path: p("file"), Data: p("hello\n")},
		{Do: "write", Path: p("empty")},
		{Do: "mkdir", Path: p("dir")},
		{Do: "write", Path: p("dir/in"), Data: p("in")},
		{Do: "xattr", Path: p("dir/in"), To: p("user.a"), Data: p("1")},
		{Do: "mkdir", Path: p("dir/sub")},
		{Do: "mkdir", Path: p("emptydir")},
		{Do: "symlink", Path: p("link"), To: p("file")},
		{Do: "write", Path: p("hard1"), Data: p("hard")},
		{Do: "link", Path: p("hard2"), To: p("hard1")},
		{Do: "fifo", Path: p("fifo")},
		{Do: "write", Path: p("noread"), Data: p("secret")},
		{Do: "chmod", Path: p("noread"), N: 0},
		{Do: "mkdir", Path: p("wide")},
		{Do: "mkdir", Path: p("olddir")},
		{Do: "write", Path: p("olddir/x"), Data: p("x")},
		{Do: "write", Path: p("olddir/y"), Data: p("y")},
	}
	for i := range 80 {
		acts = append(acts, act{Do: "write", Path: p("wide/%03d", i), Data: p("%d", i)})
	}
	return append(acts, act{Do: "chmod", Path: p("."), N: 0o750}, act{Do: "mtime", Path: p("."), N: 987654321, M: 42})
}

func areaChanges() []act {
	return []act{
		{Do: "append", Path: p("file"), Data: p("more\n")},
		{Do: "rm", Path: p("empty")},
		{Do: "rm", Path: p("olddir")}, // deleted and made again
		{Do: "mkdir", Path: p("olddir")},
		{Do: "write", Path: p("olddir/y"), Data: p("other y")},
		{Do: "mkdir", Path: p("made")},
		{Do: "write", Path: p("made/x"), Data: p("x")},
		{Do: "link", Path: p("made/z"), To: p("made/x")},
		{Do: "rm", Path: p("emptydir")},
		{Do: "write", Path: p("emptydir"), Data: p("a file now")},
		{Do: "rm", Path: p("wide/077")},
		{Do: "chmod", Path: p("dir/in"), N: 0o600},
		{Do: "write", Path: p("dir/sub/fresh"), Data: p("f")},
		{Do: "sparse", Path: p("sparse2"), N: 2 << 20, Data: p("end")},
		{Do: "append", Path: p("hard2"), Data: p("er")},
	}
}

// TestArea passes an area through all operations of a state, on every backend.
func TestArea(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		host := w.withArea(areaSource()...)
		before := see(t, host)
		base, _ := w.imports()

		work := w.begin(w.c, base.Layer)
		sameItems(t, "the area at first", before, w.inArea(work))
		if idle := w.seal(work); !idle.Unchanged || len(idle.Areas) != 2 {
			t.Errorf("an area that nobody changed is in the state: %+v", idle)
		}
		w.noPending()

		work = w.begin(w.c, base.Layer)
		want := w.inArea(work, areaChanges()...)
		one := w.seal(work)
		if _, ok := one.Areas[dataArea]; !ok || one.Changed != 0 || one.Unchanged {
			t.Errorf("sealed: %+v", one)
		}
		sameItems(t, "the host", before, see(t, host))
		w.verify("one", one.Layer)
		sameItems(t, "the area on one", want, w.areaSeen(one.Layer))

		two := w.areaKept(one, want)
		work = w.begin(w.c, two.Layer)
		want = w.inArea(work,
			act{Do: "rm", Path: p("olddir/y")}, act{Do: "rm", Path: p("made")}, act{Do: "rm", Path: p("wide")},
			act{Do: "rm", Path: p("emptydir")}, act{Do: "mkdir", Path: p("emptydir")}, act{Do: "write", Path: p("empty"), Data: p("again")})
		three := w.seal(work)
		w.verify("three", three.Layer)
		sameItems(t, "the area on three", want, w.areaSeen(three.Layer))
		w.areaSquash(three, want)
		w.areaForks(one)
		sameItems(t, "the area on the import", before, w.areaSeen(base.Layer))
		sameItems(t, "the host, at the end", before, see(t, host))
	})
}

// areaKept checks that a state keeps an area that a generation does not ask
// for.
func (w *world) areaKept(one Sealed, want []item) Sealed {
	w.t.Helper()
	work := w.begin(w.without(), one.Layer)
	if _, err := w.tryActs(work, "/w", act{Do: "write", Path: p("ws"), Data: p("1")}); err != nil {
		w.t.Fatal(err)
	}
	if set := work.Mounts(); len(set.Overlays) > 2 || slices.ContainsFunc(set.Binds, func(b mount.Bind) bool { return b.Target == "/data" }) {
		w.t.Errorf("the area is there although nobody asked: %+v", set)
	}
	two := w.seal(work)
	composed, err := w.s.Compose(context.Background(), w.c, two.Layer, w.op(), []Edit{newFile("composed", "c")})
	w.must(err)
	for what, s := range map[string]Sealed{"without it": two, "composed": composed} {
		if s.Areas[dataArea] != one.Areas[dataArea] || s.Unchanged {
			w.t.Errorf("%s: %+v", what, s)
		}
		w.verify(what, s.Layer)
		sameItems(w.t, what, want, w.areaSeen(s.Layer))
	}
	// A generation that only reads it leaves nothing.
	work = w.begin(w.c, two.Layer)
	w.inArea(work)
	if idle := w.seal(work); !idle.Unchanged {
		w.t.Errorf("an idle generation was kept: %+v", idle)
	}
	if w.c.Backend == BackendDelta {
		w.must(os.WriteFile(w.src+"/drifted", nil, 0o600))
		drift, err := w.s.Drift(context.Background(), w.c, two.Layer, w.op())
		w.must(err)
		if drift.Areas[dataArea] != one.Areas[dataArea] {
			w.t.Errorf("drift: %+v", drift)
		}
		return drift
	}
	return two
}

// areaSquash squashes a state with an area and removes the other layers.
func (w *world) areaSquash(three Sealed, want []item) {
	w.t.Helper()
	sq, err := w.s.Squash(context.Background(), w.c, three.Layer, w.op())
	w.must(err)
	if d := cmp.Diff(three.Areas, sq.Areas); d != "" {
		w.t.Errorf("squash changed the roots: %s", d)
	}
	if n, err := w.s.Depth(sq.Layer); n != 1 || err != nil {
		w.t.Errorf("a squashed state needs %d layers, %v", n, err)
	}
	w.verify("squashed", sq.Layer)
	sameItems(w.t, "the area on a squash", want, w.areaSeen(sq.Layer))
	work := w.begin(w.c, sq.Layer)
	now := w.inArea(work, act{Do: "write", Path: p("after"), Data: p("squash")}, act{Do: "rm", Path: p("file")})
	after := w.seal(work)
	w.verify("after the squash", after.Layer)
	sameItems(w.t, "the area after the squash", now, w.areaSeen(after.Layer))
}

// areaForks changes one area in two generations at once.
func (w *world) areaForks(on Sealed) {
	w.t.Helper()
	var works [2]*Work
	for i := range works {
		works[i] = w.begin(w.c, on.Layer)
	}
	for i, work := range works {
		want := w.inArea(work, act{Do: "write", Path: p("fork%d", i), Data: p("x")}, act{Do: "rm", Path: p("file")})
		sealed := w.seal(work)
		w.verify("fork", sealed.Layer)
		sameItems(w.t, "fork", want, w.areaSeen(sealed.Layer))
	}
}

// TestAreaMounts checks what a driver gets.
func TestAreaMounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, BackendOverlay)
	host := w.withArea(act{Do: "write", Path: p("f"), Data: p("1")})
	w.c.Areas[0].System = true
	base, _ := w.imports()
	work := w.begin(w.c, base.Layer)
	w.inArea(work, act{Do: "append", Path: p("f"), Data: p("2")})
	one := w.seal(work)
	work = w.begin(w.without(), one.Layer)
	w.acts(work, act{Do: "write", Path: p("ws"), Data: p("1")})
	two := w.seal(work)
	w.c.Areas = append(w.c.Areas, Area{Name: "a", Host: w.src, Target: "/data/in"})
	work = w.begin(w.c, two.Layer)
	dir := work.Dir()
	want := []mount.Overlay{
		{
			Target: "/data", Lower: []string{w.home + "/layers/" + one.Layer + "/area-0", host},
			Upper: dir + "/area-1", Work: dir + "/work/area-1", HostLower: true, System: true,
		},
		{Target: "/data/in", Lower: []string{w.src}, Upper: dir + "/area-0", Work: dir + "/work/area-0", HostLower: true},
	}
	if d := cmp.Diff(want, work.Mounts().Overlays[:2]); d != "" {
		t.Error(d)
	}
	work.Close()
	again, _, err := w.s.Resume(context.Background(), w.without(), two.Layer, work.p.op)
	w.must(err)
	if d := cmp.Diff(want, again.Mounts().Overlays[:2]); d != "" {
		t.Errorf("resumed: %s", d)
	}
	w.must(again.Discard())
}

// TestAreaErrors names invalid areas.
func TestAreaErrors(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		host := w.withArea(act{Do: "write", Path: p("f"), Data: p("1")})
		base, _ := w.imports()
		work := w.begin(w.c, base.Layer)
		w.inArea(work, act{Do: "append", Path: p("f"), Data: p("2")})
		one := w.seal(work)
		good := w.c.Areas[0]
		try := func(areas ...Area) error {
			c := w.c
			c.Areas = areas
			work, err := w.s.Begin(context.Background(), c, one.Layer, w.op())
			if err == nil {
				w.must(work.Discard())
			}
			return err
		}
		system := good
		system.System = true
		if err := try(system); errors.Is(err, ErrNoSystemArea) != (w.c.Backend != BackendOverlay) {
			t.Errorf("a system area: %v", err)
		}
		moved := good
		moved.Host = w.src
		if err := try(moved); !errors.Is(err, ErrMixed) {
			t.Errorf("of another directory: %v", err)
		}
		for what, areas := range map[string][]Area{
			"twice":        {good, good},
			"no name":      {{Host: host, Target: "/x"}},
			"reserved":     {{Name: AreaHome, Host: host, Target: "/x"}},
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
		w.must(os.Rename(host, host+"-gone"))
		var gone *HostDirError
		err := try(Area{Name: "new", Host: host, Target: "/new"})
		if !errors.As(err, &gone) || gone.Host != host || gone.Area != "new" || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a host directory that is no more: %v", err)
		}
		if err := try(good); errors.As(err, &gone) != (w.c.Backend == BackendOverlay) {
			t.Errorf("an older area whose host directory is no more: %v", err)
		}
		w.verify("without the host", one.Layer)
		w.noPending()
	})
}

// TestAreaTampered checks that verify finds changes of an area's bytes.
func TestAreaTampered(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		w.withArea(act{Do: "write", Path: p("f"), Data: p("1")}, act{Do: "write", Path: p("g"), Data: p("1")})
		base, _ := w.imports()
		work := w.begin(w.c, base.Layer)
		w.inArea(work, act{Do: "append", Path: p("f"), Data: p("2")}, act{Do: "rm", Path: p("g")})
		one := w.seal(work)
		dir := w.home + "/layers/" + one.Layer + "/area-0"
		w.must(os.WriteFile(dir+"/f", []byte("xx"), 0o600))
		wrong := []string{"/data/f"}
		if w.c.Backend == BackendOverlay {
			w.must(os.Remove(dir + "/g"))
			wrong = append(wrong, "/data/g")
		}
		diffs, err := w.s.Verify(context.Background(), w.c, one.Layer)
		w.must(err)
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
		w.withArea(act{Do: "write", Path: p("f"), Data: p("1")})
		base, _ := w.imports()
		work := w.begin(w.c, base.Layer)
		w.inArea(work, act{Do: "append", Path: p("f"), Data: p("2")})
		w.must(unix.Setxattr(work.Dir()+"/area-0/f", "user.overlay.redirect", []byte("x"), 0))
		var u *UnsealableError
		_, err := work.Seal(context.Background())
		if !errors.As(err, &u) || !strings.Contains(err.Error(), "/data: f: attribute user.overlay.redirect") {
			t.Errorf("seal: %v", err)
		}
		_, err = work.Capture(context.Background(), w.op())
		if !errors.As(err, &u) || !strings.Contains(err.Error(), "/data: f: attribute user.overlay.redirect") {
			t.Errorf("capture: %v", err)
		}
		w.must(unix.Removexattr(work.Dir()+"/area-0/f", "user.overlay.redirect"))
		w.verify("after the refusal", w.seal(work).Layer)
		w.noPending()
	})
}
