package fsx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Extent is a part of a file that holds data. What lies between extents is a
// hole.
type Extent struct{ Off, Len int64 }

const (
	// MaxExtents bounds a list of extents. Its text stays below 1 MiB, which is
	// what readers of tar archives accept.
	MaxExtents = 20_000
	// holeBlock is the unit in which holes are found and made.
	holeBlock = 4096
	// maxFilled is the largest hole that is filled to keep a list short. So what
	// is filled is bounded by what is stored.
	maxFilled = 1 << 20
	// mapBlock is the unit in which the text of a list is padded.
	mapBlock = 512
)

// ErrExtents means that a list of extents is malformed.
var ErrExtents = errors.New("malformed list of the parts of a sparse file")

// ErrManyExtents means that a file has too many holes for a list of extents.
var ErrManyExtents = errors.New("more than " + strconv.Itoa(MaxExtents) + " parts with large holes between them")

// Extents returns the parts of a file that hold data, in order, and at most
// MaxExtents of them: small holes count as data where there would be more, and in a
// small file. What comes at or after size is left out.
func Extents(ctx context.Context, f *os.File, size int64) ([]Extent, error) {
	defer runtime.KeepAlive(f)
	if 0 < size && size <= smallFile {
		return []Extent{{Len: size}}, nil
	}
	settleHoles(int(f.Fd()))
	var list []Extent
	fill := int64(holeBlock)
	for at := int64(0); at < size; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e, err := nextExtent(int(f.Fd()), at, size)
		if err != nil {
			return nil, &os.PathError{Op: "seek", Path: f.Name(), Err: err}
		}
		if e.Len == 0 {
			break
		}
		list = appendExtent(list, e, fill)
		at = e.Off + e.Len
		for ; len(list) > MaxExtents; fill *= 2 {
			if fill > maxFilled {
				return nil, ErrManyExtents
			}
			list = fillHoles(list, fill)
		}
	}
	return list, nil
}

// nextExtent finds the first data at or after an offset; none has no length.
func nextExtent(fd int, at, size int64) (Extent, error) {
	data, err := unix.Seek(fd, at, unix.SEEK_DATA)
	if err == unix.ENXIO || err == nil && data >= size {
		return Extent{}, nil
	}
	if err != nil {
		return Extent{}, err
	}
	hole, err := unix.Seek(fd, data, unix.SEEK_HOLE)
	if err == unix.ENXIO {
		return Extent{}, nil // the file became shorter
	}
	return Extent{data, min(hole, size) - data}, err
}

// appendExtent adds an extent to a list, or to its last one if the hole before it
// is smaller than fill.
func appendExtent(list []Extent, e Extent, fill int64) []Extent {
	if n := len(list) - 1; n >= 0 && e.Off-(list[n].Off+list[n].Len) < fill {
		list[n].Len = e.Off + e.Len - list[n].Off
		return list
	}
	return append(list, e)
}

func fillHoles(list []Extent, fill int64) []Extent {
	kept := list[:0]
	for _, e := range list {
		kept = appendExtent(kept, e, fill)
	}
	return kept
}

// ExtentsLen returns how many bytes a list of extents holds.
func ExtentsLen(list []Extent) (n int64) {
	for _, e := range list {
		n += e.Len
	}
	return n
}

// EncodeExtents returns the text of a list of extents of a file, as format 1.0 of
// GNU tar has it: the number of extents, then an offset and a length for each,
// every number on a line, padded to whole blocks. An empty extent at the end of
// the file stands for a hole there.
func EncodeExtents(list []Extent, size int64) []byte {
	if n := len(list); n == 0 || list[n-1].Off+list[n-1].Len < size {
		list = append(slices.Clip(list), Extent{Off: size})
	}
	b := strconv.AppendInt(nil, int64(len(list)), 10)
	for _, e := range list {
		b = strconv.AppendInt(append(b, '\n'), e.Off, 10)
		b = strconv.AppendInt(append(b, '\n'), e.Len, 10)
	}
	b = append(b, '\n')
	return append(b, make([]byte, -len(b)&(mapBlock-1))...)
}

// DecodeExtents reads what EncodeExtents wrote for a file of the given size, and
// nothing after it. It refuses a list that is out of order or reaches beyond the
// file.
func DecodeExtents(r io.Reader, size int64) ([]Extent, error) {
	d := extentReader{r: r}
	count, err := d.number()
	if err != nil {
		return nil, err
	}
	if count > MaxExtents+1 {
		return nil, fmt.Errorf("%w: %d parts", ErrExtents, count)
	}
	list := make([]Extent, 0, count)
	end := int64(0)
	for range count {
		var e Extent
		if e.Off, err = d.number(); err != nil {
			return nil, err
		}
		if e.Len, err = d.number(); err != nil {
			return nil, err
		}
		if e.Off < end || e.Len > size-e.Off {
			return nil, fmt.Errorf("%w: out of order", ErrExtents)
		}
		end = e.Off + e.Len
		if e.Len > 0 {
			list = append(list, e)
		}
	}
	return list, nil
}

// extentReader reads the numbers of a list block by block.
type extentReader struct {
	r    io.Reader
	buf  [mapBlock]byte
	left []byte
}

func (d *extentReader) number() (int64, error) {
	var text []byte
	for {
		line, rest, found := bytes.Cut(d.left, []byte{'\n'})
		text = append(text, line...)
		if len(text) > 20 {
			return 0, fmt.Errorf("%w: a number is too long", ErrExtents)
		}
		d.left = rest
		if found {
			break
		}
		if _, err := io.ReadFull(d.r, d.buf[:]); err != nil {
			return 0, err
		}
		d.left = d.buf[:]
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%w: not a number", ErrExtents)
	}
	return n, nil
}

// SendExtents writes the parts of a file to w, one after the other, and the whole
// of its contents, holes included, to sum unless that is nil.
func SendExtents(ctx context.Context, w io.Writer, f *os.File, list []Extent, size int64, sum Sink) error {
	buf := make([]byte, copyBuffer)
	at := int64(0)
	for _, e := range list {
		if err := skipHole(ctx, sum, e.Off-at); err != nil {
			return err
		}
		for at = e.Off; at < e.Off+e.Len; {
			if err := ctx.Err(); err != nil {
				return err
			}
			part := buf[:min(int64(len(buf)), e.Off+e.Len-at)]
			if _, err := f.ReadAt(part, at); err != nil {
				return err
			}
			if _, err := w.Write(part); err != nil {
				return err
			}
			if sum != nil {
				if _, err := sum.Write(part); err != nil {
					return err
				}
			}
			at += int64(len(part))
		}
	}
	return skipHole(ctx, sum, size-at)
}

func skipHole(ctx context.Context, sum Sink, n int64) error {
	if sum == nil || n <= 0 {
		return nil
	}
	return sum.Zeros(ctx, n)
}

// ReceiveExtents fills the new, empty file dst of the given size with parts that
// come one after the other from src. The rest are holes, and so are blocks of
// zeros.
func ReceiveExtents(ctx context.Context, dst *os.File, src io.Reader, list []Extent, size int64) error {
	buf := make([]byte, copyBuffer)
	for _, e := range list {
		for at := e.Off; at < e.Off+e.Len; {
			if err := ctx.Err(); err != nil {
				return err
			}
			// Up to a boundary of blocks, so that a block of zeros is seen whole.
			n := min(int64(len(buf)), e.Off+e.Len-at)
			if past := (at + n) % holeBlock; past < n && at+n < e.Off+e.Len {
				n -= past
			}
			if _, err := io.ReadFull(src, buf[:n]); err != nil {
				if errors.Is(err, io.EOF) {
					err = io.ErrUnexpectedEOF
				}
				return err
			}
			if _, err := writeBlocks(dst, buf[:n], at); err != nil {
				return err
			}
			at += n
		}
	}
	return dst.Truncate(size)
}

// writeBlocks writes the blocks of b that are not all zeros, and returns how much
// of b the last of them takes.
func writeBlocks(f *os.File, b []byte, off int64) (written int, err error) {
	written, err = writeBlocksTo(int(f.Fd()), b, off)
	if err != nil {
		err = &os.PathError{Op: "write", Path: f.Name(), Err: err}
	}
	return written, err
}

func writeBlocksTo(fd int, b []byte, off int64) (written int, err error) {
	next := func(from int) int { // the end of the block that a place is in
		return min(from+holeBlock-int((off+int64(from))%holeBlock), len(b))
	}
	for start := 0; start < len(b); {
		end := start
		for end < len(b) && !allZero(b[end:next(end)]) {
			end = next(end)
		}
		if end > start {
			if err := pwrite(fd, b[start:end], off+int64(start)); err != nil {
				return written, err
			}
			written = end
		}
		if start = end; start < len(b) {
			start = next(start) // the block at end is a hole
		}
	}
	return written, nil
}
