package carry_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/forkcell/forkcell/internal/sandbox/incell/carry"
	"github.com/forkcell/forkcell/internal/storage/fsx"
)

// TestArchive turns a stream into an archive, holes included.
func TestArchive(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	if err := os.MkdirAll(filepath.Join(top, "d", "e"), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(top, "d", "e", "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("end"), 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Close(), os.Symlink("/etc", filepath.Join(top, "d", "link"))); err != nil {
		t.Fatal(err)
	}
	dir, err := fsx.OpenRoot(top)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	var stream, archive bytes.Buffer
	if _, err := carry.Send(t.Context(), &stream, dir, "d", nil); err != nil {
		t.Fatal(err)
	}
	whole := stream.Bytes()
	if err := carry.Archive(bytes.NewReader(whole), func() io.Writer { return &archive }); err != nil {
		t.Fatal(err)
	}
	var names []string
	for in := tar.NewReader(&archive); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name+h.Linkname)
		if text, err := io.ReadAll(in); h.Name == "e/sparse" && (err != nil || len(text) != 1<<20+3 || string(text[1<<20:]) != "end") {
			t.Errorf("%d bytes, %v", len(text), err)
		}
	}
	if len(names) != 4 || names[0] != "./" || names[1] != "e/" || names[2] != "e/sparse" || names[3] != "link/etc" {
		t.Error(names)
	}
	for _, n := range []int{0, 100, 512, len(whole) / 2} {
		if err := carry.Archive(bytes.NewReader(whole[:n]), func() io.Writer { return io.Discard }); !errors.Is(err, carry.ErrStream) {
			t.Errorf("%d: %v", n, err)
		}
	}
}

// TestArchiveHostile reads streams that no honest sender writes.
func TestArchiveHostile(t *testing.T) {
	t.Parallel()
	for _, headers := range [][]tar.Header{
		{{Name: "other", Typeflag: tar.TypeDir}},
		{{Name: "root/x", Typeflag: tar.TypeReg}},
		{{Name: "root", Typeflag: tar.TypeDir}, {Name: "root", Typeflag: tar.TypeDir}},
		{{Name: "root", Typeflag: tar.TypeDir}, {Name: "root/../x", Typeflag: tar.TypeReg}},
		{{Name: "root", Typeflag: tar.TypeDir}, {Name: "/x", Typeflag: tar.TypeReg}},
		{{Name: "root", Typeflag: tar.TypeDir}, {Name: "root/x", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}},
		{{Name: "root", Typeflag: tar.TypeDir}, {Name: "root/x", Typeflag: tar.TypeChar}},
		{{Name: "root", Typeflag: tar.TypeDir}, {Name: "root/l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, {Name: "root/l/x", Typeflag: tar.TypeReg}},
		{{Name: "root", Typeflag: tar.TypeDir}, {Name: "root/l", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, {Name: "root/l", Typeflag: tar.TypeReg}},
		{{Name: "root", Typeflag: tar.TypeDir}, {Name: "root/l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, {Name: "root/l", Typeflag: tar.TypeDir}, {Name: "root/l/x", Typeflag: tar.TypeReg}},
		{{Name: "root", Typeflag: tar.TypeDir}, {Name: "root/a", Typeflag: tar.TypeReg}, {Name: "root/a/x", Typeflag: tar.TypeReg}},
		{{Name: "root", Typeflag: tar.TypeDir}, {Name: "root/none/x", Typeflag: tar.TypeReg}},
		{{Name: "root", Typeflag: tar.TypeDir}, {Name: "root/b", Typeflag: tar.TypeReg}, {Name: "root/a", Typeflag: tar.TypeReg}},
		{{Name: "root", Typeflag: tar.TypeDir}, {Name: "root/d", Typeflag: tar.TypeDir}, {Name: "root/e", Typeflag: tar.TypeReg}, {Name: "root/d/x", Typeflag: tar.TypeReg}},
		{{Name: "root", Typeflag: tar.TypeDir}, {Name: "root/d", Typeflag: tar.TypeDir}, {Name: "root/d/x", Typeflag: tar.TypeReg}, {Name: "root/d", Typeflag: tar.TypeSymlink, Linkname: "/etc"}},
		{{Name: "root", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, {Name: "root/x", Typeflag: tar.TypeReg}},
	} {
		var stream bytes.Buffer
		w := tar.NewWriter(&stream)
		for _, h := range append(headers, tar.Header{Name: "end", Typeflag: tar.TypeReg}) {
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := carry.Archive(&stream, func() io.Writer { return io.Discard }); !errors.Is(err, carry.ErrStream) {
			t.Errorf("%v: %v", headers, err)
		}
	}
}

// TestArchiveOfZeros: a few bytes of a stream do not become any number of zeros.
func TestArchiveOfZeros(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{1<<63 - 1, 16<<30 + 1<<20} {
		list := fsx.EncodeExtents(nil, size)
		var stream bytes.Buffer
		w := tar.NewWriter(&stream)
		err := w.WriteHeader(&tar.Header{
			Format: tar.FormatPAX, Name: "root", Typeflag: tar.TypeReg, Size: int64(len(list)),
			PAXRecords: map[string]string{"FORKCELL.size": strconv.FormatInt(size, 10)},
		})
		if err == nil {
			_, err = w.Write(list)
		}
		if err := errors.Join(err, w.WriteHeader(&tar.Header{Name: "end", Typeflag: tar.TypeReg}), w.Close()); err != nil {
			t.Fatal(err)
		}
		begun := false
		err = carry.Archive(&stream, func() io.Writer { begun = true; return io.Discard })
		if !errors.Is(err, carry.ErrStream) || begun {
			t.Errorf("%d: %v, begun %v", size, err, begun)
		}
	}
}
