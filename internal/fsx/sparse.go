package fsx

import (
	"fmt"
	"io"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// copyBuffer is the most that is read at once.
const copyBuffer = 256 << 10

// CopySparse copies the whole of src to the new, empty file dst, whatever their
// offsets, and returns the size. Holes stay holes; where the file system can
// share blocks, nothing is copied. h, unless nil, gets every logical byte of
// the copy, zeros of holes included. A file that changes meanwhile gives a
// mixture: callers compare times before and after.
func CopySparse(dst, src *os.File, h io.Writer) (int64, error) {
	c := copier{dst: int(dst.Fd()), src: int(src.Fd()), h: h}
	n, err := c.run()
	runtime.KeepAlive(dst)
	runtime.KeepAlive(src)
	if err != nil {
		return n, fmt.Errorf("copy %s: %w", src.Name(), err)
	}
	return n, nil
}

type copier struct {
	dst, src int
	h        io.Writer
	buf      []byte
	zeros    []byte
}

func (c *copier) run() (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(c.src, &st); err != nil {
		return 0, err
	}
	if st.Size > 0 && c.canClone() && unix.IoctlFileClone(c.dst, c.src) == nil {
		return c.hashClone()
	}
	// One byte more than the file shows its end without a second buffer.
	c.buf = make([]byte, min(max(st.Size+1, 512), copyBuffer))
	if st.Blocks*512 >= st.Size {
		return c.dense(0, -1)
	}
	return c.sparse()
}

// canClone: what is hashed must be the copy itself, so a clone must be readable.
func (c *copier) canClone() bool {
	if c.h == nil {
		return true
	}
	flags, err := unix.FcntlInt(uintptr(c.dst), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_ACCMODE == unix.O_RDWR
}

func (c *copier) hashClone() (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(c.dst, &st); err != nil || c.h == nil {
		return st.Size, err
	}
	c.buf = make([]byte, min(max(st.Size+1, 512), copyBuffer))
	for at := int64(0); ; {
		n, err := c.pread(c.dst, c.buf, at)
		if err != nil || n == 0 {
			return at, err
		}
		if _, err := c.h.Write(c.buf[:n]); err != nil {
			return at, err
		}
		at += int64(n)
	}
}

// sparse copies data region by data region.
func (c *copier) sparse() (int64, error) {
	at := int64(0)
	for {
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
		if err := c.hashZeros(data - at); err != nil {
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

// tail ends a copy whose rest is a hole.
func (c *copier) tail(at int64) (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(c.src, &st); err != nil {
		return at, err
	}
	if st.Size <= at {
		return at, nil
	}
	if err := c.hashZeros(st.Size - at); err != nil {
		return at, err
	}
	return st.Size, retry(func() error { return unix.Ftruncate(c.dst, st.Size) })
}

// dense copies from one offset to another, or to the end (-1), and returns
// where it stopped.
func (c *copier) dense(at, end int64) (int64, error) {
	for end < 0 || at < end {
		buf := c.buf
		if end >= 0 {
			buf = buf[:min(int64(len(buf)), end-at)]
		}
		n, err := c.pread(c.src, buf, at)
		if err != nil || n == 0 {
			return at, err
		}
		if err := c.pwrite(buf[:n], at); err != nil {
			return at, err
		}
		if c.h != nil {
			if _, err := c.h.Write(buf[:n]); err != nil {
				return at, err
			}
		}
		at += int64(n)
	}
	return at, nil
}

func (c *copier) pread(fd int, buf []byte, at int64) (n int, err error) {
	for {
		n, err = unix.Pread(fd, buf, at)
		if err != unix.EINTR {
			return n, err
		}
	}
}

func (c *copier) pwrite(buf []byte, at int64) error {
	for len(buf) > 0 {
		n, err := unix.Pwrite(c.dst, buf, at)
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

func (c *copier) hashZeros(n int64) error {
	if c.h == nil {
		return nil
	}
	if c.zeros == nil && n > 0 {
		c.zeros = make([]byte, copyBuffer)
	}
	for n > 0 {
		part := c.zeros[:min(int64(len(c.zeros)), n)]
		if _, err := c.h.Write(part); err != nil {
			return err
		}
		n -= int64(len(part))
	}
	return nil
}
