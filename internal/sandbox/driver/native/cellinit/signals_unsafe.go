//go:build linux

package cellinit

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// quietSignals keeps signals from inside the cell away from the init, past the
// Go runtime, whose handlers would end it.
//
// What the runtime handles is ignored from now on: the runtime gives it back
// its default in every process that it forks, so the command does not inherit
// that. What the runtime leaves alone, which is what the caller may have
// ignored, gets its default. A default alone would not do for the rest: the
// kernel spares a namespace's first process, but not while it has a signal
// blocked, as it has during a fork. os/signal would take a millisecond for this.
//
// Signals that the runtime leaves to the C library end a process by default. They get a
// handler that does nothing: an ignored signal would be inherited by the command, and a
// handled one is not. The runtime's own handler will not do. It ends the program for a
// signal that the runtime has not installed it for.
func quietSignals() {
	const (
		highest = 64
		deflt   = 0
		ignore  = 1
		// By this one the runtime calls its threads together, unless the C library is
		// linked. Its handler does nothing when it has not, and the runtime would not
		// give an ignored one back in a forked process. The C library has its
		// neighbours, too.
		threads = 33
	)
	// The kernel's struct sigaction: action, flags, restorer, mask.
	type action [4]uint64
	// As the runtime handles signals, with its way back from a handler.
	var nothing action
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGURG), 0, uintptr(unsafe.Pointer(&nothing)), unsafe.Sizeof(nothing[0]), 0, 0)
	nothing[0] = uint64(nothingAddress())
	for sig := uintptr(1); sig <= highest; sig++ {
		var old action
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, 0, uintptr(unsafe.Pointer(&old)), unsafe.Sizeof(old[0]), 0, 0)
		if sig == threads && old[0] > ignore {
			continue
		}
		next := action{deflt}
		switch {
		case threads-1 <= sig && sig <= threads+1:
			next = nothing
		// An ignored SIGCHLD would make children vanish before they are waited for.
		case old[0] > ignore && unix.Signal(sig) != unix.SIGCHLD:
			next[0] = ignore
		}
		// Refused for KILL and STOP only, which the kernel itself keeps away.
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&next)), 0, unsafe.Sizeof(old[0]), 0, 0)
	}
}
