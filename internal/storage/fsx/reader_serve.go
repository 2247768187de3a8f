package fsx

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// readerSocket is where the reader finds its end of the socket pair.
const readerSocket = 3

// readerFlags are the only flags that a request may have: all of them read.
const readerFlags = unix.O_RDONLY | unix.O_PATH | unix.O_DIRECTORY | unix.O_NONBLOCK | unix.O_NOCTTY

// ServeReader is the main loop of the elevated reader. It does not return: the
// process ends when its caller does.
func ServeReader() {
	unix.CloseOnExec(readerSocket)
	buf := make([]byte, maxMessage)
	for {
		msg, fd, err := receive(readerSocket, buf)
		if err != nil {
			os.Exit(0)
		}
		payload, opened, err := answer(msg, fd)
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		if errors.Is(err, errBroken) {
			os.Exit(1)
		}
		var errno unix.Errno
		if err != nil && !errors.As(err, &errno) {
			errno = unix.EIO
		}
		var rights []byte
		if opened >= 0 {
			rights = unix.UnixRights(opened)
		}
		err = retry(func() error {
			return unix.Sendmsg(readerSocket, encodeAnswer(errno, payload), rights, nil, unix.MSG_NOSIGNAL)
		})
		if opened >= 0 {
			_ = unix.Close(opened)
		}
		if err != nil {
			os.Exit(0)
		}
	}
}

func answer(msg []byte, fd int) (payload []byte, opened int, err error) {
	q, err := decodeRequest(msg)
	if err != nil {
		return nil, -1, err
	}
	if q.op == opHello {
		return nil, -1, nil
	}
	if fd < 0 {
		return nil, -1, errBroken
	}
	switch q.op {
	case opOpen:
		if CheckPath(q.name) != nil {
			return nil, -1, unix.EINVAL
		}
		opened, err = openDirect(fd, q.name, int(q.flags)&readerFlags)
		return nil, opened, err
	case opRoot:
		opened, err = unix.Openat(fd, q.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return nil, opened, err
	case opXattr:
		if CheckPath(q.name) != nil {
			return nil, -1, unix.EINVAL
		}
		payload, err = grow(256, func(b []byte) (int, error) { return readerXattr(place{fd: fd, name: q.name}, q.attr, b) })
		return payload, -1, err
	default:
		return nil, -1, errBroken
	}
}

func readerXattr(p place, attr string, buf []byte) (int, error) {
	if attr == "" {
		return p.listAttrs(buf)
	}
	return p.getAttr(attr, buf)
}
