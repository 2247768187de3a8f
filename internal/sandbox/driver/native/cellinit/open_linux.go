package cellinit

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

// open opens a file for the host side and sends its descriptor. It runs on the main
// thread, so it reaches what a command reaches, and nothing else.
func (e *executor) open(o *protocol.OpenOrder) error {
	fd, err := openRegular(string(o.Path))
	if err != nil {
		return fault.At("open", err)
	}
	defer mountfd.CloseAll([]int{fd})
	return e.c.Write(&protocol.Report{Kind: protocol.Opened, Exec: o.ID}, fd)
}

// openRegular opens a regular file for reading. It follows links of the cell, but not
// those of /proc, which lead to what this process has open. It never waits: neither
// for the other end of a pipe nor for the holder of a lease. A pipe that is no file
// is not opened, so that no writer is woken.
func openRegular(name string) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	at, err := unix.Openat2(unix.AT_FDCWD, name, &how)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return -1, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return -1, errors.New("not a regular file")
	}
	// The name may lead to another file by now. The host side looks at what it gets.
	how.Flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	return unix.Openat2(unix.AT_FDCWD, name, &how)
}
