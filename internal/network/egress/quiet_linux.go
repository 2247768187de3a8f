package egress

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// isBroken reports whether nothing can be sent on a connection any more. A program
// that has closed its socket looks like one that still reads, until the kernel
// has dropped that socket, which takes a minute, and something is sent to it. So
// keep-alive probes are sent when the program sends nothing more.
func isBroken(c net.Conn) bool {
	raw, ok := socket(c)
	if !ok {
		return false
	}
	lost := false
	err := raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		if n, err := unix.Poll(p, 0); n <= 0 || err != nil {
			return
		}
		lost = p[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
		for _, option := range []int{unix.TCP_KEEPIDLE, unix.TCP_KEEPINTVL} {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, option, 1)
		}
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	})
	return lost || err != nil
}

// socket returns the socket below a connection.
func socket(c net.Conn) (syscall.RawConn, bool) {
	for {
		under, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		c = under.NetConn()
	}
	s, ok := c.(syscall.Conn)
	if !ok {
		return nil, false
	}
	raw, err := s.SyscallConn()
	return raw, err == nil
}

// isQuiet reports whether a socket is open and has received nothing.
func isQuiet(raw syscall.RawConn) bool {
	if raw == nil {
		return false
	}
	open := false
	err := raw.Control(func(fd uintptr) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN | unix.POLLRDHUP}}, 0)
		open = n == 0 && err == nil
	})
	return err == nil && open
}
