// Package terminal makes terminals and reads their output to its true end. It knows
// the two sides of a terminal, and neither the commands on it nor who watches them.
package terminal

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// Open makes a terminal in the devpts that is mounted at /dev/pts. Its master gets
// what is written to the slave, and what is typed is written to the master.
func Open() (master, slave int, err error) {
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	master, err = unix.Open("/dev/ptmx", flags, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("open /dev/ptmx: %w", err)
	}
	if slave, err = openSlave(master, flags); err != nil {
		_ = unix.Close(master)
		return -1, -1, err
	}
	return master, slave, nil
}

func openSlave(master, flags int) (int, error) {
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return -1, fmt.Errorf("unlock: %w", err)
	}
	number, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return -1, fmt.Errorf("number: %w", err)
	}
	slave, err := unix.Open(fmt.Sprintf("/dev/pts/%d", number), flags, 0)
	if err != nil {
		return -1, fmt.Errorf("open: %w", err)
	}
	return slave, nil
}

// Output returns a reader of what is written to the slave of a terminal. It ends with
// io.EOF when no process has the slave open and everything was read.
//
// A read of a master fails with EIO at the end, but also a moment before: the kernel
// looks for output first, and then for who has the slave open. What is written between
// the two, by one who then closes the slave, is returned by the next read. So only the
// second of two such failures is the end.
func Output(master io.Reader) io.Reader { return &output{master} }

type output struct{ master io.Reader }

func (o *output) Read(p []byte) (int, error) {
	n, err := o.master.Read(p)
	if n == 0 && errors.Is(err, unix.EIO) {
		n, err = o.master.Read(p)
	}
	if errors.Is(err, unix.EIO) {
		err = io.EOF
	}
	return n, err
}
