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
// Two signals beside the runtime's own are left alone for the C library, and end a
// process by default. They get the runtime's handler, which does nothing for them: an
// ignored signal would be inherited by the command, and a handled one is not.
func quietSignals() {
	const (
		highest = 64
		deflt   = 0
		ignore  = 1
		// By this one the runtime calls its threads together. Its handler does
		// nothing when it has not, and unlike an ignored signal a handled one has
		// its default again in the program that is executed. The runtime would not
		// give it back in a forked process.
		threads = 33
	)
	// The kernel's struct sigaction: action, flags, restorer, mask.
	type action [4]uint64
	var handled action
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, threads, 0, uintptr(unsafe.Pointer(&handled)), unsafe.Sizeof(handled[0]), 0, 0)
	for sig := uintptr(1); sig <= highest; sig++ {
		var old action
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, 0, uintptr(unsafe.Pointer(&old)), unsafe.Sizeof(old[0]), 0, 0)
		if sig == threads && old[0] > ignore {
			continue
		}
		next := action{deflt}
		if sig == threads-1 || sig == threads+1 {
			next = handled
		}
		// An ignored SIGCHLD would make children vanish before they are waited for.
		if old[0] > ignore && unix.Signal(sig) != unix.SIGCHLD {
			next[0] = ignore
		}
		// Refused for KILL and STOP only, which the kernel itself keeps away.
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&next)), 0, unsafe.Sizeof(old[0]), 0, 0)
	}
}
