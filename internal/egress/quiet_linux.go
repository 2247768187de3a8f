package egress

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// gone waits until a connection on which nothing more will be received is
// broken, and then returns err; or until its read deadline. A program that has
// closed its socket looks like one that still reads, until the kernel has
// dropped that socket, which takes a minute, and something is sent to it.
// Keep-alive probes are sent when there is no other data.
func gone(c net.Conn, err error) error {
	raw, ok := socket(c)
	if !ok {
		return err
	}
	_ = raw.Control(func(fd uintptr) {
		for _, option := range []int{unix.TCP_KEEPIDLE, unix.TCP_KEEPINTVL} {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, option, 1)
		}
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	})
	late := raw.Read(func(fd uintptr) bool {
		p := []unix.PollFd{{Fd: int32(fd)}}
		n, bad := unix.Poll(p, 0)
		return bad != nil || n > 0
	})
	if late != nil {
		return late
	}
	return err
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

// quiet reports whether a socket is open and has received nothing.
func quiet(raw syscall.RawConn) bool {
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
