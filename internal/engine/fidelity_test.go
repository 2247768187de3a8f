package engine_test

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"

	"golang.org/x/sys/unix"
)

// maker makes things below a root and keeps the first error.
type maker struct {
	root string
	err  error
}

// at does not clean the path: names may be of any bytes.
func (m *maker) at(rel string) string {
	if rel == "." {
		return m.root
	}
	return m.root + "/" + rel
}

func (m *maker) note(rel string, err error) {
	if err != nil && m.err == nil {
		m.err = fmt.Errorf("%q: %w", rel, err)
	}
}

func (m *maker) write(rel, data string) {
	m.note(rel, os.WriteFile(m.at(rel), []byte(data), 0o644))
	m.chmod(rel, 0o644)
}

func (m *maker) chmod(rel string, mode uint32) { m.note(rel, unix.Chmod(m.at(rel), mode)) }

func (m *maker) mkdir(rel string, mode uint32) {
	m.note(rel, unix.Mkdir(m.at(rel), 0o700))
	m.chmod(rel, mode)
}

func (m *maker) symlink(rel, to string) { m.note(rel, unix.Symlink(to, m.at(rel))) }
func (m *maker) link(rel, to string)    { m.note(rel, unix.Link(m.at(to), m.at(rel))) }
func (m *maker) remove(rel string)      { m.note(rel, os.RemoveAll(m.at(rel))) }
func (m *maker) rename(from, to string) { m.note(from, os.Rename(m.at(from), m.at(to))) }
func (m *maker) xattr(rel, name, value string) {
	m.note(rel, unix.Lsetxattr(m.at(rel), name, []byte(value), 0))
}

func (m *maker) node(rel string, kind uint32)   { m.note(rel, unix.Mknod(m.at(rel), kind|0o640, 0)) }
func (m *maker) chown(rel string, uid, gid int) { m.note(rel, unix.Lchown(m.at(rel), uid, gid)) }

// sparse makes a file of a hole, some bytes, and another hole.
func (m *maker) sparse(rel string, hole int64, data string) {
	f, err := os.OpenFile(m.at(rel), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		m.note(rel, err)
		return
	}
	_, err = f.WriteAt([]byte(data), hole)
	m.note(rel, errors.Join(err, f.Truncate(2*hole), f.Close()))
}

// mtime returns a time that depends only on the path, to the nanosecond.
func (m *maker) mtime(rel string) {
	sum := sha256.Sum256([]byte(rel))
	ts := []unix.Timespec{
		{Nsec: unix.UTIME_OMIT},
		{Sec: int64(binary.BigEndian.Uint32(sum[:]) % 1_000_000_000), Nsec: int64(binary.BigEndian.Uint32(sum[4:]) % 1_000_000_000)},
	}
	m.note(rel, unix.UtimesNanoAt(unix.AT_FDCWD, m.at(rel), ts, unix.AT_SYMLINK_NOFOLLOW))
}

// settle sets such a time on everything that changed, parents last.
func (m *maker) settle(rel string) {
	var st unix.Stat_t
	if err := unix.Lstat(m.at(rel), &st); err != nil {
		m.note(rel, err)
		return
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		d, err := os.Open(m.at(rel))
		if errors.Is(err, os.ErrPermission) {
			return // closed, and so as it was
		}
		if err != nil {
			m.note(rel, err)
			return
		}
		names, err := d.Readdirnames(-1)
		m.note(rel, errors.Join(err, d.Close()))
		for _, name := range names {
			if rel == "." {
				m.settle(name)
			} else {
				m.settle(rel + "/" + name)
			}
		}
	}
	const longAgo = 1_100_000_000
	if st.Mtim.Sec > longAgo {
		m.mtime(rel)
	}
}

// acl is user::rw-, [user:ID:r--,] group::r--, mask::r--, other::---.
func acl(id int) string {
	entry := func(tag, perm uint16, id uint32) string {
		b := binary.LittleEndian.AppendUint16(nil, tag)
		b = binary.LittleEndian.AppendUint16(b, perm)
		return string(binary.LittleEndian.AppendUint32(b, id))
	}
	const none = ^uint32(0)
	text := "\x02\x00\x00\x00" + entry(1, 6, none)
	if id >= 0 {
		text += entry(2, 4, uint32(id))
	}
	return text + entry(4, 4, none) + entry(0x10, 4, none) + entry(0x20, 0, none)
}

const (
	oddName  = "-rf line\nbreak \x1b[31mred\xff\xfe"
	accessed = "system.posix_acl_access"
	byRule   = "system.posix_acl_default"
)

var longName = strings.Repeat("n", 255)

// fillTree makes a tree with every kind of entry and attribute that a state
// keeps.
func fillTree(root string) error {
	m := &maker{root: root}
	m.note(".", os.MkdirAll(root, 0o755))
	m.write("file", "hello\n")
	m.write("empty", "")
	m.sparse("sparse", 3<<19, "in the middle") // overlay copies whole MiBs
	m.sparse("hole", 1<<17, "")
	m.write("setuid", "#!/bin/sh\n")
	m.chmod("setuid", 0o6755)
	m.write("closed", "nobody reads this")
	m.chmod("closed", 0)
	m.mkdir("dir", 0o755)
	m.write("dir/in", "in")
	m.mkdir("dir/sub", 0o711)
	m.write("dir/sub/deep", "deep")
	m.mkdir("hollow", 0o755)
	m.mkdir("shut", 0o700)
	m.write("shut/inside", "inside")
	m.mkdir("sticky", 0o3777)
	m.mkdir("again", 0o755)
	m.write("again/x", "x")
	m.write("again/y", "y")
	m.mkdir("wide", 0o755)
	for i := range 100 {
		m.write(fmt.Sprintf("wide/%03d", i), fmt.Sprint(i))
	}
	m.symlink("dangling", "no/such\nthing")
	m.symlink("absolute", "/etc/passwd")
	m.symlink("loop1", "loop2")
	m.symlink("loop2", "loop1")
	m.symlink("self", "self")
	m.symlink("parent", "..")
	m.symlink("dir/up", "../..")
	m.symlink("todir", "dir")
	m.symlink("long", strings.Repeat("t/", 1000))
	m.write("hard1", "hard")
	m.link("hard2", "hard1")
	m.link("dir/hard3", "hard1")
	m.write("pair1", "pair")
	m.link("pair2", "pair1")
	m.node("fifo", unix.S_IFIFO)
	m.node("sock", unix.S_IFSOCK)
	for _, name := range []string{oddName, "-n", ".wh.file", ".wh..wh..opq", "..foo", "...", " ", longName, "\\", "é"} {
		m.write(name, "odd")
	}
	m.mkdir(".wh.dir", 0o755)
	m.xattr("file", "user.note", "\x00\x01\xff")
	m.xattr("dir", "user.of dir", "d")
	m.xattr(".", "user.root", "r")
	id := os.Getuid()
	if id == 0 {
		id = 1234
		m.chown("empty", 1234, 4321)
		m.chown("dangling", 7, 8)
		m.chown("sticky", 70000, 0)
	}
	m.xattr("dir/in", accessed, acl(id))
	m.xattr("again", byRule, acl(-1))
	m.settle(".")
	// Times before the epoch, and far ahead.
	m.note("file", unix.UtimesNanoAt(unix.AT_FDCWD, m.at("file"), []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: -5, Nsec: 7}}, 0))
	m.chmod("shut", 0)
	m.chmod(".", 0o750)
	m.mtime(".")
	return m.err
}

// mutate makes one change of every kind. It gives the same result in a cell and
// in a plain directory. In a live directory set-id bits cannot be changed.
func mutate(root string, live bool) error {
	m := &maker{root: root}
	m.write("new", "new")
	m.write("file", "changed\n")
	m.remove("empty")
	m.remove("dangling")
	m.mkdir("dangling", 0o750) // a link becomes a directory
	m.write("dangling/x", "x")
	m.remove("hollow")
	m.write("hollow", "a file now")
	m.remove("todir")
	m.node("todir", unix.S_IFIFO)
	m.remove("fifo")
	m.symlink("fifo", oddName)
	m.remove("again") // deleted and made again, with less in it
	m.mkdir("again", 0o755)
	m.write("again/y", "other y")
	m.remove("dir/sub")
	m.mkdir("dir/sub", 0o700)
	m.rename("sparse", "dir/moved")
	m.remove("hard2")
	m.write("n1", "linked anew")
	m.link("n2", "n1")
	m.link("dir/n3", "n1")
	m.link("also -n", "-n")
	m.chmod("closed", 0o400)
	m.write("gains", "x")
	if !live {
		m.chmod("setuid", 0o755)
		m.chmod("gains", 0o4711)
	}
	m.write("wide/050", "fifty")
	m.remove("wide/051")
	m.xattr("wide/052", "user.a", "1")
	m.xattr("wide/053", accessed, acl(-1))
	m.note("file", unix.Lremovexattr(m.at("file"), "user.note"))
	m.sparse("late", 1<<17, "later")
	m.node("sock2", unix.S_IFSOCK)
	m.remove("sock")
	m.remove(".wh.file")
	m.write(".wh.new", "not a whiteout")
	m.write("..bar\xff", "odd")
	m.mkdir("closing", 0o755)
	m.write("closing/inside", "shut in")
	m.settle("closing")
	m.chmod("closing", 0)
	m.move("wide", "\x1bmoved")
	m.chmod(".", 0o755)
	m.settle(".")
	return m.err
}

// move renames a directory as mv does: if the kernel refuses, by copying.
func (m *maker) move(from, to string) {
	if err := os.Rename(m.at(from), m.at(to)); !errors.Is(err, unix.EXDEV) {
		m.note(from, err)
		return
	}
	out, err := exec.Command("mv", "--", m.at(from), m.at(to)).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("mv: %w: %s", err, out)
	}
	m.note(from, err)
}

// TestFidelity passes a tree with every kind of entry through all operations of
// a cell, on every backend, and compares it with a plain directory that was
// changed in the same way.
func TestFidelity(t *testing.T) {
	t.Parallel()
	f := &fidelity{}
	for _, b := range backends {
		t.Run(b, func(t *testing.T) {
			t.Parallel()
			f.test(t, b)
		})
	}
}

// fidelity compares the identities of equal work on the backends.
type fidelity struct {
	mu            sync.Mutex
	before, after string
}

func (f *fidelity) same(t *testing.T, kept *string, root, meta string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if *kept == "" {
		*kept = root + " " + meta
	}
	if *kept != root+" "+meta {
		t.Fatalf("equal work has the roots %s %s, on another backend %s", root, meta, *kept)
	}
}

func (f *fidelity) test(t *testing.T, backend string) {
	dir := removable(t, t.TempDir())
	w := &world{T: t, ctx: t.Context(), home: filepath.Join(dir, "home"), source: filepath.Join(dir, "src")}
	w.open()
	mirror := filepath.Join(dir, "mirror")
	w.ok(fillTree(w.source))
	w.ok(fillTree(mirror))
	before := walk(t, mirror)
	sameTree(t, "the two sources", before, walk(t, w.source))

	made := w.init("demo", backend)
	if len(made.LeftOut) > 0 {
		t.Fatalf("left out: %+v", made.LeftOut)
	}
	f.same(t, &f.before, made.Root, made.MetaRoot)
	live := backend == "delta"
	res, _ := w.inside("demo", map[bool]string{false: "mutate", true: "mutate live"}[live])
	w.ok(mutate(mirror, live))
	after := walk(t, mirror)
	status, err := w.e.Status(w.ctx, "demo")
	w.ok(err)
	if live {
		after = asApplied(after, before)
	} else {
		f.same(t, &f.after, status.Root, status.MetaRoot)
	}
	w.exported("after the run", "demo", "", after)
	if backend == "delta" {
		sameTree(t, "the live directory", after, walk(t, w.source))
	} else {
		sameTree(t, "the source", before, walk(t, w.source))
	}

	_, err = w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo"})
	w.ok(err)
	w.exported("restored", "demo", "", before)
	sameTree(t, "the source after restore", before, walk(t, w.source))
	_, err = w.e.Restore(w.ctx, api.RestoreRequest{Cell: "demo", Checkpoint: res.CheckpointAfter})
	w.ok(err)
	w.exported("brought back", "demo", "", after)

	_, err = w.e.Fork(w.ctx, api.ForkRequest{Cell: "demo", Name: "fork"})
	w.ok(err)
	w.exported("fork", "fork", "", after)
	w.squashed(backend, after)
	for _, name := range []string{"whole.tar", "packed.tar.zst"} {
		w.throughArchive(filepath.Join(dir, name), backend, status, after)
	}
	w.applied(before, after)
	w.sound("demo", "fork")
}

// applied writes the state to the source and undoes it. An apply does not set
// times of directories.
func (w *world) applied(before, after []thing) {
	w.Helper()
	_, err := w.e.Accept(w.ctx, api.AcceptRequest{Cell: "demo", Apply: true, Applier: api.ApplyRequest{AllowSetuid: true}})
	w.ok(err)
	res, err := w.e.Status(w.ctx, "demo")
	w.ok(err)
	if res.Backend == "delta" {
		return // nothing was written
	}
	sameTree(w.T, "applied", undated(asApplied(after, before)), undated(walk(w.T, w.source)))
	_, err = w.e.Undo(w.ctx, api.UndoRequest{Cell: "demo"})
	w.ok(err)
	sameTree(w.T, "undone", undated(before), undated(walk(w.T, w.source)))
}

func undated(list []thing) []thing {
	out := make([]thing, len(list))
	for i, e := range list {
		if e.Type == unix.S_IFDIR {
			e.MTime = ""
		}
		out[i] = e
	}
	return out
}

// exported compares a state with a tree by exporting it to a directory.
func (w *world) exported(what, name, checkpoint string, want []thing) {
	w.Helper()
	out := filepath.Join(removable(w.T, w.TempDir()), "out")
	_, err := w.e.Export(w.ctx, api.ExportRequest{Cell: name, Checkpoint: checkpoint, Output: out, AllowSetuid: true})
	w.ok(err)
	sameTree(w.T, what, asApplied(want, nil), walk(w.T, out))
}

// asApplied returns a tree as it is written to the host: owners and ACLs are those
// of the files before, or else the caller's own and none.
func asApplied(list, before []thing) []thing {
	was := map[string]thing{}
	for _, e := range before {
		was[e.Path] = e
	}
	out := make([]thing, len(list))
	for i, e := range list {
		old, there := was[e.Path]
		if there {
			e.UID, e.GID = old.UID, old.GID
		} else {
			e.UID, e.GID = uint32(os.Geteuid()), uint32(os.Getegid())
		}
		if strings.Contains(e.Xattrs, "posix_acl") {
			e.Xattrs = "" // nothing of the tree has others besides
		}
		if strings.Contains(old.Xattrs, "posix_acl") && old.Type == e.Type {
			e.Xattrs = old.Xattrs
		}
		out[i] = e
	}
	return out
}

// squashed squashes a state to one layer and compares.
func (w *world) squashed(backend string, want []thing) {
	w.Helper()
	plain := w.e
	defer func() { w.e = plain }()
	w.openWith(time.Now, 1)
	before, err := w.e.Status(w.ctx, "fork")
	w.ok(err)
	res, _ := w.sh("fork", "true")
	info, err := w.e.Status(w.ctx, "fork")
	w.ok(err)
	if backend == "overlay" && (before.Layers < 2 || info.Layers != 1) {
		w.Fatalf("%d layers were squashed to %d", before.Layers, info.Layers)
	}
	if info.Root != before.Root || info.MetaRoot != before.MetaRoot || res.ChangedFiles != 0 {
		w.Fatalf("squashing changed the state: %+v, %+v", before, info)
	}
	w.exported("squashed", "fork", "", want)
}

// throughArchive exports the state and makes a new cell of it.
func (w *world) throughArchive(file, backend string, status *api.StatusResult, want []thing) {
	w.Helper()
	_, err := w.e.Export(w.ctx, api.ExportRequest{Cell: "demo", Output: file})
	w.ok(err)
	if backend == "delta" {
		backend = "" // it works in directories only
	}
	name := "t" + fmt.Sprint(len(filepath.Base(file)))
	made, err := w.e.Init(w.ctx, api.InitRequest{Name: name, From: file, Backend: backend})
	w.ok(err)
	if len(made.Notes) > 0 {
		w.Fatalf("import of %s: %q", file, made.Notes)
	}
	if made.Root != status.Root || made.MetaRoot != status.MetaRoot {
		w.Errorf("through %s: the roots are %s %s, were %s %s", file, made.Root, made.MetaRoot, status.Root, status.MetaRoot)
	}
	if !strings.HasSuffix(file, ".zst") {
		w.exported("through "+filepath.Base(file), name, "", want)
	}
	w.sound(name)
}

// TestSplitLinksAreListed: hard links that overlay splits are reported, and the
// report matches the disk.
func TestSplitLinksAreListed(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(w *world, backend string) {
		t := w.T
		w.ok(os.Link(filepath.Join(w.source, "hello.txt"), filepath.Join(w.source, "twin")))
		w.init("demo", backend)
		res, _ := w.sh("demo", "echo more >> hello.txt")
		want := "hello more, twin hello more, split []"
		if backend == "overlay" {
			want = "hello more, twin hello, split [hello.txt]"
		}
		_, out := w.sh("demo", "echo $(cat hello.txt), twin $(cat twin)")
		if got := fmt.Sprintf("%s, split %v", strings.TrimSpace(out), res.SplitLinks); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
		w.sound("demo")
	})
}
