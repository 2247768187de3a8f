package archive_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/archive"
)

type entry struct {
	name, body, link string
	typ              byte
	mode             int64
	uid              int
	pax              map[string]string
}

func makeTar(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.typ, Linkname: e.link, Mode: e.mode, Uid: e.uid, Gid: os.Getgid(), PAXRecords: e.pax, Size: int64(len(e.body))}
		if e.typ == 0 {
			h.Typeflag = tar.TypeReg
		}
		if e.uid == 0 {
			h.Uid = os.Getuid()
		}
		if e.typ == tar.TypeXGlobalHeader {
			h = &tar.Header{Typeflag: e.typ, Name: e.name, PAXRecords: e.pax}
		}
		check(t, w.WriteHeader(h))
		_, err := io.WriteString(w, e.body)
		check(t, err)
	}
	check(t, w.Close())
	return b.Bytes()
}

func listTar(t testing.TB, b []byte) (names, deleted []string) {
	t.Helper()
	r := tar.NewReader(bytes.NewReader(b))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names, deleted
		}
		check(t, err)
		if h.Typeflag != tar.TypeXGlobalHeader {
			names = append(names, h.Name)
		} else if d := h.PAXRecords["FORKCELL.deleted"]; d != "" {
			deleted = append(deleted, strings.Split(d, "\x00")...)
		}
	}
}

func TestHostile(t *testing.T) {
	t.Parallel()
	good := makeTar(t, entry{name: "a", body: strings.Repeat("x", 600)}, entry{name: "b", body: strings.Repeat("\x00", 2048)})
	dir, sym, link := byte(tar.TypeDir), byte(tar.TypeSymlink), byte(tar.TypeLink)
	sparse := map[string]string{"FORKCELL.type": "fifo"}
	for _, c := range []struct {
		name string
		data []byte
		want string // part of the message
	}{
		{"empty", nil, "empty"},
		{"short text", []byte("hello world"), "not a tar archive"},
		{"text", bytes.Repeat([]byte("hello world\n"), 100), "not a tar archive"},
		{"gzip", append([]byte("\x1f\x8b"), make([]byte, 600)...), "gzip"},
		{"bad zstd", append([]byte("\x28\xb5\x2f\xfd"), make([]byte, 600)...), "archive cannot be used"},
		{"absolute", makeTar(t, entry{name: "/etc/passwd"}), "absolute"},
		{"parent", makeTar(t, entry{name: "a/../../x"}), "leads out"},
		{"only parent", makeTar(t, entry{name: ".."}), "leads out"},
		{"long component", makeTar(t, entry{name: strings.Repeat("n", 300)}), "too long"},
		{"root as a file", makeTar(t, entry{name: ".", body: "x"}), "root is not a directory"},
		{"below a symlink", makeTar(t, entry{name: "l", typ: sym, link: "/tmp"}, entry{name: "l/x"}), "below l, which is a symlink"},
		{"below a file", makeTar(t, entry{name: "f"}, entry{name: "f/x"}), "below f, which is a file"},
		{"symlink then directory", makeTar(t, entry{name: "l", typ: sym, link: "/tmp"}, entry{name: "l", typ: dir}), "listed twice"},
		{"directory then symlink", makeTar(t, entry{name: "l/", typ: dir}, entry{name: "l", typ: sym, link: "/tmp"}), "listed twice"},
		{"empty symlink", makeTar(t, entry{name: "l", typ: sym}), "symbolic link is empty"},
		{"hard link out", makeTar(t, entry{name: "l", typ: link, link: "../x"}), "not in the tree"},
		{"hard link absolute", makeTar(t, entry{name: "l", typ: link, link: "/etc/passwd"}), "not in the tree"},
		{"hard link to nothing", makeTar(t, entry{name: "l", typ: link, link: "x"}), "not in the archive before it"},
		{"hard link to a directory", makeTar(t, entry{name: "d/", typ: dir}, entry{name: "l", typ: link, link: "d"}), "hard link to the directory d"},
		{"hard link to itself", makeTar(t, entry{name: "f"}, entry{name: "f", typ: link, link: "f"}), "to itself"},
		{"character device", makeTar(t, entry{name: "c", typ: tar.TypeChar}), "device"},
		{"block device", makeTar(t, entry{name: "b", typ: tar.TypeBlock}), "device"},
		{"owner", makeTar(t, entry{name: "f", uid: 1<<32 - 1}), "out of range"},
		{"overlay attribute", makeTar(t, entry{name: "d/", typ: dir, pax: map[string]string{"SCHILY.xattr.user.overlay.opaque": "y"}}), "not allowed"},
		{"unknown record", makeTar(t, entry{name: "f", pax: map[string]string{"FORKCELL.new": "y"}}), "newer format"},
		{"unknown type", makeTar(t, entry{name: "f", pax: sparse}), "unknown type"},
		{"global path", makeTar(t, entry{name: "g", typ: tar.TypeXGlobalHeader, pax: map[string]string{"path": "x"}}, entry{name: "f"}), "not supported"},
		{"drawing name", makeTar(t, entry{name: "/\x1b[2J\n"}), `"/\x1b[2J\n"`},
		{"trailing garbage", append(bytes.Clone(good), "garbage"...), "after its end"},
		{"no end mark", good[:len(good)-1024], "end mark is missing"},
		{"cut in contents", good[:700], "cut off"},
		{"cut between entries", good[:512+1024], "end mark is missing"},
		{"huge sparse", hugeSparse(t), "too big"},
		{"text ACL", makeTar(t, entry{name: "f", pax: map[string]string{"SCHILY.acl.access": "user::rwx"}}), "cannot be kept"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			outer := emptyDir(t)
			check(t, os.Mkdir(outer+"/in", 0o700))
			_, err := unpack(t, c.data, outer+"/in", archive.ExtractOptions{})
			if !errors.Is(err, archive.ErrArchive) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
			if left, _ := os.ReadDir(outer); len(left) != 1 {
				t.Errorf("written outside: %v", left)
			}
		})
	}
}

// hugeSparse claims a file of an exbibyte without any data.
func hugeSparse(t testing.TB) []byte {
	b := makeTar(t, entry{name: "f"})
	h := b[:512]
	copy(h[257:], "ustar  \x00")
	h[156] = 'S'
	copy(h[386:], strings.Repeat("\x00", 96))
	size := []byte{0x80, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0}
	copy(h[483:], size)
	copy(h[148:], "        ")
	sum := 0
	for _, c := range h {
		sum += int(c)
	}
	copy(h[148:], []byte{'0' + byte(sum>>15&7), '0' + byte(sum>>12&7), '0' + byte(sum>>9&7), '0' + byte(sum>>6&7), '0' + byte(sum>>3&7), '0' + byte(sum&7), 0, ' '})
	return b
}

func TestTolerated(t *testing.T) {
	t.Parallel()
	dst := emptyDir(t)
	var dropped []string
	data := makeTar(t,
		entry{name: "pax_global_header", typ: tar.TypeXGlobalHeader, pax: map[string]string{"comment": "0123"}},
		entry{name: "./", typ: tar.TypeDir, mode: 0o711},
		entry{name: "f", body: "first", mode: 0o600},
		entry{name: "f", body: "second", mode: 0o640},
		entry{name: ".//d/./", typ: tar.TypeDir, mode: 0o700},
		entry{name: "d", typ: tar.TypeDir, mode: 0o500},
		entry{name: "g", mode: 0o600, pax: map[string]string{"SCHILY.fflags": "uchg", "VENDOR.x": "y"}},
	)
	_, err := unpack(t, data, dst, archive.ExtractOptions{Dropped: func(p, what string) { dropped = append(dropped, p+": "+what) }})
	check(t, err)
	b, err := os.ReadFile(dst + "/f")
	check(t, err)
	if string(b) != "second" {
		t.Errorf("f holds %q", b)
	}
	for p, want := range map[string]os.FileMode{"": 0o711, "/f": 0o640, "/d": 0o500} {
		info, err := os.Stat(dst + p)
		check(t, err)
		if info.Mode().Perm() != want {
			t.Errorf("%q: %v", p, info.Mode())
		}
	}
	if len(dropped) != 1 || dropped[0] != "g: SCHILY.fflags" {
		t.Errorf("dropped: %q", dropped)
	}
}

// TestManyByName: a name alone can ask for any number of directories.
func TestManyByName(t *testing.T) {
	t.Parallel()
	data := makeTar(t, entry{name: strings.Repeat("d/", 2000) + "x"})
	_, err := unpack(t, data, emptyDir(t), archive.ExtractOptions{MaxEntries: 1000})
	if !errors.Is(err, archive.ErrArchive) || !strings.Contains(err.Error(), "more than 1000 entries") {
		t.Error(err)
	}
}

// A failing disk is not the archive's fault.
func TestReadError(t *testing.T) {
	t.Parallel()
	good := makeTar(t, entry{name: "a", body: strings.Repeat("x", 600)})
	dst := openRoot(t, emptyDir(t))
	defer dst.Close()
	_, err := archive.Extract(context.Background(), io.MultiReader(bytes.NewReader(good[:700]), iotest.ErrReader(unix.EIO)), dst, archive.ExtractOptions{})
	if !errors.Is(err, unix.EIO) || errors.Is(err, archive.ErrArchive) {
		t.Errorf("error = %v", err)
	}
}

func FuzzExtract(f *testing.F) {
	f.Add(makeTar(f, entry{name: "a", body: "x"}, entry{name: "b", typ: tar.TypeSymlink, link: "a"}, entry{name: "c", typ: tar.TypeLink, link: "a"}))
	f.Add(makeTar(f, entry{name: "d/", typ: tar.TypeDir, pax: map[string]string{"SCHILY.xattr.user.a": "b"}}, entry{name: "d/s", pax: map[string]string{"FORKCELL.type": "socket"}}))
	f.Add(makeTar(f, entry{name: "s", body: strings.Repeat("\x00", 9000), pax: map[string]string{"FORKCELL.sparse": "1"}}))
	f.Add(hugeSparse(f))
	f.Add([]byte("\x28\xb5\x2f\xfd"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<20 {
			return
		}
		outer := emptyDir(t)
		check(t, os.Mkdir(outer+"/in", 0o700))
		_, err := unpack(t, b, outer+"/in", archive.ExtractOptions{MaxEntries: 1000, MaxSparse: 1 << 20, Dropped: func(string, string) {}})
		if left, _ := os.ReadDir(outer); len(left) != 1 {
			t.Fatalf("written outside: %v", left)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Fatalf("error of several lines: %q", err)
		}
		if err == nil { // what came in can go out and in again
			again := emptyDir(t)
			if _, err := unpack(t, pack(t, outer+"/in", archive.Options{}), again, archive.ExtractOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
