package native

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// knownProcess is a process that is held by a descriptor: a number alone may be another
// process's by the time that it is used. It is safe for concurrent use.
type knownProcess struct {
	pid  int // on the host; no other process's while this one lives
	file *os.File
}

// openProcess returns the process that has this number now.
func openProcess(pid int) (*knownProcess, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", pid, err)
	}
	return &knownProcess{pid, os.NewFile(uintptr(fd), "process")}, nil
}

// openStarted returns the process that has this number and start time: see
// startTime. ESRCH means that it has ended.
func openStarted(pid int, ticks uint64) (*knownProcess, error) {
	k, err := openProcess(pid)
	if err != nil {
		return nil, err
	}
	// The number may have become another process's before it was opened.
	if now, err := startTime(pid); err != nil || now != ticks {
		k.close()
		return nil, fmt.Errorf("process %d: %w", pid, unix.ESRCH)
	}
	return k, nil
}

// signalStarted sends a signal to the process that has this number and start time.
func signalStarted(pid int, ticks uint64, sig unix.Signal) error {
	k, err := openStarted(pid, ticks)
	if err != nil {
		return err
	}
	defer k.close()
	return k.signal(sig)
}

// signal sends a signal. ESRCH means that the process has ended and was reaped.
func (k *knownProcess) signal(sig unix.Signal) error {
	return k.with(func(fd int) error { return unix.PidfdSendSignal(fd, sig, nil, 0) })
}

// isAlive reports whether the process has not ended.
func (k *knownProcess) isAlive() bool {
	return k != nil && k.with(func(fd int) error {
		if hasEnded(fd) {
			return unix.ESRCH
		}
		return nil
	}) == nil
}

// is reports whether a number is that of the process, which lives.
func (k *knownProcess) is(pid int) bool { return k != nil && k.pid == pid && k.isAlive() }

// with calls f with the descriptor, which is not closed meanwhile.
func (k *knownProcess) with(f func(fd int) error) error {
	raw, err := k.file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = f(int(fd)) }); err != nil {
		return err
	}
	return failed
}

func (k *knownProcess) close() {
	if k != nil {
		_ = k.file.Close()
	}
}
