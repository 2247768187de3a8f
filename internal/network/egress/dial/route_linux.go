package dial

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// isOtherHost reports whether the kernel would route a connection to an address
// to one other host. It is false for all addresses of this host's interfaces,
// for ranges that are routed to it, and for the broadcast addresses of its
// networks. An address without a route counts as elsewhere: connecting to it
// fails with the reason.
func isOtherHost(a netip.Addr) (bool, error) {
	if a.Is6() && !haveIPv6() {
		return true, nil
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return false, fmt.Errorf("netlink socket: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, routeRequest(a), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return false, fmt.Errorf("ask for the route: %w", err)
	}
	buf := make([]byte, 4096)
	for {
		n, from, err := unix.Recvfrom(fd, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("read the route: %w", err)
		}
		// Other processes may send to the socket; only the kernel has port 0.
		if nl, ok := from.(*unix.SockaddrNetlink); ok && nl.Pid == 0 {
			return routeAnswer(buf[:n])
		}
	}
}

// routeRequest is an RTM_GETROUTE message for one destination: the header, an
// rtmsg, and the address as its only attribute.
func routeRequest(a netip.Addr) []byte {
	family, ip := byte(unix.AF_INET6), a.AsSlice()
	if a.Is4() {
		family = unix.AF_INET
	}
	size := unix.SizeofNlMsghdr + unix.SizeofRtMsg + unix.SizeofRtAttr + len(ip)
	order := binary.NativeEndian
	b := order.AppendUint32(make([]byte, 0, size), uint32(size))
	b = order.AppendUint16(b, unix.RTM_GETROUTE)
	b = order.AppendUint16(b, unix.NLM_F_REQUEST)
	b = append(b, 0, 0, 0, 1, 0, 0, 0, 0)                                // sequence, port
	b = append(b, family, byte(8*len(ip)), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) // rtmsg
	b = order.AppendUint16(b, uint16(unix.SizeofRtAttr+len(ip)))
	b = order.AppendUint16(b, unix.RTA_DST)
	return append(b, ip...)
}

func routeAnswer(b []byte) (bool, error) {
	order := binary.NativeEndian
	if len(b) < unix.SizeofNlMsghdr+4 {
		return false, errors.New("truncated answer about the route")
	}
	body := b[unix.SizeofNlMsghdr:]
	switch order.Uint16(b[4:]) {
	case unix.NLMSG_ERROR:
		errno := unix.Errno(-int32(order.Uint32(body)))
		switch errno {
		case unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EACCES:
			// There is no route, or one that forbids the address.
			return true, nil
		}
		return false, fmt.Errorf("ask for the route: %w", errno)
	case unix.RTM_NEWROUTE:
		if len(body) < unix.SizeofRtMsg {
			break
		}
		switch body[7] {
		case unix.RTN_UNICAST, unix.RTN_UNREACHABLE, unix.RTN_PROHIBIT, unix.RTN_BLACKHOLE:
			return true, nil
		}
		return false, nil
	}
	return false, errors.New("malformed answer about the route")
}

// haveIPv6 reports whether the kernel supports the family. Otherwise it cannot
// connect, and its answer about routes is not clear.
func haveIPv6() bool {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return !errors.Is(err, unix.EAFNOSUPPORT)
	}
	_ = unix.Close(fd)
	return true
}
