package tree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
)

// naive is the definition of the digest, as docs/formats/identity.md gives it.
func naive(b []byte) Hash {
	if len(b) <= LargeFile {
		return sha256.Sum256(b)
	}
	var top func(b []byte) Hash
	top = func(b []byte) Hash {
		if len(b) <= 1<<20 {
			return sha256.Sum256(append(appendString(nil, "forkcell.tree.v2 chunk"), b...))
		}
		left := 1 << 20
		for left*2 < len(b) {
			left *= 2
		}
		l, r := top(b[:left]), top(b[left:])
		return sha256.Sum256(append(append(appendString(nil, "forkcell.tree.v2 pair"), l[:]...), r[:]...))
	}
	h := top(b)
	x := appendString(nil, "forkcell.tree.v2 content")
	x = binary.BigEndian.AppendUint64(x, uint64(len(b)))
	return sha256.Sum256(append(x, h[:]...))
}

// TestContentWhateverTheLayout: bytes in pieces of any size, and zeros as bytes
// or as holes, have the digest of the definition.
func TestContentWhateverTheLayout(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	c := NewContent()
	for _, size := range []int{0, 1, LargeFile, LargeFile + 1, LargeFile + 1<<20 + 7, 20 << 20} {
		b := make([]byte, size)
		for range 3 {
			if size > 0 {
				b[rnd.IntN(size)] = byte(1 + rnd.IntN(255))
			}
		}
		c.Reset(int64(size), nil)
		for at := 0; at < size; {
			end := min(size, at+1+rnd.IntN(3<<20))
			if bytes.Count(b[at:end], []byte{0}) == end-at {
				if err := c.Zeros(t.Context(), int64(end-at)); err != nil {
					t.Fatal(err)
				}
			} else {
				_, _ = c.Write(b[at:end])
			}
			at = end
		}
		if got, plain, err := c.Sum(nil); got != naive(b) || plain || err != nil {
			t.Errorf("%d bytes: %s, plain %v, %v; want %s", size, got, plain, err, naive(b))
		}
	}
}

// TestContentValues are the values of docs/formats/identity.md.
func TestContentValues(t *testing.T) {
	t.Parallel()
	for size, want := range map[int64]string{
		LargeFile:     "080acf35a507ac9849cfcba47dc2ad83e01b75663a516279c8b9d243b719643e",
		LargeFile + 1: "238b604a29fe3e17c2101df961acb8fdb20120b3d9c31762430fb7dc76b0b7ff",
		8 << 40:       "a2208810f214a5006bf358c7d10d3ce5ef2b256ed20d473a4d9eedd9162fc6cb",
	} {
		c := NewContent()
		c.Reset(size, nil)
		if err := c.Zeros(t.Context(), size); err != nil {
			t.Fatal(err)
		}
		if got, _, err := c.Sum(nil); err != nil || got.String() != want {
			t.Errorf("%d zeros: %s, %v; want %s", size, got, err, want)
		}
	}
}

func TestContentOfAnotherSize(t *testing.T) {
	t.Parallel()
	c := NewContent()
	for _, s := range [][2]int64{{5, LargeFile + 1}, {LargeFile + 1, 5}} {
		c.Reset(s[0], nil)
		if err := c.Zeros(t.Context(), s[1]); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Sum(nil); !errors.Is(err, ErrSize) {
			t.Errorf("%d bytes instead of %d: %v", s[1], s[0], err)
		}
	}
}

// TestContentOfVersionOne: a large file whose recorded digest is the plain one
// keeps it as long as its bytes are the same.
func TestContentOfVersionOne(t *testing.T) {
	t.Parallel()
	b := bytes.Repeat([]byte("x"), LargeFile+3)
	like := &Entry{Kind: KindFile, Size: int64(len(b)), Digest: sha256.Sum256(b), PlainDigest: true}
	c := NewContent()
	c.Reset(like.Size, like)
	_, _ = c.Write(b)
	if got, plain, err := c.Sum(like); got != like.Digest || !plain || err != nil {
		t.Errorf("the same bytes: %s, plain %v, %v", got, plain, err)
	}
	b[5] = 'y'
	c.Reset(like.Size, like)
	_, _ = c.Write(b)
	if got, plain, err := c.Sum(like); got != naive(b) || plain || err != nil {
		t.Errorf("other bytes: %s, plain %v, %v", got, plain, err)
	}
}

func TestContentCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	like := &Entry{Kind: KindFile, Size: 8 << 40, PlainDigest: true}
	c := NewContent()
	c.Reset(like.Size, like)
	if err := c.Zeros(ctx, like.Size); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
