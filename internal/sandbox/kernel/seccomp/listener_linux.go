package seccomp

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/syscalls"
)

// Notice is one call that was handed over.
type Notice struct {
	// PID is the thread that made the call, as the listener's process sees it;
	// 0 if it cannot.
	PID  int
	Name string
	Args [6]uint64
	// Denied is the error that the call gives; 0 if it goes on.
	Denied unix.Errno
}

// Listener answers the calls that a filter hands over.
type Listener struct {
	file   *os.File
	conn   syscall.RawConn
	notice notification
	closed atomic.Bool
}

// NewListener takes over the descriptor that Install gave, in whatever process.
// On an error the descriptor is closed; the calls give ENOSYS then.
func NewListener(fd int) (*Listener, error) {
	l, err := newListener(fd)
	if err != nil {
		return nil, fmt.Errorf("seccomp listener: %w", err)
	}
	return l, nil
}

func newListener(fd int) (*Listener, error) {
	// Not blocking, so that the file waits in the runtime's poller and Close
	// ends the wait.
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("not blocking: %w", err)
	}
	l := &Listener{file: os.NewFile(uintptr(fd), "seccomp listener")}
	var err error
	if l.conn, err = l.file.SyscallConn(); err == nil {
		l.notice, err = newNotification()
	}
	if err != nil {
		_ = l.file.Close()
		return nil, err
	}
	// Saves a trip through the scheduler's queue for each call. Since Linux 6.6;
	// without it everything works as well.
	_ = wakeSynchronously(fd)
	return l, nil
}

// Close ends Serve. Calls that wait for an answer, and all later ones of that
// kind, give ENOSYS.
func (l *Listener) Close() error {
	l.closed.Store(true)
	return l.file.Close()
}

// Serve calls each for every call that is handed over, and then lets it return
// its error, or, if it is of [Connects], go on. The caller's thread stands still
// meanwhile, so its /proc entry can be looked at, and each should be quick. No
// denied call ever continues.
//
// Serve returns nil after Close, and when no process is left under the filter
// (Linux 5.9 and newer).
func (l *Listener) Serve(each func(Notice)) error {
	for {
		var got receiveResult
		var failed error
		err := l.conn.Read(func(fd uintptr) bool {
			got, failed = l.receive(int(fd))
			return failed != nil || got != nothing
		})
		switch {
		case l.closed.Load() || got == ended:
			return nil
		case err != nil:
			return fmt.Errorf("seccomp listener: wait: %w", err)
		case failed != nil:
			return fmt.Errorf("seccomp listener: receive: %w", failed)
		}
		n := l.notice.read()
		each(n)
		if err := l.answer(n.Denied); err != nil {
			return fmt.Errorf("seccomp listener: answer: %w", err)
		}
	}
}

// receiveResult is the result of one look at the descriptor.
type receiveResult uint8

const (
	nothing receiveResult = iota
	one
	ended
)

func (l *Listener) receive(fd int) (receiveResult, error) {
	for {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		_, err := unix.Poll(fds, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nothing, err
		case fds[0].Revents&unix.POLLIN == 0 && fds[0].Revents&unix.POLLHUP != 0:
			return ended, nil
		case fds[0].Revents&unix.POLLIN == 0:
			return nothing, nil
		}
		switch err := l.notice.receive(fd); {
		case err == nil:
			return one, nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOENT):
			// The caller died between the two.
			continue
		default:
			return nothing, err
		}
	}
}

// Waiting reports whether the thread of the notice that is being served still
// waits for its answer. If so, what was found out about it so far was about it
// and not about another process of the same number. It is for Serve's function.
func (l *Listener) Waiting() bool {
	var failed error
	err := l.conn.Control(func(fd uintptr) { failed = l.notice.isWaiting(int(fd)) })
	return err == nil && failed == nil
}

func (l *Listener) answer(denied unix.Errno) error {
	var failed error
	err := l.conn.Control(func(fd uintptr) { failed = l.notice.answer(int(fd), denied) })
	switch {
	case l.closed.Load(), errors.Is(failed, unix.ENOENT):
		return nil // the caller died, or Close has answered
	case err != nil:
		return err
	}
	return failed
}

// handedOver names a call and its answer. What is neither watched nor in the deny
// set would not have come here; it is refused all the same.
func handedOver(audit uint32, number int) (string, unix.Errno) {
	for _, arch := range syscalls.Arches() {
		if auditArch(arch) != audit {
			continue
		}
		if name, ok := syscalls.Name(arch, number); ok {
			if name == watchedCall {
				return name, 0
			}
			rule, _ := syscalls.Denied(name)
			return name, errno(rule.Action)
		}
	}
	return fmt.Sprintf("call %d", number), unix.EPERM
}
