package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// world is one home with one cell of one backend.
type world struct {
	t    testing.TB
	s    *Store
	c    Cell
	home string
	src  string
	ops  int
}

func newWorld(t testing.TB, b Backend) *world {
	t.Helper()
	return newWorldIn(t, b, tempDir(t))
}

func newWorldIn(t testing.TB, b Backend, dir string) *world {
	t.Helper()
	w := &world{t: t, home: dir + "/home", src: dir + "/src"}
	for _, d := range []string{w.home, w.src} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.open(Options{unsynced: true})
	w.c = Cell{ID: "cell_1", Backend: b, MountAt: "/w"}
	if b == BackendDelta {
		w.c.Live = w.src
	}
	return w
}

func (w *world) open(opt Options) {
	w.t.Helper()
	opt.Root = os.Geteuid() == 0
	s, err := Open(w.home, opt)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { s.Close() })
	w.s = s
}

func (w *world) op() string {
	w.ops++
	return fmt.Sprintf("run_%04d", w.ops)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) imports() (Sealed, Report) {
	w.t.Helper()
	sealed, report, err := w.s.Import(context.Background(), w.c, w.op(), Source{Dir: w.src})
	w.must(err)
	return sealed, report
}

func (w *world) begin(c Cell, layer string) *Work {
	w.t.Helper()
	work, err := w.s.Begin(context.Background(), c, layer, w.op())
	w.must(err)
	return work
}

// acts makes changes in a generation as a cell would, and returns what the cell
// sees at the end.
func (w *world) acts(work *Work, acts ...act) []item {
	w.t.Helper()
	items, err := w.tryActs(work, "/w", acts...)
	w.must(err)
	return w.dropUnreliable(items)
}

// dropUnreliable drops what overlay is known to report wrongly while a generation is
// mounted: names of a file that was copied up and then linked have different
// inode numbers.
func (w *world) dropUnreliable(items []item) []item {
	if w.c.Backend == BackendOverlay {
		for i := range items {
			items[i].Link = unknownLink
		}
	}
	return items
}

// tryActs works at the given target of the generation's mounts.
func (w *world) tryActs(work *Work, target string, acts ...act) ([]item, error) {
	w.t.Helper()
	return tryPlay(w.t, w.job(work, target, acts))
}

func (w *world) job(work *Work, target string, acts []act) actorJob {
	w.t.Helper()
	job := actorJob{Acts: acts}
	set := work.Mounts()
	for _, b := range set.Binds {
		if b.Target == target {
			job.Dir = b.Source
		}
	}
	for _, o := range set.Overlays {
		if o.Target == target {
			job.Dir = tempDir(w.t)
			job.Mounts = []actorMount{{Target: job.Dir, Upper: o.Upper, Work: o.Work, Lower: o.Lower}}
		}
	}
	return job
}

func (w *world) seal(work *Work) Sealed {
	w.t.Helper()
	sealed, err := work.Seal(context.Background())
	w.must(err)
	if sealed.Unchanged {
		w.must(work.Discard())
	}
	return sealed
}

// check verifies a state from its bytes, writes it out, and compares the files
// with what was seen.
func (w *world) check(what, layer string, want []item) {
	w.t.Helper()
	w.verify(what, layer)
	dst := tempDir(w.t)
	d, err := fsx.OpenRoot(dst)
	w.must(err)
	defer d.Close()
	w.must(w.s.Materialise(context.Background(), w.c.Backend, layer, AreaWorkspace, d, MaterialiseOptions{Owners: os.Geteuid() == 0}))
	got := see(w.t, dst)
	sameItems(w.t, what, want, got)
	if w.c.Backend == BackendOverlay {
		work := w.begin(w.c, layer)
		view, err := w.tryActs(work, "/w")
		w.must(err)
		sameItems(w.t, what+", mounted", view, got)
		w.must(work.Discard())
	}
}

func (w *world) verify(what, layer string) {
	w.t.Helper()
	diffs, err := w.s.Verify(context.Background(), w.c, layer)
	w.must(err)
	for _, d := range diffs {
		w.t.Errorf("%s: verify %s: %q %v\n want %+v\n got  %+v", what, layer, d.Path, d.What, d.Want, d.Got)
	}
}

func (w *world) tree(layer string) *tree.Tree {
	w.t.Helper()
	t, err := w.s.area(layer, AreaWorkspace)
	w.must(err)
	return t
}

func p(format string, args ...any) []byte { return []byte(fmt.Sprintf(format, args...)) }

// acl is user::rwx, user:ID:r--, group::r-x, mask::r-x, other::---. An ordinary
// user's actor knows no other id than its own.
func acl() []byte {
	id := "\xd2\x04\x00\x00"
	if os.Geteuid() != 0 {
		id = "\x00\x00\x00\x00"
	}
	return []byte("\x02\x00\x00\x00" +
		"\x01\x00\x07\x00\xff\xff\xff\xff" + "\x02\x00\x04\x00" + id +
		"\x04\x00\x05\x00\xff\xff\xff\xff" + "\x10\x00\x05\x00\xff\xff\xff\xff" + "\x20\x00\x00\x00\xff\xff\xff\xff")
}

// sourceActs make a tree with every kind of entry and attribute that a state
// keeps.
func sourceActs() []act {
	acts := []act{
		{Do: "write", Path: p("file"), Data: p("hello\n")},
		{Do: "write", Path: p("empty")},
		{Do: "write", Path: p("big"), Data: bytes.Repeat(p("0123456789abcdef"), 1<<16)},
		{Do: "sparse", Path: p("sparse"), N: 1 << 20, Data: p("middle"), M: 1 << 20},
		{Do: "sparse", Path: p("hole"), N: 0, M: 3 << 20},
		{Do: "mkdir", Path: p("dir")},
		{Do: "write", Path: p("dir/in"), Data: p("in")},
		{Do: "mkdir", Path: p("dir/sub")},
		{Do: "write", Path: p("dir/sub/deep"), Data: p("deep")},
		{Do: "mkdir", Path: p("emptydir")},
		{Do: "symlink", Path: p("link"), To: p("file")},
		{Do: "symlink", Path: p("dangling"), To: p("no/such\nthing")},
		{Do: "symlink", Path: p("absolute"), To: p("/etc/passwd")},
		{Do: "symlink", Path: p("tosub"), To: p("dir/../dir")},
		{Do: "write", Path: p("hard1"), Data: p("hard")},
		{Do: "link", Path: p("hard2"), To: p("hard1")},
		{Do: "link", Path: p("dir/hard3"), To: p("hard1")},
		{Do: "write", Path: p("pair1"), Data: p("pair")},
		{Do: "link", Path: p("pair2"), To: p("pair1")},
		{Do: "fifo", Path: p("fifo")},
		{Do: "sock", Path: p("sock")},
		{Do: "xattr", Path: p("file"), To: p("user.note"), Data: []byte{0, 1, 255}},
		{Do: "xattr", Path: p("dir"), To: p("user.dir"), Data: p("d")},
		{Do: "xattr", Path: p("dir/in"), To: p("system.posix_acl_access"), Data: acl()},
		{Do: "mkdir", Path: p("acldir")},
		{Do: "xattr", Path: p("acldir"), To: p("system.posix_acl_default"), Data: acl()},
		{Do: "write", Path: p("name\xff\xfe\n\x1b[31m"), Data: p("bytes")},
		{Do: "write", Path: p(".wh.file"), Data: p("not a whiteout")},
		{Do: "mkdir", Path: p(".wh..wh..opq")},
		{Do: "write", Path: p("noread"), Data: p("secret")},
		{Do: "xattr", Path: p("noread"), To: p("user.hidden"), Data: p("x")},
		{Do: "chmod", Path: p("noread"), N: 0},
		{Do: "mkdir", Path: p("nodir")},
		{Do: "write", Path: p("nodir/inside"), Data: p("inside")},
		{Do: "mkdir", Path: p("ro")},
		{Do: "write", Path: p("ro/file"), Data: p("ro")},
		{Do: "write", Path: p("suid"), Data: p("x")},
		{Do: "chmod", Path: p("suid"), N: 0o6755},
		{Do: "mkdir", Path: p("sticky")},
		{Do: "chmod", Path: p("sticky"), N: 0o3777},
		{Do: "mkdir", Path: p("wide")},
		{Do: "mkdir", Path: p("olddir")},
		{Do: "write", Path: p("olddir/x"), Data: p("x")},
		{Do: "write", Path: p("olddir/y"), Data: p("y")},
	}
	for i := range 150 {
		acts = append(acts, act{Do: "write", Path: p("wide/%03d", i), Data: p("%d", i)})
	}
	if os.Geteuid() == 0 {
		acts = append(acts,
			act{Do: "chown", Path: p("file"), N: 1234, M: 4321},
			act{Do: "chown", Path: p("dir"), N: 70000, M: 0},
			act{Do: "chown", Path: p("link"), N: 7, M: 8},
		)
	}
	return append(acts,
		act{Do: "mtime", Path: p("file"), N: 1, M: 999999999},
		act{Do: "mtime", Path: p("link"), N: 1000000000, M: 1},
		act{Do: "mtime", Path: p("dangling"), N: -5, M: 5},
		act{Do: "mtime", Path: p("fifo"), N: 4102444800, M: 123456789},
		act{Do: "mtime", Path: p("dir"), N: 1234567890, M: 123},
		act{Do: "chmod", Path: p("nodir"), N: 0},
		act{Do: "chmod", Path: p("ro"), N: 0o555},
		act{Do: "xattr", Path: p("."), To: p("user.root"), Data: p("r")},
		act{Do: "chmod", Path: p("."), N: 0o750},
		act{Do: "mtime", Path: p("."), N: 987654321, M: 42},
	)
}

// changeActs make one change of every kind.
func changeActs() []act {
	return []act{
		{Do: "write", Path: p("new"), Data: p("new")},
		{Do: "append", Path: p("file"), Data: p("more\n")},
		{Do: "append", Path: p("hard2"), Data: p("er")},
		{Do: "rm", Path: p("empty")},
		{Do: "rm", Path: p("link")},
		{Do: "mkdir", Path: p("link")}, // a link becomes a directory
		{Do: "write", Path: p("link/x"), Data: p("x")},
		{Do: "rm", Path: p("emptydir")},
		{Do: "write", Path: p("emptydir"), Data: p("a file now")},
		{Do: "rm", Path: p("olddir")}, // deleted and made again
		{Do: "mkdir", Path: p("olddir")},
		{Do: "write", Path: p("olddir/y"), Data: p("other y")},
		{Do: "mv", Path: p("dir/sub"), To: p("moved")},
		{Do: "mv", Path: p("big"), To: p("dir/bigger")},
		{Do: "write", Path: p("n1"), Data: p("n")},
		{Do: "link", Path: p("n2"), To: p("n1")},
		{Do: "link", Path: p("dir/pair3"), To: p("pair1")},
		{Do: "rm", Path: p("pair2")},
		{Do: "chmod", Path: p("noread"), N: 0o400},
		{Do: "append", Path: p("nodir/inside"), Data: p("!")},
		{Do: "write", Path: p("ro/second"), Data: p("2")},
		{Do: "rm", Path: p("wide/077")},
		{Do: "write", Path: p("wide/078"), Data: p("changed")},
		{Do: "write", Path: p(".wh.new"), Data: p("w")},
		{Do: "rm", Path: p(".wh.file")},
		{Do: "fifo", Path: p("fifo2")},
		{Do: "rm", Path: p("sock")},
		{Do: "sparse", Path: p("sparse2"), N: 2 << 20, Data: p("end")},
		{Do: "xattr", Path: p("wide/001"), To: p("user.a"), Data: p("1")},
		{Do: "xattr", Path: p("wide/002"), To: p("system.posix_acl_access"), Data: acl()},
		{Do: "mtime", Path: p("wide/003"), N: 77, M: 7},
		{Do: "symlink", Path: p("name\xff2"), To: p("\xfe")},
		{Do: "mtime", Path: p("."), N: 5, M: 6},
	}
}

func backends(t *testing.T, test func(t *testing.T, w *world)) {
	for _, b := range []Backend{BackendOverlay, BackendClone, BackendDelta} {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			test(t, newWorld(t, b))
		})
	}
}

// TestFidelity passes a tree with every kind of entry through all operations of
// a state, on every backend.
func TestFidelity(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		want0 := play(t, actorJob{Dir: w.src, Acts: sourceActs()})
		base, report := w.imports()
		if report.Files == 0 || report.Dirs == 0 || report.Bytes == 0 {
			t.Errorf("empty report: %+v", report)
		}
		w.check("import", base.Layer, want0)
		w.sparse(base.Layer, "sparse", "hole")

		work := w.begin(w.c, base.Layer)
		want1 := w.acts(work, changeActs()...)
		one := w.seal(work)
		if one.Unchanged || one.Changed == 0 || one.Parent != base.Layer {
			t.Errorf("sealed: %+v", one)
		}
		w.check("sealed", one.Layer, want1)
		w.sparse(one.Layer, "sparse2")
		// pair1 was copied up too, but has lost no partner: pair2 is gone.
		if split := strings.Join(one.SplitLinks, " "); w.c.Backend == BackendOverlay && split != "hard2" {
			t.Errorf("split links: %q", split)
		}
		w.idle(one)
		w.squash(one, want1)
		w.forks(one, want1)
		if w.c.Backend != BackendDelta {
			w.check("import, at the end", base.Layer, want0)
		}
		w.switches(one, base, want0)
	})
}

// sparse checks that holes stay holes.
func (w *world) sparse(layer string, names ...string) {
	w.t.Helper()
	for _, name := range names {
		e, _, err := w.tree(layer).Lookup(name)
		w.must(err)
		f, err := w.s.OpenFile(w.c.Backend, layer, AreaWorkspace, name, e)
		w.must(err)
		info, err := fsx.StatFile(f)
		w.must(err)
		f.Close()
		if info.Blocks*512 > info.Size/2 {
			w.t.Errorf("%s takes %d bytes of its %d", name, info.Blocks*512, info.Size)
		}
	}
}

// idle checks that a generation without changes leaves nothing.
func (w *world) idle(on Sealed) {
	w.t.Helper()
	work := w.begin(w.c, on.Layer)
	w.acts(work)
	if _, err := w.tryActs(work, homeTarget); err != nil {
		w.t.Fatal(err)
	}
	again := w.seal(work)
	if !again.Unchanged || again.Layer != on.Layer || again.Areas[AreaWorkspace] != on.Areas[AreaWorkspace] {
		w.t.Errorf("an idle generation was kept: %+v", again)
	}
	w.noPending()
}

func (w *world) noPending() {
	w.t.Helper()
	left, err := w.s.listDir("pending")
	w.must(err)
	if len(left) > 0 {
		w.t.Errorf("left in pending: %q", left)
	}
}

func (w *world) squash(one Sealed, want []item) {
	w.t.Helper()
	sq, err := w.s.Squash(context.Background(), w.c, one.Layer, w.op())
	w.must(err)
	for _, a := range []string{AreaWorkspace, AreaHome} {
		if sq.Areas[a] != one.Areas[a] {
			w.t.Errorf("squash changed %s: %+v, was %+v", a, sq.Areas[a], one.Areas[a])
		}
	}
	if n, err := w.s.Depth(sq.Layer); n != 1 || err != nil {
		w.t.Errorf("a squashed state needs %d layers, %v", n, err)
	}
	m, err := w.s.Manifest(sq.Layer)
	w.must(err)
	if r := m.Refers(); len(r) != 1 {
		w.t.Errorf("a squashed manifest refers to %q", r)
	}
	w.check("squash", sq.Layer, want)
	if w.c.Backend != BackendDelta {
		work := w.begin(w.c, sq.Layer)
		seen := w.acts(work, act{Do: "write", Path: p("after"), Data: p("squash")})
		w.check("on a squash", w.seal(work).Layer, seen)
	}
}

// forks changes one state in two generations at once.
func (w *world) forks(on Sealed, want []item) {
	w.t.Helper()
	var cells [2]Cell
	var works [2]*Work
	var seen [2][]item
	for i := range cells {
		cells[i] = w.c
		cells[i].ID = fmt.Sprintf("cell_fork%d", i)
		if w.c.Backend == BackendDelta {
			w.must(w.s.ForkLive(context.Background(), cells[i], on.Layer))
			cells[i].Live = w.s.LivePath(cells[i].ID)
			sameItems(w.t, "fork", want, see(w.t, cells[i].Live))
		}
		works[i] = w.begin(cells[i], on.Layer)
	}
	for i := range works {
		seen[i] = w.acts(works[i],
			act{Do: "write", Path: p("file"), Data: p("fork %d", i)},
			act{Do: "rm", Path: p("moved")},
			act{Do: "write", Path: p("only%d", i), Data: p("x")})
	}
	for i := range works {
		w.check(fmt.Sprintf("fork %d", i), w.seal(works[i]).Layer, seen[i])
	}
	w.check("forked state", on.Layer, want)
}

// switches takes a live directory back to an older state.
func (w *world) switches(from, to Sealed, want []item) {
	w.t.Helper()
	if w.c.Backend != BackendDelta {
		w.must(w.s.Switch(context.Background(), w.c, from.Layer, to.Layer, w.op()))
		return
	}
	drift, err := w.s.Drift(context.Background(), w.c, from.Layer, w.op())
	w.must(err)
	if !drift.Unchanged {
		w.t.Errorf("nobody touched the live directory, yet it drifted: %+v", drift)
	}
	op := w.op()
	w.must(w.s.Switch(context.Background(), w.c, from.Layer, to.Layer, op))
	sameItems(w.t, "switched", want, see(w.t, w.src))
	done, err := w.s.ResumeSwitch(context.Background(), w.c, op)
	w.must(err)
	if !done {
		w.t.Error("the switch is said to have been taken back")
	}
	w.must(w.s.ForgetSwitch(op))
	drift, err = w.s.Drift(context.Background(), w.c, to.Layer, w.op())
	w.must(err)
	if !drift.Unchanged {
		w.t.Errorf("after the switch the directory is not the state: %+v", drift)
	}
}

// TestHome checks that the cell user's home is a part of the state.
func TestHome(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		base, _ := w.imports()
		work := w.begin(w.c, base.Layer)
		want, err := w.tryActs(work, homeTarget,
			act{Do: "write", Path: p(".history"), Data: p("ls")},
			act{Do: "mkdir", Path: p(".cache")},
			act{Do: "write", Path: p(".cache/x"), Data: p("x")},
			act{Do: "chmod", Path: p(".cache"), N: 0o500})
		w.must(err)
		one := w.seal(work)
		if one.Unchanged || one.Changed != 0 {
			t.Errorf("sealed: %+v", one)
		}
		w.verify("home", one.Layer)
		work = w.begin(w.c, one.Layer)
		seen, err := w.tryActs(work, homeTarget)
		w.must(err)
		sameItems(t, "home of the next generation", want, seen)
		w.acts(work, act{Do: "write", Path: p("ws"), Data: p("1")})
		two := w.seal(work)
		if two.Areas[AreaHome] != one.Areas[AreaHome] {
			t.Error("the home changed although nobody touched it")
		}
		w.verify("home, later", two.Layer)
		sq, err := w.s.Squash(context.Background(), w.c, two.Layer, w.op())
		w.must(err)
		w.verify("home, squashed", sq.Layer)
		dst := tempDir(t)
		d, err := fsx.OpenRoot(dst)
		w.must(err)
		defer d.Close()
		w.must(w.s.Materialise(context.Background(), w.c.Backend, sq.Layer, AreaHome, d, MaterialiseOptions{Owners: os.Geteuid() == 0}))
		sameItems(t, "home as files", want, see(t, dst))

		fresh, err := w.s.NewHome(context.Background(), w.c, two.Layer, w.op())
		w.must(err)
		if fresh.Areas[AreaWorkspace] != two.Areas[AreaWorkspace] || fresh.Areas[AreaHome].Root == two.Areas[AreaHome].Root || fresh.Changed != 0 {
			t.Errorf("a new home: %+v", fresh)
		}
		w.verify("new home", fresh.Layer)
		work = w.begin(w.c, fresh.Layer)
		seen, err = w.tryActs(work, homeTarget)
		w.must(err)
		if len(seen) != 1 {
			t.Errorf("a new home has %+v", seen)
		}
		want, err = w.tryActs(work, homeTarget, act{Do: "write", Path: p(".history"), Data: p("again")})
		w.must(err)
		w.acts(work, act{Do: "write", Path: p("ws"), Data: p("2")})
		three := w.seal(work)
		w.verify("on a new home", three.Layer)
		work = w.begin(w.c, three.Layer)
		seen, err = w.tryActs(work, homeTarget)
		w.must(err)
		sameItems(t, "home on a new home", want, seen)
		w.must(work.Discard())
		sq, err = w.s.Squash(context.Background(), w.c, three.Layer, w.op())
		w.must(err)
		w.verify("new home, squashed", sq.Layer)
	})
}

// TestUnsealable checks that entries that cannot be kept are named, and nothing
// is lost.
func TestUnsealable(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		play(t, actorJob{Dir: w.src, Acts: []act{{Do: "write", Path: p("f"), Data: p("1")}}})
		base, _ := w.imports()
		work := w.begin(w.c, base.Layer)
		w.acts(work, act{Do: "write", Path: p("g"), Data: p("2")})
		dir := work.Dir() + "/workspace"
		if w.c.Backend == BackendDelta {
			dir = w.src
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		other := "user.overlay.redirect"
		if w.c.Backend != BackendOverlay {
			other = "user.overlay.opaque"
		}
		must(unix.Setxattr(dir+"/g", other, []byte("x"), 0))
		problems := []string{"g: attribute " + other}
		if os.Geteuid() == 0 {
			must(unix.Mknod(dir+"/dev", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
			problems = append([]string{"dev: character device 1:3"}, problems...)
		}
		_, err := work.Seal(context.Background())
		var u *UnsealableError
		if !errors.As(err, &u) || strings.Join(u.Problems, "|") != strings.Join(problems, "|") {
			t.Fatalf("seal: %v, want %q", err, problems)
		}
		must(unix.Removexattr(dir+"/g", other))
		if os.Geteuid() == 0 {
			must(os.Remove(dir + "/dev"))
		}
		one := w.seal(work)
		w.verify("after the refusal", one.Layer)
		if one.Changed == 0 {
			t.Error("the change was lost")
		}
	})
}

// TestImportRefusals names what cannot be imported.
func TestImportRefusals(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, w *world) {
		play(t, actorJob{Dir: w.src, Acts: []act{{Do: "mkdir", Path: p("d")}, {Do: "write", Path: p("d/f")}}})
		if err := unix.Setxattr(w.src+"/d/f", "user.overlay.whiteout", []byte("y"), 0); err != nil {
			t.Fatal(err)
		}
		_, _, err := w.s.Import(context.Background(), w.c, w.op(), Source{Dir: w.src})
		var u *UnsealableError
		if !errors.As(err, &u) || !strings.Contains(err.Error(), "d/f: attribute user.overlay.whiteout") {
			t.Errorf("import: %v", err)
		}
		w.noPending()
		_, _, err = w.s.Import(context.Background(), w.c, w.op(), Source{Dir: filepath.Join(w.src, "none")})
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("import of nothing: %v", err)
		}
		w.noPending()
	})
}
