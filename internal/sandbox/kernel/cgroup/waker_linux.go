package cgroup

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// waker waits for files of the kernel to change, until a context ends.
type waker struct {
	file *os.File
	stop func() bool
}

func newWaker(ctx context.Context) (*waker, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	w := &waker{file: os.NewFile(uintptr(fd), "eventfd")}
	w.stop = context.AfterFunc(ctx, func() {
		_, _ = w.file.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0})
	})
	return w, nil
}

func (w *waker) close() {
	w.stop()
	_ = w.file.Close()
}

// wait returns when one of the files has changed since it was last read, or one
// of the event counters is above 0, or after the time-out in milliseconds, if it
// is not negative. ctx is the one that the waker was made with.
func (w *waker) wait(ctx context.Context, files, counters []int, timeout int) error {
	set := make([]unix.PollFd, 0, len(files)+len(counters)+1)
	for _, fd := range files {
		set = append(set, unix.PollFd{Fd: int32(fd), Events: unix.POLLPRI})
	}
	for _, fd := range counters {
		set = append(set, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	raw, err := w.file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) {
		set = append(set, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		inner = retryInterrupted(func() error {
			_, err := unix.Poll(set, timeout)
			return err
		})
	})
	if err != nil {
		return err
	}
	if inner != nil {
		return os.NewSyscallError("poll", inner)
	}
	return ctx.Err()
}
