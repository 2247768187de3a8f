package seccomp

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Install puts the filter on the calling thread, from where processes and
// threads that it starts inherit it. The thread must be locked to its goroutine
// and have no_new_privs. The flags are further ones of seccomp(2).
//
// The result is the descriptor of the listener if the filter asks for one, else
// -1. It is also -1 if the kernel has no listener to give: it is too old, or the
// thread already has one from outside. The plain filter is on the thread then.
func (f Filter) Install(flags uint) (listener int, err error) {
	if len(f.program) == 0 {
		return -1, fmt.Errorf("seccomp: %w: no program", unix.EINVAL)
	}
	if f.notify == 0 {
		_, err := setFilter(flags, f.program)
		if err != nil {
			return -1, fmt.Errorf("seccomp: %w", err)
		}
		return -1, nil
	}
	// Killable: a call that waits for its answer must not be restarted at every
	// signal, which would repeat the notice. Since Linux 5.19.
	for _, extra := range []uint{
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER,
	} {
		fd, err := setFilter(flags|extra, f.program)
		switch {
		case err == nil:
			return fd, nil
		case errors.Is(err, unix.EINVAL):
			continue
		case errors.Is(err, unix.EBUSY):
			return f.plain().Install(flags)
		}
		return -1, fmt.Errorf("seccomp with listener: %w", err)
	}
	return f.plain().Install(flags)
}
