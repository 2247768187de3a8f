package archive_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/storage/archive"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

const hugeSize = 8 << 40

// huge makes a file of 8 TiB that holds almost nothing.
func huge(t testing.TB, path string) {
	t.Helper()
	f, err := os.Create(path)
	check(t, err)
	for _, at := range []int64{0, 1<<40 + 5, hugeSize - 3} {
		_, err = f.WriteAt([]byte("abc"), at)
		check(t, err)
	}
	check(t, f.Close())
}

// TestHoles: holes take no space in an archive and no time to read.
func TestHoles(t *testing.T) {
	t.Parallel()
	src := emptyDir(t)
	huge(t, src+"/huge")
	check(t, os.Link(src+"/huge", src+"/twin"))
	f, err := os.Create(src + "/\xff empty")
	check(t, err)
	check(t, f.Truncate(hugeSize))
	check(t, f.Close())
	check(t, os.WriteFile(src+"/zz", []byte("after it"), 0o600))
	before := scan(t, src)
	for _, opt := range []archive.Options{{}, {Zstd: true}} {
		t.Run(fmt.Sprintf("zstd=%v", opt.Zstd), func(t *testing.T) {
			t.Parallel()
			b := pack(t, src, opt)
			if len(b) > 1<<20 {
				t.Errorf("the archive has %d bytes", len(b))
			}
			dst := emptyDir(t)
			_, err := unpack(t, b, dst, archive.ExtractOptions{})
			check(t, err)
			compareHuge(t, before, dst)
		})
	}
	t.Run("tar", func(t *testing.T) {
		t.Parallel()
		program, err := exec.LookPath("tar")
		if err != nil {
			t.Skip("tar is not installed")
		}
		dst := emptyDir(t)
		cmd := exec.Command(program, "-C", dst, "-xpf", "-")
		cmd.Stdin = bytes.NewReader(pack(t, src, archive.Options{}))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		compareHuge(t, before, dst)
		// And back: what it writes is read without its zeros.
		out, err := exec.Command(program, "-C", dst, "--format=pax", "-cSf", "-", ".").Output()
		check(t, err)
		again := emptyDir(t)
		_, err = unpack(t, out, again, archive.ExtractOptions{})
		check(t, err)
		compareHuge(t, before, again)
	})
}

func compareHuge(t *testing.T, before *tree.Tree, dst string) {
	t.Helper()
	diffs, err := tree.Compare(before, scan(t, dst))
	check(t, err)
	for _, d := range diffs {
		t.Errorf("%+v", d)
	}
	var st unix.Stat_t
	check(t, unix.Lstat(dst+"/huge", &st))
	if st.Blocks*512 > 1<<20 {
		t.Errorf("the file takes %d bytes of disk", st.Blocks*512)
	}
}

// TestManyHoles: a file with more holes than the list may have is kept, too, but
// not at the price of many zeros.
func TestManyHoles(t *testing.T) {
	t.Parallel()
	const parts = fsx.MaxExtents + 1000
	write := func(path string, step int64) {
		f, err := os.Create(path)
		check(t, err)
		for i := range int64(parts) {
			_, err := f.WriteAt([]byte{1}, i*step)
			check(t, err)
		}
		check(t, f.Close())
	}
	src, dst := emptyDir(t), emptyDir(t)
	write(src+"/f", 3*4096)
	b := pack(t, src, archive.Options{})
	_, err := unpack(t, b, dst, archive.ExtractOptions{})
	check(t, err)
	diffs, err := tree.Compare(scan(t, src), scan(t, dst))
	check(t, err)
	var was, is unix.Stat_t
	check(t, unix.Stat(src+"/f", &was))
	check(t, unix.Stat(dst+"/f", &is))
	if len(diffs) > 0 || is.Blocks > was.Blocks+parts/50 {
		t.Errorf("%d blocks were %d, differences: %v", is.Blocks, was.Blocks, diffs)
	}
	write(src+"/g", 4<<20)
	f, err := os.Open(src + "/g")
	check(t, err)
	defer f.Close()
	if list, err := fsx.Extents(t.Context(), f, parts*4<<20); !errors.Is(err, fsx.ErrManyExtents) {
		t.Errorf("large holes: %d parts, %v", len(list), err)
	}
}

// TestHostileHoles: a list that says something else than the entry has is refused.
func TestHostileHoles(t *testing.T) {
	t.Parallel()
	src := emptyDir(t)
	huge(t, src+"/huge")
	good := pack(t, src, archive.Options{})
	list := bytes.Index(good, []byte("3\n0\n4096\n"))
	if list < 0 {
		t.Fatal("no list of extents")
	}
	header := list - 512
	resize := func(by int64) []byte { // the entry says that it holds more or less
		b := bytes.Clone(good)
		h := b[header:list]
		var size int64
		_, err := fmt.Sscanf(string(h[124:135]), "%o", &size)
		check(t, err)
		copy(h[124:], fmt.Sprintf("%011o", size+by))
		copy(h[148:], "        ")
		sum := 0
		for _, c := range h {
			sum += int(c)
		}
		copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
		return b
	}
	replace := func(old, now string) []byte {
		b := bytes.Clone(good)
		text := strings.Replace(string(b[list:list+512]), old, now, 1)
		copy(b[list:], text)
		return b
	}
	for name, data := range map[string][]byte{
		"order":     replace("\n1099511627776\n", "\n0000000000001\n"),
		"beyond":    replace("3\n0\n4096\n", "3\n0\n9096\n"),
		"negative":  replace("\n4096\n", "\n-409\n"),
		"text":      replace("\n4096\n", "\nfour\n"),
		"count":     replace("3\n0\n", "9\n0\n"),
		"huge":      replace("3\n0\n4096\n", "99999999\n"),
		"less":      resize(-512),
		"more":      resize(512),
		"cut":       good[:list+512+100],
		"cut later": good[:list+512+5000],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := unpack(t, data, emptyDir(t), archive.ExtractOptions{})
			if !errors.Is(err, archive.ErrArchive) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v", err)
			}
		})
	}
	limited, err := unpack(t, good, emptyDir(t), archive.ExtractOptions{MaxSparse: 1 << 30})
	if !errors.Is(err, archive.ErrArchive) || !strings.Contains(err.Error(), "too big") {
		t.Errorf("with a limit: %v, %v", limited, err)
	}
	if h, err := tar.NewReader(bytes.NewReader(good)).Next(); err != nil || h.Name != "./" {
		t.Errorf("the standard library reads %v, %v", h, err)
	}
}
