package carry_test

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/incell/carry"
	"github.com/forkcell/forkcell/internal/storage/fsx"
)

func TestMain(m *testing.M) {
	if os.Args[0] == "forkcell-reader" {
		fsx.ServeReader()
		return
	}
	os.Exit(m.Run())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, dir string) *fsx.Dir {
	t.Helper()
	d, err := fsx.OpenRoot(dir)
	must(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// listing describes a tree: type, permission bits, time, contents.
func listing(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(root, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(p)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		text := info.Mode().String() + " " + info.ModTime().UTC().Format(time.RFC3339Nano)
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			text += " " + string(data)
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			text += " -> " + to
		}
		out[rel] = text
		return nil
	}))
	return out
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	from := filepath.Join(t.TempDir(), "tree")
	must(t, os.MkdirAll(filepath.Join(from, "sub/empty"), 0o755))
	must(t, os.WriteFile(filepath.Join(from, "file"), []byte("contents"), 0o640))
	must(t, os.WriteFile(filepath.Join(from, "sub/\xff name\n"), nil, 0o400))
	must(t, os.WriteFile(filepath.Join(from, "sub/"+strings.Repeat("long", 50)), []byte("x"), 0o600))
	must(t, os.Symlink("/etc/passwd", filepath.Join(from, "sub/out")))
	must(t, os.Symlink("\xfe", filepath.Join(from, "dangling")))
	stamp := time.Unix(1_700_000_000, 123_456_789)
	for _, name := range []string{"file", "sub/empty", "sub", "."} {
		must(t, os.Chtimes(filepath.Join(from, name), stamp, stamp))
	}
	must(t, os.Chmod(filepath.Join(from, "sub/empty"), 0o500))
	var stream bytes.Buffer
	sent, err := carry.Send(t.Context(), &stream, open(t, filepath.Dir(from)), "tree", nil)
	must(t, err)
	to := t.TempDir()
	got, err := carry.Receive(t.Context(), &stream, open(t, to), "copy", carry.Screen{})
	must(t, err)
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Error(diff)
	}
	want := carry.Totals{Files: 3, Dirs: 3, Links: 2, Bytes: 9}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(listing(t, from), listing(t, filepath.Join(to, "copy"))); diff != "" {
		t.Error(diff)
	}
}

func TestWhatDoesNotTravel(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	must(t, os.Mkdir(filepath.Join(from, "tree"), 0o755))
	file := filepath.Join(from, "tree/file")
	must(t, os.WriteFile(file, nil, 0o755))
	must(t, os.Chmod(file, 0o755|fs.ModeSetuid|fs.ModeSetgid))
	must(t, unix.Mkfifo(filepath.Join(from, "tree/fifo"), 0o644))
	must(t, unix.Mknod(filepath.Join(from, "tree/socket"), unix.S_IFSOCK|0o644, 0))
	var stream bytes.Buffer
	list := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range [][4]uint16{{1, 6, 0xffff, 0xffff}, {2, 4, 99, 0}, {4, 4, 0xffff, 0xffff}, {16, 6, 0xffff, 0xffff}, {32, 0, 0xffff, 0xffff}} {
		for _, n := range e {
			list = binary.LittleEndian.AppendUint16(list, n)
		}
	}
	must(t, os.WriteFile(filepath.Join(from, "tree/listed"), nil, 0o600))
	must(t, unix.Setxattr(filepath.Join(from, "tree/listed"), "system.posix_acl_access", list, 0))
	must(t, unix.Setxattr(filepath.Join(from, "tree/listed"), "user.a", []byte("b"), 0))
	own := &carry.Owner{UID: 7, GID: 7} // everything belongs to another user
	sent, err := carry.Send(t.Context(), &stream, open(t, from), "tree", own)
	must(t, err)
	if diff := cmp.Diff([]string{"fifo", "socket"}, sent.Skipped); diff != "" {
		t.Error(diff)
	}
	to := t.TempDir()
	received := map[string]carry.Entry{}
	_, err = carry.Receive(t.Context(), &stream, open(t, to), "copy", carry.Screen{Entry: func(e carry.Entry) bool { received[e.Path] = e; return true }})
	must(t, err)
	me := carry.Owner{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	if e := received["file"]; e.Mode != 0o6755 || e.Owner == nil || *e.Owner != me || e.Own != *own || len(e.Xattrs) > 0 || e.Type != 0 {
		t.Errorf("file: %+v", e)
	}
	if e := received[""]; !e.Type.IsDir() || e.Owner == nil {
		t.Errorf("the directory: %+v", e)
	}
	if e := received["listed"]; len(e.Xattrs) != 1 || e.Xattrs[0].Name != "system.posix_acl_access" || !bytes.Equal(e.Xattrs[0].Value, list) {
		t.Errorf("listed: %+v", e)
	}
	if n, err := unix.Listxattr(filepath.Join(to, "copy/listed"), nil); n != 0 || err != nil {
		t.Errorf("attributes of %d bytes arrived: %v", n, err)
	}
	info, err := os.Stat(filepath.Join(to, "copy/file"))
	must(t, err)
	if info.Mode() != 0o755 {
		t.Errorf("mode %v", info.Mode())
	}
	if _, err := carry.Send(t.Context(), &stream, open(t, from), "tree/fifo", nil); err == nil {
		t.Error("a FIFO was sent")
	}
	if _, err := carry.Send(t.Context(), &stream, open(t, from), "none", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// stream makes a stream of headers, as an attacker would.
func stream(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		h.Format = tar.FormatPAX
		must(t, w.WriteHeader(&h))
		if h.Size > 0 {
			_, err := w.Write(bytes.Repeat([]byte("x"), int(h.Size)))
			must(t, err)
		}
	}
	must(t, w.Close())
	return b.Bytes()
}

func TestHostileStreams(t *testing.T) {
	t.Parallel()
	dir := tar.Header{Name: "root", Typeflag: tar.TypeDir, Mode: 0o755}
	end := tar.Header{Name: "end", Typeflag: tar.TypeReg}
	file := func(name string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: 1}
	}
	for name, headers := range map[string][]tar.Header{
		"nothing":            {end},
		"no end":             {dir, file("root/a")},
		"up":                 {dir, file("root/../a"), end},
		"absolute":           {dir, file("/root/a"), end},
		"another root":       {dir, file("other/a"), end},
		"two roots":          {dir, dir, end},
		"child first":        {file("root/a"), end},
		"through a link":     {dir, {Name: "root/l", Typeflag: tar.TypeSymlink, Linkname: ".."}, file("root/l/a"), end},
		"over a link":        {dir, {Name: "root/l", Typeflag: tar.TypeSymlink, Linkname: "../victim"}, file("root/l"), end},
		"a child of a file":  {file("root"), file("root/a"), end},
		"the same twice":     {dir, file("root/a"), file("root/a"), end},
		"a hard link":        {dir, {Name: "root/h", Typeflag: tar.TypeLink, Linkname: "../victim"}, end},
		"a device":           {dir, {Name: "root/d", Typeflag: tar.TypeChar}, end},
		"a FIFO":             {dir, {Name: "root/f", Typeflag: tar.TypeFifo}, end},
		"an attribute":       {dir, {Name: "root/a", Typeflag: tar.TypeReg, PAXRecords: map[string]string{"SCHILY.xattr.user.a": "b"}}, end},
		"holes without list": {dir, {Name: "root/a", Typeflag: tar.TypeReg, Size: 600, PAXRecords: map[string]string{"FORKCELL.size": "99999999999"}}, end},
		"a negative size":    {dir, {Name: "root/a", Typeflag: tar.TypeReg, Size: 600, PAXRecords: map[string]string{"FORKCELL.size": "-1"}}, end},
		"a size of a link":   {dir, {Name: "root/l", Typeflag: tar.TypeSymlink, Linkname: "x", PAXRecords: map[string]string{"FORKCELL.size": "9"}}, end},
		"an empty component": {dir, file("root//a"), end},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := t.TempDir()
			must(t, os.WriteFile(filepath.Join(to, "victim"), []byte("safe"), 0o644))
			if _, err := carry.Receive(t.Context(), bytes.NewReader(stream(t, headers...)), open(t, to), "copy", carry.Screen{}); err == nil {
				t.Error("it was taken")
			}
			untouched(t, to)
		})
	}
}

// TestHoles: a file of holes is not believed, however short the stream is.
func TestHoles(t *testing.T) {
	t.Parallel()
	to := t.TempDir()
	must(t, os.WriteFile(filepath.Join(to, "victim"), []byte("safe"), 0o644))
	// The standard library does not write sparse files, so the records of one are
	// put under names that it does write, and renamed.
	data := stream(t, tar.Header{
		Name: "root", Typeflag: tar.TypeReg, Mode: 0o644, PAXRecords: map[string]string{
			"XXX.sparse.size": "99999999999", "XXX.sparse.numblocks": "0", "XXX.sparse.map": "", "XXX.sparse.name": "root",
		},
	}, tar.Header{Name: "end", Typeflag: tar.TypeReg})
	data = bytes.ReplaceAll(data, []byte("XXX.sparse"), []byte("GNU.sparse"))
	if _, err := carry.Receive(t.Context(), bytes.NewReader(data), open(t, to), "copy", carry.Screen{}); !errors.Is(err, carry.ErrStream) {
		t.Error(err)
	}
	untouched(t, to)
}

func untouched(t testing.TB, dir string) {
	t.Helper()
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 || names[0].Name() != "victim" {
		t.Fatalf("%v holds %v, %v", dir, names, err)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "victim")); err != nil || string(data) != "safe" {
		t.Fatalf("the victim holds %q, %v", data, err)
	}
}

func TestReplacing(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	must(t, os.Mkdir(filepath.Join(from, "dir"), 0o755))
	must(t, os.WriteFile(filepath.Join(from, "file"), []byte("new"), 0o644))
	send := func(name string) *bytes.Buffer {
		var b bytes.Buffer
		_, err := carry.Send(t.Context(), &b, open(t, from), name, nil)
		must(t, err)
		return &b
	}
	to := t.TempDir()
	d := open(t, to)
	must(t, os.Mkdir(filepath.Join(to, "dir"), 0o755))
	must(t, os.WriteFile(filepath.Join(to, "target"), []byte("target"), 0o644))
	must(t, os.Symlink("target", filepath.Join(to, "link")))
	for _, c := range []struct{ what, name string }{{"dir", "dir"}, {"file", "dir"}, {"dir", "target"}, {"dir", "link"}} {
		if _, err := carry.Receive(t.Context(), send(c.what), d, c.name, carry.Screen{}); !errors.Is(err, carry.ErrExists) {
			t.Errorf("%s over %s: %v", c.what, c.name, err)
		}
	}
	// A link is replaced, not followed.
	_, err := carry.Receive(t.Context(), send("file"), d, "link", carry.Screen{})
	must(t, err)
	if data, _ := os.ReadFile(filepath.Join(to, "target")); string(data) != "target" {
		t.Errorf("the link was followed: %q", data)
	}
	for _, name := range []string{"", ".", "..", "a/b", "/"} {
		if _, err := carry.Receive(t.Context(), send("file"), d, name, carry.Screen{}); err == nil {
			t.Errorf("name %q was taken", name)
		}
	}
}

func TestPlaceAndSource(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	must(t, os.Symlink("sub", filepath.Join(dir, "link")))
	for to, want := range map[string]string{
		"/sub": "/sub|base", "/sub/": "/sub|base", "/link": "/link|base", "/new": "|new", "/sub/new": "/sub|new", "": "|base",
	} {
		d, name, err := carry.Place(dir+to, "base")
		if err != nil || strings.TrimPrefix(strings.TrimSuffix(d.Path(), "/"), dir)+"|"+name != want {
			t.Errorf("%q: %v %q, %v", to, d, name, err)
		}
	}
	for _, to := range []string{"/none/", "/none/x"} {
		if _, _, err := carry.Place(dir+to, "base"); err == nil {
			t.Errorf("%q has a place", to)
		}
	}
	for from, want := range map[string]string{"/sub": "|sub", "/link": "|link", "/link/": "/link|.", "/sub/..": "|" + filepath.Base(dir)} {
		d, name, err := carry.Source(dir + from)
		if err != nil || from != "/sub/.." && strings.TrimPrefix(d.Path(), dir)+"|"+name != want {
			t.Errorf("%q: %v %q, %v", from, d, name, err)
		}
	}
	if _, _, err := carry.Source(dir + "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a path that does not exist is a source:", err)
	}
}

func TestMainProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o644))
	must(t, os.Mkdir(filepath.Join(dir, "taken"), 0o755))
	var out, errs bytes.Buffer
	if code := carry.Main([]string{"send", dir + "/file", dir}, nil, &out, &errs); code != carry.Done {
		t.Fatal(code, errs.String())
	}
	whole := out.Bytes()
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"receive", dir + "/copy", "b"}, carry.Done},
		{[]string{"receive", dir + "/none/copy", "b"}, carry.NotFound},
		{[]string{"receive", dir, "taken"}, carry.Exists},
		{[]string{"send", dir + "/none", dir}, carry.NotFound},
		{[]string{"send"}, carry.Failed},
		{nil, carry.Failed},
	} {
		if code := carry.Main(c.args, bytes.NewReader(whole), &out, &errs); code != c.want {
			t.Errorf("%v: %d, want %d", c.args, code, c.want)
		}
	}
}

// FuzzReceive: whatever comes, nothing but the copy appears.
func FuzzReceive(f *testing.F) {
	var whole bytes.Buffer
	dir := f.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o644); err != nil {
		f.Fatal(err)
	}
	d, err := fsx.OpenRoot(dir)
	if err != nil {
		f.Fatal(err)
	}
	if _, err := carry.Send(f.Context(), &whole, d, "file", nil); err != nil {
		f.Fatal(err)
	}
	f.Add(whole.Bytes())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		to := t.TempDir()
		must(t, os.WriteFile(filepath.Join(to, "victim"), []byte("safe"), 0o644))
		d, err := fsx.OpenRoot(to)
		must(t, err)
		defer d.Close()
		if _, err := carry.Receive(t.Context(), bytes.NewReader(data), d, "copy", carry.Screen{}); err == nil {
			must(t, d.RemoveAll("copy"))
		}
		untouched(t, to)
	})
}

// TestHugeFile: holes are neither sent nor filled.
func TestHugeFile(t *testing.T) {
	t.Parallel()
	const size = 8 << 40
	from, to := t.TempDir(), t.TempDir()
	f, err := os.Create(filepath.Join(from, "huge"))
	must(t, err)
	must(t, f.Truncate(size))
	for _, at := range []int64{1<<40 + 5, size - 3} {
		_, err = f.WriteAt([]byte("abc"), at)
		must(t, err)
	}
	must(t, f.Close())
	var stream bytes.Buffer
	sent, err := carry.Send(t.Context(), &stream, open(t, from), ".", nil)
	must(t, err)
	if stream.Len() > 1<<20 {
		t.Errorf("%d bytes were sent", stream.Len())
	}
	got, err := carry.Receive(t.Context(), &stream, open(t, to), "copy", carry.Screen{})
	must(t, err)
	if diff := cmp.Diff(sent, got); diff != "" || got.Bytes != size {
		t.Error(got, diff)
	}
	f, err = os.Open(filepath.Join(to, "copy/huge"))
	must(t, err)
	defer f.Close()
	info, err := fsx.StatFile(f)
	must(t, err)
	part := make([]byte, 3)
	for _, at := range []int64{1<<40 + 5, size - 3} {
		if _, err := f.ReadAt(part, at); err != nil || string(part) != "abc" {
			t.Errorf("%q at %d: %v", part, at, err)
		}
	}
	if info.Size != size || info.Blocks*512 > 1<<20 {
		t.Errorf("%d bytes, %d blocks", info.Size, info.Blocks)
	}
}

// TestDeepTree: directories are finished one by one, however many are in one
// another.
func TestDeepTree(t *testing.T) {
	t.Parallel()
	const levels = 400
	name := strings.Repeat("d", 60) // paths far beyond what the kernel takes
	from, to := t.TempDir(), t.TempDir()
	stamp := time.Unix(1_700_000_000, 5)
	at, err := unix.Open(from, unix.O_DIRECTORY, 0)
	must(t, err)
	for range levels {
		must(t, unix.Mkdirat(at, name, 0o750))
		next, err := unix.Openat(at, name, unix.O_DIRECTORY, 0)
		must(t, err)
		must(t, unix.Close(at))
		at = next
	}
	must(t, unix.Close(at))
	must(t, os.Chtimes(filepath.Join(from, name), stamp, stamp))
	var stream bytes.Buffer
	_, err = carry.Send(t.Context(), &stream, open(t, from), name, nil)
	must(t, err)
	dir := open(t, to)
	got, err := carry.Receive(t.Context(), &stream, dir, "copy", carry.Screen{})
	must(t, err)
	if got.Dirs != levels {
		t.Errorf("%+v", got)
	}
	info, err := dir.Lstat("copy/" + strings.Repeat(name+"/", levels-2) + name)
	must(t, err)
	top, err := os.Stat(filepath.Join(to, "copy"))
	must(t, err)
	if info.Mode != 0o750 || !top.ModTime().Equal(stamp) {
		t.Errorf("mode %o, time %v", info.Mode, top.ModTime())
	}
	must(t, dir.RemoveAll("copy"))
	must(t, open(t, from).RemoveAll(name))
}
