package capture

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// answer is the kernel's answer to one message.
type answer struct {
	seq   int
	errno unix.Errno
}

type answers []answer

// of returns the first answer to a message.
func (a answers) of(seq int) (unix.Errno, bool) {
	for _, x := range a {
		if x.seq == seq {
			return x.errno, true
		}
	}
	return 0, false
}

// exchange sends messages in one piece and returns the answers. The kernel
// handles them before the send returns, so all answers are available then and
// there is no wait.
func exchange(protocol int, messages string) (answers, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil, fmt.Errorf("netlink: %w: %w", ErrUnsupported, err)
	}
	if err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Sendto(fd, []byte(messages), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	var all answers
	buf := make([]byte, 8<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return all, nil
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, fmt.Errorf("receive: %w", err)
		}
		if all, err = parseAnswers(all, buf[:n]); err != nil {
			return nil, err
		}
	}
}

var errMalformed = errors.New("malformed answer")

// parseAnswers reads acknowledgements, the only messages that are requested.
func parseAnswers(all answers, b []byte) (answers, error) {
	for len(b) > 0 {
		if len(b) < unix.SizeofNlMsghdr+4 {
			return nil, errMalformed
		}
		size := int(binary.NativeEndian.Uint32(b))
		if size < unix.SizeofNlMsghdr+4 || size > len(b) || binary.NativeEndian.Uint16(b[4:]) != unix.NLMSG_ERROR {
			return nil, errMalformed
		}
		errno := int32(binary.NativeEndian.Uint32(b[unix.SizeofNlMsghdr:]))
		if errno > 0 || errno < -4095 {
			return nil, errMalformed
		}
		all = append(all, answer{seq: int(binary.NativeEndian.Uint32(b[8:])), errno: unix.Errno(-errno)})
		b = b[min((size+3)&^3, len(b)):]
	}
	return all, nil
}
