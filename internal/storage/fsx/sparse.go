package fsx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

const (
	// copyBuffer is the most that is read at once.
	copyBuffer = 256 << 10
	// kernelCopy is the most that the kernel copies before the context is checked.
	kernelCopy = 64 << 20
	// smallFile is the size up to which a file is read whole, holes included. While
	// the kernel writes a new file to disk, the file can seem to have no blocks for an
	// instant, and some kernels then report data as a hole. Reading is always right,
	// and for a small file it is not slower.
	smallFile = copyBuffer
)

// Sink gets the contents of a file in order: bytes, and the lengths of holes.
type Sink interface {
	io.Writer
	// Zeros is called in the place of writing n zero bytes.
	Zeros(ctx context.Context, n int64) error
}

// ReadSparse writes the whole of a file to a sink, whatever the file's offset, and
// returns the size. Holes of large files are not read. It ends when ctx does.
func ReadSparse(ctx context.Context, src *os.File, to Sink) (int64, error) {
	c := copier{ctx: ctx, dst: -1, src: int(src.Fd()), h: to}
	n, err := c.read()
	runtime.KeepAlive(src)
	if err != nil {
		return n, fmt.Errorf("read %s: %w", src.Name(), err)
	}
	return n, nil
}

// CopySparse copies the whole of src to the new, empty file dst, whatever their
// offsets, and returns the size. Holes stay holes; where the file system can
// share blocks, nothing is copied. h, unless nil, gets the contents of the copy.
// The copy of a file that changes meanwhile is a mixture: callers compare times
// before and after. It ends when ctx does.
func CopySparse(ctx context.Context, dst, src *os.File, h Sink) (int64, error) {
	c := copier{ctx: ctx, dst: int(dst.Fd()), src: int(src.Fd()), h: h}
	n, err := c.copy()
	runtime.KeepAlive(dst)
	runtime.KeepAlive(src)
	if err != nil {
		return n, fmt.Errorf("copy %s: %w", src.Name(), err)
	}
	return n, nil
}

// copier reads src. It writes what it reads to dst, unless that is negative, and
// to h, unless that is nil.
type copier struct {
	ctx      context.Context //nolint:containedctx // lives as long as the one call
	dst, src int
	h        Sink
	size     int64  // of src, when it was opened
	buf      []byte // see buffer
	byHand   bool   // the kernel does not copy between these files
}

func (c *copier) copy() (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(c.src, &st); err != nil {
		return 0, err
	}
	if st.Size == 0 || !c.canClone() || unix.IoctlFileClone(c.dst, c.src) != nil {
		return c.read()
	}
	if c.h == nil {
		err := unix.Fstat(c.dst, &st)
		return st.Size, err
	}
	// What is hashed must be the copy itself.
	c.src, c.dst = c.dst, -1
	return c.read()
}

// canClone: a clone that has to be hashed must be readable.
func (c *copier) canClone() bool {
	if c.h == nil {
		return true
	}
	flags, err := unix.FcntlInt(uintptr(c.dst), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE == unix.O_RDWR
}

func (c *copier) read() (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(c.src, &st); err != nil {
		return 0, err
	}
	c.size = st.Size
	if st.Blocks*512 >= st.Size || st.Size <= smallFile && c.dst < 0 {
		return c.dense(0, -1)
	}
	if st.Size <= smallFile {
		return c.small()
	}
	settleHoles(c.src)
	return c.sparse()
}

// settleHoles has the data of a file written to disk: while that happens, some kernels
// report data as a hole. Where it fails, holes are found as well as the kernel can.
func settleHoles(fd int) {
	_ = unix.SyncFileRange(fd, 0, 0, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
}

// small copies a small file. Blocks of zeros become holes.
func (c *copier) small() (int64, error) {
	at := int64(0)
	for {
		if err := c.ctx.Err(); err != nil {
			return at, err
		}
		buf := c.buffer(copyBuffer)
		n, err := pread(c.src, buf, at)
		if err != nil || n == 0 {
			return at, errors.Join(err, retry(func() error { return unix.Ftruncate(c.dst, at) }))
		}
		if _, err := writeBlocksTo(c.dst, buf[:n], at); err != nil {
			return at, err
		}
		if c.h != nil {
			if _, err := c.h.Write(buf[:n]); err != nil {
				return at, err
			}
		}
		at += int64(n)
	}
}

// sparse reads data region by data region.
func (c *copier) sparse() (int64, error) {
	at := int64(0)
	for {
		if err := c.ctx.Err(); err != nil {
			return at, err
		}
		data, err := unix.Seek(c.src, at, unix.SEEK_DATA)
		if err == unix.ENXIO { //nolint:errorlint // straight from the kernel
			return c.tail(at)
		}
		if err != nil {
			return at, err
		}
		hole, err := unix.Seek(c.src, data, unix.SEEK_HOLE)
		if err != nil {
			return at, err
		}
		if err := c.zeros(data - at); err != nil {
			return at, err
		}
		if at, err = c.dense(data, hole); err != nil {
			return at, err
		}
		if at < hole { // the file became shorter
			return at, nil
		}
	}
}

// tail ends a file whose rest is a hole.
func (c *copier) tail(at int64) (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(c.src, &st); err != nil {
		return at, err
	}
	if st.Size <= at {
		return at, nil
	}
	if err := c.zeros(st.Size - at); err != nil || c.dst < 0 {
		return st.Size, err
	}
	return st.Size, retry(func() error { return unix.Ftruncate(c.dst, st.Size) })
}

// dense reads from one offset to another, or to the end (-1), and returns where
// it stopped.
func (c *copier) dense(at, end int64) (int64, error) {
	for end < 0 || at < end {
		if err := c.ctx.Err(); err != nil {
			return at, err
		}
		limit := int64(kernelCopy)
		if end >= 0 {
			limit = min(limit, end-at)
		}
		if n, ok := c.inKernel(at, limit); ok {
			if at += n; n == 0 {
				return at, nil
			}
			continue
		}
		buf := c.buffer(limit)
		n, err := pread(c.src, buf, at)
		if err != nil || n == 0 {
			return at, err
		}
		if err := c.put(buf[:n], at); err != nil {
			return at, err
		}
		at += int64(n)
	}
	return at, nil
}

// inKernel copies at most limit bytes without reading them, and returns how many;
// 0 is the end of the file. It cannot if a sink wants the contents, or if the
// files do not allow it.
func (c *copier) inKernel(at, limit int64) (n int64, ok bool) {
	if c.h != nil || c.byHand {
		return 0, false
	}
	from, to := at, at
	done, err := unix.CopyFileRange(c.src, &from, c.dst, &to, int(limit), 0)
	if c.byHand = err != nil || done == 0 && at == 0; c.byHand {
		return 0, false
	}
	return int64(done), true
}

// buffer returns where to read at most limit bytes into. One byte more than the
// file shows its end without a second buffer.
func (c *copier) buffer(limit int64) []byte {
	if c.buf == nil {
		c.buf = make([]byte, min(max(c.size+1, 512), copyBuffer))
	}
	return c.buf[:min(int64(len(c.buf)), limit)]
}

func (c *copier) put(buf []byte, at int64) error {
	if c.dst >= 0 {
		if err := pwrite(c.dst, buf, at); err != nil {
			return err
		}
	}
	if c.h == nil {
		return nil
	}
	_, err := c.h.Write(buf)
	return err
}

func pread(fd int, buf []byte, at int64) (n int, err error) {
	for {
		n, err = unix.Pread(fd, buf, at)
		if err != unix.EINTR {
			return n, err
		}
	}
}

func pwrite(fd int, buf []byte, at int64) error {
	for len(buf) > 0 {
		n, err := unix.Pwrite(fd, buf, at)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrShortWrite
		}
		buf, at = buf[n:], at+int64(n)
	}
	return nil
}

func (c *copier) zeros(n int64) error {
	if c.h == nil || n == 0 {
		return nil
	}
	return c.h.Zeros(c.ctx, n)
}

// WriteSparse copies a stream to the new, empty file dst, with holes where whole
// blocks of it are zero, and to h unless that is nil. It returns the size.
func WriteSparse(ctx context.Context, dst *os.File, src io.Reader, h io.Writer) (int64, error) {
	buf := make([]byte, 64<<10)
	at, ends := int64(0), int64(0)
	for {
		if err := ctx.Err(); err != nil {
			return at, err
		}
		n, err := io.ReadFull(src, buf)
		if h != nil {
			if _, err := h.Write(buf[:n]); err != nil {
				return at, err
			}
		}
		written, writeErr := writeBlocks(dst, buf[:n], at)
		if writeErr != nil {
			return at, writeErr
		}
		if written > 0 {
			ends = at + int64(written)
		}
		at += int64(n)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			if ends < at {
				return at, dst.Truncate(at)
			}
			return at, nil
		case err != nil:
			return at, err
		}
	}
}

// allZero reports whether all bytes are zero.
func allZero(b []byte) bool {
	for len(b) >= 8 {
		if b[0]|b[1]|b[2]|b[3]|b[4]|b[5]|b[6]|b[7] != 0 {
			return false
		}
		b = b[8:]
	}
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}
