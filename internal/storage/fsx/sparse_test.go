package fsx

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"os"
	"slices"
	"testing"
)

func TestCopySparse(t *testing.T) {
	t.Parallel()
	const block = 1 << 16
	for name, c := range map[string]struct {
		size int64
		data map[int64]string
	}{
		"empty":        {},
		"small holes":  {size: 3*holeBlock + 9, data: map[int64]string{0: "start", 3 * holeBlock: "end"}},
		"small hole":   {size: copyBuffer},
		"small":        {size: 5, data: map[int64]string{0: "hello"}},
		"dense":        {size: 3*copyBuffer + 7, data: map[int64]string{0: string(bytes.Repeat([]byte("0123456"), (3*copyBuffer+7)/7+1)[:3*copyBuffer+7])}},
		"all hole":     {size: 40 * block},
		"hole first":   {size: 20*block + 3, data: map[int64]string{20 * block: "end"}},
		"hole last":    {size: 30*block + 5, data: map[int64]string{0: "start"}},
		"many regions": {size: 64 * block, data: map[int64]string{0: "a", 10 * block: "b", 33*block - 1: "cc", 50 * block: "d"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, _ := tempRoot(t)
			src, err := d.Create("src", 0o600)
			check(t, err)
			defer func() { _ = src.Close() }()
			check(t, src.Truncate(c.size))
			for at, s := range c.data {
				_, err := src.WriteAt([]byte(s), at)
				check(t, err)
			}
			check(t, src.Sync())
			_, err = src.Seek(3, 0) // offsets do not matter
			check(t, err)
			for _, hashed := range []bool{true, false} {
				copyAndCompare(t, d, src, c.size, hashed)
			}
		})
	}
}

// zeroHash hashes the zeros of holes one by one.
type zeroHash struct{ hash.Hash }

func (h zeroHash) Zeros(_ context.Context, n int64) error {
	_, err := h.Write(make([]byte, n))
	return err
}

// noHoles fails if it is told of a hole.
type noHoles struct{ zeroHash }

func (noHoles) Zeros(context.Context, int64) error { return errors.New("a hole") }

// TestSmallFilesAreRead: where the data of a small file is, is not left to the kernel,
// which may report data that it is just writing to disk as a hole.
func TestSmallFilesAreRead(t *testing.T) {
	t.Parallel()
	d, _ := tempRoot(t)
	src, err := d.Create("src", 0o600)
	check(t, err)
	defer func() { _ = src.Close() }()
	check(t, src.Truncate(copyBuffer))
	sink := noHoles{zeroHash{sha256.New()}}
	if n, err := ReadSparse(t.Context(), src, sink); n != copyBuffer || err != nil {
		t.Errorf("read %d bytes: %v", n, err)
	}
	dst, err := d.Create("dst", 0o600)
	check(t, err)
	defer func() { _ = dst.Close() }()
	if n, err := CopySparse(t.Context(), dst, src, sink); n != copyBuffer || err != nil {
		t.Errorf("copied %d bytes: %v", n, err)
	}
}

func copyAndCompare(t *testing.T, d *Dir, src *os.File, size int64, hashed bool) {
	t.Helper()
	dst, err := d.Create("dst", 0o600)
	check(t, err)
	defer func() { _ = dst.Close(); _ = d.Remove("dst") }()
	h := zeroHash{sha256.New()}
	var n int64
	if hashed {
		n, err = CopySparse(t.Context(), dst, src, h)
	} else {
		n, err = CopySparse(t.Context(), dst, src, nil)
	}
	check(t, err)
	check(t, dst.Sync())
	want, err := os.ReadFile(src.Name())
	check(t, err)
	got, err := os.ReadFile(dst.Name())
	check(t, err)
	if n != size || !bytes.Equal(want, got) {
		t.Errorf("copied %d of %d bytes, equal %v", n, size, bytes.Equal(want, got))
	}
	if sum := sha256.Sum256(want); hashed && !bytes.Equal(h.Sum(nil), sum[:]) {
		t.Error("the hash is not that of the logical bytes")
	}
	again := zeroHash{sha256.New()}
	if n, err := ReadSparse(t.Context(), src, again); n != size || err != nil || hashed && !bytes.Equal(again.Sum(nil), h.Sum(nil)) {
		t.Errorf("read %d of %d bytes: %v", n, size, err)
	}
	a, err := StatFile(src)
	check(t, err)
	b, err := StatFile(dst)
	check(t, err)
	if b.Blocks > a.Blocks {
		t.Errorf("the copy has %d blocks, the source %d", b.Blocks, a.Blocks)
	}
}

func FuzzDecodeExtents(f *testing.F) {
	f.Add(EncodeExtents([]Extent{{0, 4096}, {1 << 40, 5}}, 8<<40), int64(8<<40))
	f.Add(EncodeExtents(nil, 1), int64(1))
	f.Add([]byte("1\n"), int64(0))
	f.Fuzz(func(t *testing.T, text []byte, size int64) {
		if size < 0 {
			return
		}
		list, err := DecodeExtents(bytes.NewReader(text), size)
		if err != nil {
			return
		}
		again, err := DecodeExtents(bytes.NewReader(EncodeExtents(list, size)), size)
		if err != nil || !slices.Equal(list, again) || ExtentsLen(list) > size {
			t.Errorf("%v became %v: %v", list, again, err)
		}
	})
}
