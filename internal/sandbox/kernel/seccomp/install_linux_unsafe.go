//go:build linux

package seccomp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// setFilter returns the listener's descriptor if the flags ask for one.
func setFilter(flags uint, program []unix.SockFilter) (int, error) {
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: unsafe.SliceData(program)}
	fd, _, no := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, uintptr(flags), uintptr(unsafe.Pointer(&prog)))
	if no != 0 {
		return -1, no
	}
	return int(fd), nil
}
