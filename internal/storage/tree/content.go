package tree

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"math/bits"
	"slices"
	"sync"
)

// LargeFile is the size up to which the digest of a file is the SHA-256 of its
// bytes. Above it the digest is the root of a hash tree over chunks, in which a
// hole costs nothing. Which of the two it is follows from the size alone,
// whatever the file system has stored.
const LargeFile = 16 << 20

const (
	chunkShift = 20
	chunkSize  = 1 << chunkShift
	maxHeight  = 64
	zeroPiece  = 256 << 10
)

const (
	domainChunk   = "forkcell.tree.v2 chunk"
	domainPair    = "forkcell.tree.v2 pair"
	domainContent = "forkcell.tree.v2 content"
)

// ErrSize means that contents did not have the expected size:
// the file changed while it was read.
var ErrSize = errors.New("its size changed while it was read")

// Content computes the digest of a file from its bytes, in order. It is used for
// one file after the other, each begun by Reset.
type Content struct {
	flat  hash.Hash // the whole file, unless it is large
	part  hash.Hash // the chunk that is being filled
	large bool
	both  bool // a large file has its flat digest too

	filled   int64 // bytes in part
	chunks   uint64
	total    int64
	subtrees []subtree // complete subtrees, from left to right, of falling height
	buf      []byte
}

// subtree is the root of a complete subtree of 2^height chunks.
type subtree struct {
	height int
	hash   Hash
}

// NewContent makes a Content for a file of no bytes.
func NewContent() *Content {
	return &Content{flat: sha256.New(), part: sha256.New()}
}

// Reset begins a file. Size is the size that the file system reports; like, if
// not nil, is the entry that the digest will be compared with.
func (c *Content) Reset(size int64, like *Entry) {
	c.large = size > LargeFile
	c.both = c.large && like != nil && like.PlainDigest && like.Size == size
	c.filled, c.chunks, c.total, c.subtrees = 0, 0, 0, c.subtrees[:0]
	c.flat.Reset()
	if c.large {
		c.beginChunk()
	}
}

func (c *Content) beginChunk() {
	c.part.Reset()
	c.buf = appendString(c.buf[:0], domainChunk)
	c.part.Write(c.buf)
	c.filled = 0
}

// Write adds bytes.
func (c *Content) Write(p []byte) (int, error) {
	n := len(p)
	c.total += int64(n)
	if !c.large || c.both {
		c.flat.Write(p)
	}
	if c.large {
		c.fill(p)
	}
	return n, nil
}

func (c *Content) fill(p []byte) {
	for len(p) > 0 {
		take := p[:min(int64(len(p)), chunkSize-c.filled)]
		c.part.Write(take)
		c.filled += int64(len(take))
		p = p[len(take):]
		if c.filled == chunkSize {
			c.endChunk()
			c.beginChunk()
		}
	}
}

func (c *Content) endChunk() {
	var h Hash
	c.part.Sum(h[:0])
	c.push(0, h)
}

// push adds a complete subtree and joins those of one height.
func (c *Content) push(height int, h Hash) {
	c.chunks += 1 << height
	for n := len(c.subtrees) - 1; n >= 0 && c.subtrees[n].height == height; n-- {
		h = c.pair(c.subtrees[n].hash, h)
		c.subtrees = c.subtrees[:n]
		height++
	}
	c.subtrees = append(c.subtrees, subtree{height, h})
}

func (c *Content) pair(left, right Hash) Hash {
	c.buf = appendPair(c.buf[:0], left, right)
	return sha256.Sum256(c.buf)
}

func appendPair(b []byte, left, right Hash) []byte {
	b = appendString(b, domainPair)
	b = append(b, left[:]...)
	return append(b, right[:]...)
}

// zeroTrees are the roots of complete subtrees of zeros, by height.
var zeroTrees = sync.OnceValue(func() (all [maxHeight]Hash) {
	all[0] = sha256.Sum256(append(appendString(nil, domainChunk), make([]byte, chunkSize)...))
	for i := 1; i < maxHeight; i++ {
		all[i] = sha256.Sum256(appendPair(nil, all[i-1], all[i-1]))
	}
	return all
})

// zeroBytes are written where zeros have to be hashed one by one.
var zeroBytes [zeroPiece]byte

// Zeros adds n zero bytes. In a large file the cost grows with the logarithm of
// n.
func (c *Content) Zeros(ctx context.Context, n int64) error {
	if !c.large || c.both {
		if err := writeZeros(ctx, c.flat, n); err != nil {
			return err
		}
	}
	c.total += n
	if !c.large {
		return nil
	}
	if c.filled > 0 {
		head := min(n, chunkSize-c.filled)
		c.fillZeros(head)
		n -= head
	}
	c.pushZeros(uint64(n >> chunkShift))
	c.fillZeros(n % chunkSize)
	return nil
}

func (c *Content) fillZeros(n int64) {
	for n > 0 {
		piece := zeroBytes[:min(n, zeroPiece)]
		c.fill(piece)
		n -= int64(len(piece))
	}
}

// pushZeros adds whole chunks of zeros, as the largest complete subtrees that
// fit there.
func (c *Content) pushZeros(n uint64) {
	for n > 0 {
		height := bits.Len64(n) - 1
		if c.chunks > 0 {
			height = min(height, bits.TrailingZeros64(c.chunks))
		}
		c.push(height, zeroTrees()[height])
		n -= 1 << height
	}
}

func writeZeros(ctx context.Context, h hash.Hash, n int64) error {
	for n > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		piece := zeroBytes[:min(n, zeroPiece)]
		h.Write(piece)
		n -= int64(len(piece))
	}
	return nil
}

// Sum returns the digest of the added bytes. plain reports that it is the flat
// digest of a large file; this happens only if the entry that was given to
// Reset has this digest. ErrSize means that the number of bytes is not the one
// that was given to Reset.
func (c *Content) Sum(like *Entry) (digest Hash, plain bool, err error) {
	if (c.total > LargeFile) != c.large {
		return Hash{}, false, ErrSize
	}
	if !c.large {
		c.flat.Sum(digest[:0])
		return digest, false, nil
	}
	if c.both && like != nil {
		if c.flat.Sum(digest[:0]); digest == like.Digest {
			return digest, true, nil
		}
	}
	return c.root(), false, nil
}

// root combines the subtrees from right to left and adds the size.
func (c *Content) root() Hash {
	peaks := c.subtrees
	var top Hash
	if c.filled > 0 {
		c.part.Sum(top[:0])
	} else {
		top, peaks = peaks[len(peaks)-1].hash, peaks[:len(peaks)-1]
	}
	for _, p := range slices.Backward(peaks) {
		top = c.pair(p.hash, top)
	}
	c.buf = appendString(c.buf[:0], domainContent)
	c.buf = binary.BigEndian.AppendUint64(c.buf, uint64(c.total))
	c.buf = append(c.buf, top[:]...)
	return sha256.Sum256(c.buf)
}

// Size is the number of bytes added.
func (c *Content) Size() int64 { return c.total }
