package mountfd

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// MostHeld is more than a pipe or a terminal holds, unless root has raised the limit.
const MostHeld = 1 << 20

// Output returns a reader of a command's stream. When the deadline of the file has passed,
// it reads what the stream holds, and does not wait for more: what a command wrote before
// it ended is there, also when the caller was too slow to take it in time. There is an end
// to it even if a process that the command left behind writes on.
func Output(from *os.File) io.Reader { return &output{from: from, left: MostHeld} }

type output struct {
	from   *os.File
	passed bool
	left   int
}

func (o *output) Read(p []byte) (int, error) {
	if !o.passed {
		n, err := o.from.Read(p)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		o.passed = true
	}
	p = p[:min(len(p), o.left)]
	if len(p) == 0 {
		return 0, io.EOF
	}
	n, err := readNow(o.from, p)
	switch {
	case err != nil && !errors.Is(err, unix.EAGAIN):
		return 0, err
	case n <= 0:
		return 0, io.EOF
	}
	o.left -= n
	return n, nil
}

// readNow reads from a file whatever its deadline is. Only a descriptor that does not block
// has one.
func readNow(f *os.File, p []byte) (n int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	if failed := raw.Control(func(fd uintptr) {
		for n, err = unix.Read(int(fd), p); errors.Is(err, unix.EINTR); {
			n, err = unix.Read(int(fd), p)
		}
	}); failed != nil {
		return 0, failed
	}
	return n, err
}
