// Package terminaltest makes terminals for tests. It knows files, and no commands.
package terminaltest

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/terminal"
)

// Open makes a terminal. A read of its master can be ended by closing it.
func Open() (master, slave *os.File, err error) {
	m, s, err := terminal.Open()
	if err != nil {
		return nil, nil, fmt.Errorf("make a terminal: %w", err)
	}
	if err := unix.SetNonblock(m, true); err != nil {
		_, _ = unix.Close(m), unix.Close(s)
		return nil, nil, fmt.Errorf("make a terminal: %w", err)
	}
	return os.NewFile(uintptr(m), "master"), os.NewFile(uintptr(s), "slave"), nil
}

// Size sets the size of the terminal that a file is a side of.
func Size(f *os.File, rows, cols uint16) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return fmt.Errorf("size of a terminal: %w", err)
	}
	var sized error
	if err := raw.Control(func(fd uintptr) {
		sized = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	}); err != nil {
		return fmt.Errorf("size of a terminal: %w", err)
	}
	return sized
}
