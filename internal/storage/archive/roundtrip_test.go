package archive_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/storage/archive"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// opener opens files of a directory.
func opener(d *fsx.Dir) archive.Opener {
	return func(path string, _ tree.Entry) (*os.File, error) { return d.OpenFile(path) }
}

func pack(t fataler, dir string, opt archive.Options) []byte {
	t.Helper()
	d := openRoot(t, dir)
	defer d.Close()
	var b bytes.Buffer
	check(t, archive.Write(context.Background(), &b, scan(t, dir), opener(d), opt))
	return b.Bytes()
}

func unpack(t fataler, b []byte, dir string, opt archive.ExtractOptions) (archive.Owners, error) {
	t.Helper()
	d := openRoot(t, dir)
	defer d.Close()
	opt.SetOwners = os.Geteuid() == 0
	return archive.Extract(context.Background(), bytes.NewReader(b), d, opt)
}

// build makes a directory with everything that must survive.
func build(t testing.TB) string {
	dir := emptyDir(t)
	at := func(p string) string { return dir + "/" + p }
	write := func(p, text string, mode uint32) {
		check(t, os.MkdirAll(filepath.Dir(at(p)), 0o700))
		check(t, os.WriteFile(at(p), []byte(text), 0o600))
		check(t, unix.Chmod(at(p), mode))
	}
	write("plain.txt", "hello\n", 0o644)
	write("empty", "", 0o600)
	write("setuid", "x", 0o4755)
	write("setgid", "x", 0o2755)
	write("unreadable", "secret", 0o000)
	write("odd\n\xff\xfe name", "x", 0o644)
	write(strings.Repeat("d/", 60)+strings.Repeat("n", 255), "deep", 0o644)
	write(".wh.plain.txt", "not a whiteout", 0o644)
	write("trailing ", "x", 0o640)
	write("a/one", "linked", 0o644)
	check(t, os.Mkdir(at("a.d"), 0o700))
	check(t, os.Link(at("a/one"), at("a.d/two")))
	check(t, os.Link(at("a/one"), at("zzz\xff")))
	check(t, os.Symlink("nowhere/../../x", at("dangling")))
	check(t, os.Symlink("/etc/passwd", at("absolute")))
	check(t, os.Symlink("\xff\n", at("odd link")))
	check(t, os.Symlink(strings.Repeat("t", 4000), at("long link")))
	check(t, unix.Link(at("dangling"), at("dangling twin")))
	check(t, unix.Mkfifo(at("fifo"), 0o620))
	check(t, unix.Mknod(at("socket"), unix.S_IFSOCK|0o640, 0))
	check(t, unix.Link(at("socket"), at("socket twin")))
	check(t, os.MkdirAll(at("empty dir"), 0o700))
	sparse(t, at("sparse"))
	check(t, unix.Setxattr(at("plain.txt"), "user.note", []byte("a\x00b=\n"), 0))
	check(t, unix.Setxattr(at("plain.txt"), "user.empty", nil, 0))
	check(t, unix.Setxattr(at("plain.txt"), "user.a=b%3D%c", []byte("x"), 0))
	check(t, unix.Setxattr(at("empty dir"), "user.dir", []byte("d"), 0))
	check(t, unix.Setxattr(dir, "user.root", []byte("r"), 0))
	check(t, unix.Setxattr(at("empty"), "system.posix_acl_access", acl(6, 1234), 0))
	check(t, unix.Setxattr(at("a.d"), "system.posix_acl_default", acl(7, 4321), 0))
	write("locked/inside", "x", 0o400)
	check(t, unix.Setxattr(at("plain.txt"), "user.last", []byte("z"), 0))
	if os.Geteuid() == 0 {
		check(t, os.Lchown(at("setuid"), 1234, 4321))
		check(t, unix.Chmod(at("setuid"), 0o6755))
		check(t, os.Lchown(at("dangling"), 7, 8))
		check(t, os.Lchown(at("fifo"), 4294967294, 9))
		check(t, os.Chown(at("locked"), 77, 78))
	}
	stamp(t, dir, dir)
	check(t, unix.Chmod(at("empty dir"), 0o1777))
	check(t, unix.Chmod(at("locked"), 0))
	check(t, unix.Chmod(dir, 0o750))
	return dir
}

// stamp gives everything its own time, children before parents.
func stamp(t testing.TB, dir, path string) {
	info, err := os.Lstat(path)
	check(t, err)
	if info.IsDir() {
		entries, err := os.ReadDir(path)
		check(t, err)
		for _, e := range entries {
			stamp(t, dir, path+"/"+e.Name())
		}
	}
	n := int64(len(path)-len(dir))*1_000_003 + 1
	ts := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: 1_500_000_000 - n*700, Nsec: n % 1_000_000_000}}
	check(t, unix.UtimesNanoAt(unix.AT_FDCWD, path, ts, unix.AT_SYMLINK_NOFOLLOW))
}

func sparse(t testing.TB, path string) {
	f, err := os.Create(path)
	check(t, err)
	_, err = f.WriteAt([]byte("start"), 0)
	check(t, err)
	_, err = f.WriteAt([]byte("middle"), 1<<20+17)
	check(t, err)
	check(t, f.Truncate(5<<20+3))
	check(t, f.Close())
}

// acl is an access control list with one named user.
func acl(perm uint16, uid uint32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{1, 6, ^uint32(0)}, {2, perm, uid}, {4, 4, ^uint32(0)}, {16, 6, ^uint32(0)}, {32, 0, ^uint32(0)}} {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, opt := range []archive.Options{{}, {Zstd: true}} {
		t.Run(fmt.Sprintf("zstd=%v", opt.Zstd), func(t *testing.T) {
			t.Parallel()
			src, dst := build(t), emptyDir(t)
			b := pack(t, src, opt)
			owners, err := unpack(t, b, dst, archive.ExtractOptions{})
			check(t, err)
			before, after := scan(t, src), scan(t, dst)
			diffs, err := tree.Compare(before, after)
			check(t, err)
			for _, d := range diffs {
				t.Errorf("%+v", d)
			}
			check(t, before.Walk(func(p string, e tree.Entry) error {
				if o, _ := owners.Of(p); o != (archive.Owner{UID: e.UID, GID: e.GID}) {
					t.Errorf("%q: owner %v", p, o)
				}
				return nil
			}))
			if d := cmp.Diff(snapshot(t, src), snapshot(t, dst)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRoundTripRandom(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		src, err := os.MkdirTemp("", "archive")
		check(t, err)
		defer removeAll(src)
		dst, err := os.MkdirTemp("", "archive")
		check(t, err)
		defer removeAll(dst)
		name := rapid.Custom(func(t *rapid.T) string {
			return rapid.SampledFrom([]string{"a", "b", "a.b", "\xff", "-x", "ü", "a b", "\n"}).Draw(t, "name")
		})
		var files, dirs []string
		dirs = append(dirs, src)
		for range rapid.IntRange(0, 12).Draw(t, "entries") {
			p := rapid.SampledFrom(dirs).Draw(t, "dir") + "/" + name.Draw(t, "name")
			if _, err := os.Lstat(p); err == nil {
				continue
			}
			mode := uint32(rapid.SampledFrom([]int{0o644, 0o755, 0o400, 0, 0o2711, 0o1777}).Draw(t, "mode"))
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				check(t, os.Mkdir(p, 0o700))
				dirs = append(dirs, p)
			case 1:
				check(t, os.Symlink(rapid.SampledFrom([]string{"x", "..", "/", "a/b"}).Draw(t, "target"), p))
			case 2:
				check(t, unix.Mkfifo(p, 0o600))
				check(t, unix.Chmod(p, mode))
			case 3:
				if len(files) > 0 {
					check(t, os.Link(rapid.SampledFrom(files).Draw(t, "linked"), p))
				}
			default:
				check(t, os.WriteFile(p, make([]byte, rapid.IntRange(0, 9000).Draw(t, "size")), 0o600))
				check(t, unix.Chmod(p, mode))
				files = append(files, p)
			}
		}
		b := pack(t, src, archive.Options{Zstd: rapid.Bool().Draw(t, "zstd")})
		_, err = unpack(t, b, dst, archive.ExtractOptions{})
		check(t, err)
		if d := cmp.Diff(snapshot(t, src), snapshot(t, dst)); d != "" {
			t.Fatal(d)
		}
	})
}

// Other tar programs must see what is in our archives, and we in theirs.
func TestOtherPrograms(t *testing.T) {
	t.Parallel()
	gnu, err := exec.LookPath("tar")
	if err != nil {
		t.Skip("tar is not installed")
	}
	src := emptyDir(t)
	check(t, os.MkdirAll(src+"/sub/dir", 0o750))
	check(t, os.WriteFile(src+"/sub/dir/file", []byte("x"), 0o640))
	check(t, os.Symlink("dir/file", src+"/sub/link"))
	check(t, os.Link(src+"/sub/dir/file", src+"/twin"))
	check(t, os.WriteFile(src+"/"+strings.Repeat("long", 50), nil, 0o600))
	sparse(t, src+"/sparse")
	whole := time.Unix(1_600_000_000, 0)
	for _, p := range []string{"/sub/dir/file", "/sub/dir", "/sub", "/sparse", "/" + strings.Repeat("long", 50), ""} {
		check(t, os.Chtimes(src+p, whole, whole))
	}
	check(t, unix.Lutimes(src+"/sub/link", []unix.Timeval{{Sec: 1_600_000_000}, {Sec: 1_600_000_000}}))
	check(t, os.Chtimes(src, whole, whole))
	want := snapshot(t, src)

	for _, args := range [][]string{
		{"-c", "."},
		{"-cS", "."},
		{"--format=pax", "-c", "."},
		{"--format=pax", "-cS", "."},
		{"--format=ustar", "--exclude=long*", "-c", "."},
		{"--format=v7", "--exclude=long*", "-c", "."},
		{"-b", "1", "-c", "."},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			out, err := exec.Command(gnu, append([]string{"-C", src, "-f", "-"}, args...)...).Output()
			check(t, err)
			dst := emptyDir(t)
			_, err = unpack(t, out, dst, archive.ExtractOptions{})
			check(t, err)
			got := snapshot(t, dst)
			forget := func(m map[string]string) map[string]string {
				c := map[string]string{}
				for k, v := range m {
					// Only some formats record holes; one cannot hold long names.
					if k == "sparse" || strings.HasPrefix(k, "long") {
						continue
					}
					c[k] = v
				}
				return c
			}
			if d := cmp.Diff(forget(want), forget(got)); d != "" {
				t.Error(d)
			}
			if strings.Contains(args[0]+args[len(args)-2], "S") && got["sparse"] != want["sparse"] {
				t.Errorf("sparse: %s, want %s", got["sparse"], want["sparse"])
			}
		})
	}
	t.Run("reads ours", func(t *testing.T) {
		t.Parallel()
		dst := emptyDir(t)
		cmd := exec.Command(gnu, "-C", dst, "-xpf", "-")
		cmd.Stdin = bytes.NewReader(pack(t, src, archive.Options{}))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if d := cmp.Diff(want, snapshot(t, dst)); d != "" {
			t.Error(d)
		}
	})
}

func TestMissingParents(t *testing.T) {
	t.Parallel()
	dst := emptyDir(t)
	owners, err := unpack(t, makeTar(t, entry{name: "a/b/c", body: "x", mode: 0o600}), dst, archive.ExtractOptions{})
	check(t, err)
	for p, want := range map[string]os.FileMode{"a": 0o755, "a/b": 0o755, "a/b/c": 0o600} {
		info, err := os.Stat(dst + "/" + p)
		check(t, err)
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v", p, info.Mode())
		}
	}
	for p, want := range map[string]bool{".": false, "a": false, "a/b": false, "a/b/c": true, "a/b/c/d": false, "x": false} {
		if _, ok := owners.Of(p); ok != want {
			t.Errorf("owner of %s: %v", p, ok)
		}
	}
}

func TestDamagedContents(t *testing.T) {
	t.Parallel()
	src := emptyDir(t)
	check(t, os.WriteFile(src+"/f", []byte("before"), 0o600))
	tr := scan(t, src)
	d := openRoot(t, src)
	defer d.Close()
	for _, now := range []string{"beforf", "short", "longer than it was"} {
		check(t, os.WriteFile(src+"/f", []byte(now), 0o600))
		err := archive.Write(context.Background(), io.Discard, tr, opener(d), archive.Options{})
		if err == nil || !strings.Contains(err.Error(), "f: contents are damaged") {
			t.Errorf("%q: %v", now, err)
		}
	}
}

func TestWriteChanges(t *testing.T) {
	t.Parallel()
	src := emptyDir(t)
	for i := range 300 {
		check(t, os.WriteFile(fmt.Sprintf("%s/gone-%s-%03d", src, strings.Repeat("x", 200), i), nil, 0o600))
	}
	check(t, os.WriteFile(src+"/same", []byte("same"), 0o600))
	before := scan(t, src)
	gone, err := filepath.Glob(src + "/gone-*")
	check(t, err)
	for _, p := range gone {
		check(t, os.Remove(p))
	}
	check(t, os.WriteFile(src+"/new", []byte("new"), 0o600))
	check(t, os.Symlink("new", src+"/link"))
	after := scan(t, src)
	changes, err := tree.Diff(before, after, tree.DiffOptions{})
	check(t, err)
	d := openRoot(t, src)
	defer d.Close()
	var b bytes.Buffer
	check(t, archive.WriteChanges(context.Background(), &b, after, changes, opener(d), archive.Options{}))
	names, deleted := listTar(t, b.Bytes())
	if d := cmp.Diff([]string{"./link", "./new"}, names); d != "" {
		t.Error(d)
	}
	if len(deleted) != 300 || deleted[0] != filepath.Base(gone[0]) {
		t.Errorf("%d deleted", len(deleted))
	}
	if _, err := unpack(t, b.Bytes(), emptyDir(t), archive.ExtractOptions{}); !errors.Is(err, archive.ErrArchive) || !strings.Contains(err.Error(), "only changes") {
		t.Errorf("extracting changes: %v", err)
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	src := build(t)
	b := pack(t, src, archive.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	d := openRoot(t, src)
	defer d.Close()
	if err := archive.Write(ctx, io.Discard, scan(t, src), opener(d), archive.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Write: %v", err)
	}
	dst := openRoot(t, emptyDir(t))
	defer dst.Close()
	if _, err := archive.Extract(ctx, bytes.NewReader(b), dst, archive.ExtractOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Extract: %v", err)
	}
}
