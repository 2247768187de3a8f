package event

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrStop, returned by the callback of Follow, ends Follow without an error.
var ErrStop = errors.New("stop")

// lastNotices are the notices after which nothing will be appended any more.
const lastNotices = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_IGNORED

// Follow calls fn for every record of the journal at name, first the existing
// ones, then each new one, until ctx ends, fn returns an error, or the file is
// removed. It waits for the kernel's notice and never polls. The error is nil
// for ErrStop and a removed file, else ctx's or fn's.
func Follow(ctx context.Context, name string, fn func(Record) error) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("event: follow: %w", err)
	}
	defer func() { _ = f.Close() }()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("event: follow: inotify: %w", err)
	}
	notices := os.NewFile(uintptr(fd), "inotify")
	defer func() { _ = notices.Close() }()
	// Watch by descriptor, so that it is the file that was opened.
	if _, err := unix.InotifyAddWatch(fd, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.IN_MODIFY|unix.IN_ATTRIB|unix.IN_DELETE_SELF|unix.IN_MOVE_SELF); err != nil {
		return fmt.Errorf("event: follow %s: %w", name, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = notices.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	t := &tail{r: bufio.NewReaderSize(f, maxLine)}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.drain(fn); err != nil {
			if errors.Is(err, ErrStop) {
				return nil
			}
			return err
		}
		end, err := await(notices)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("event: follow %s: %w", name, err)
		case end || unlinked(f):
			// Read what was written before the file was removed.
			if err := t.drain(fn); err != nil && !errors.Is(err, ErrStop) {
				return err
			}
			return nil
		}
	}
}

// unlinked reports whether the last name of the file is gone. The kernel sends
// its notice only after the last descriptor is closed, which is ours.
func unlinked(f *os.File) bool {
	var st unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && st.Nlink == 0
}

// tail reads whole lines of a file that grows.
type tail struct {
	r *bufio.Reader
	// part is the start of an incomplete line.
	part []byte
	n    uint64
}

func (t *tail) drain(fn func(Record) error) error {
	for {
		line, err := t.r.ReadSlice('\n')
		t.part = append(t.part, line...)
		switch {
		case len(t.part) > maxLine, errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("%w: line %d is longer than %d bytes", ErrCorrupt, t.n+1, maxLine)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("event: follow: %w", err)
		}
		t.n++
		rec, err := parseRecord(bytes.TrimSuffix(t.part, []byte("\n")))
		if err != nil {
			return fmt.Errorf("%w: line %d: %w", ErrCorrupt, t.n, err)
		}
		t.part = t.part[:0]
		if err := fn(rec); err != nil {
			return err
		}
	}
}

// await blocks until there are notices, and reports whether the file is gone.
func await(notices *os.File) (end bool, err error) {
	buf := make([]byte, 16*(unix.SizeofInotifyEvent+unix.NAME_MAX+1))
	n, err := notices.Read(buf)
	if err != nil {
		return false, err
	}
	for buf = buf[:n]; len(buf) >= unix.SizeofInotifyEvent; {
		mask := binary.NativeEndian.Uint32(buf[4:])
		size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(buf[12:]))
		end = end || mask&lastNotices != 0
		buf = buf[min(size, len(buf)):]
	}
	return end, nil
}
