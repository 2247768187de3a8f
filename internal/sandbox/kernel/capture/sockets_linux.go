package capture

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// backlog is how many connections may wait to be accepted; the kernel's limit
// may be lower.
const backlog = 4096

// Sockets are the descriptors with which the host side serves the namespace.
// They work in any process that they are sent to.
type Sockets struct {
	// Diag asks the kernel about the namespace's sockets.
	Diag int
	// Four and Six are the sockets of the two families; Six is nil where there
	// is no IPv6.
	Four, Six *Family
}

// Family holds the sockets of one address family.
type Family struct {
	// Proxy accepts every connection that leaves the cell.
	Proxy int
	// DNS accepts those to port 53.
	DNS int
	// DNSPackets receives the datagrams to port 53.
	DNSPackets int
}

// Descriptors returns all descriptors in the order that origin.Open expects.
func (s *Sockets) Descriptors() []int {
	fds := []int{s.Diag}
	for _, f := range []*Family{s.Four, s.Six} {
		if f != nil {
			fds = append(fds, f.Proxy, f.DNS, f.DNSPackets)
		}
	}
	return fds
}

// Close closes all descriptors, for instance after they were sent.
func (s *Sockets) Close() {
	for _, fd := range s.Descriptors() {
		_ = unix.Close(fd)
	}
}

func openSockets(six bool) (*Sockets, error) {
	diag, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_SOCK_DIAG)
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil, fmt.Errorf("socket diagnosis: %w: %w", ErrUnsupported, err)
	}
	if err != nil {
		return nil, fmt.Errorf("socket diagnosis: %w", err)
	}
	s := &Sockets{Diag: diag}
	s.Four, err = openFamily(false)
	if err == nil && six {
		s.Six, err = openFamily(true)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func openFamily(six bool) (*Family, error) {
	var opened []int
	var failed error
	open := func(what string, kind int, a address) int {
		if failed != nil {
			return -1
		}
		fd, err := openSocket(kind, a)
		if err != nil {
			failed = fmt.Errorf("%s: %w", what, err)
			return -1
		}
		opened = append(opened, fd)
		return fd
	}
	f := &Family{
		Proxy:      open("listener", unix.SOCK_STREAM, proxy(six)),
		DNS:        open("DNS listener", unix.SOCK_STREAM, resolver(six)),
		DNSPackets: open("DNS socket", unix.SOCK_DGRAM, resolver(six)),
	}
	if failed != nil {
		for _, fd := range opened {
			_ = unix.Close(fd)
		}
		return nil, failed
	}
	return f, nil
}

func openSocket(kind int, a address) (int, error) {
	domain := unix.AF_INET
	if a.six {
		domain = unix.AF_INET6
	}
	fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	if err := bind(fd, kind, a); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// bind also makes sockets transparent, which needs CAP_NET_ADMIN. The kernel
// passes the captured connections only to such a listener. For IPv6, only such
// a socket can have an address that is local only by a route.
func bind(fd, kind int, a address) error {
	level, transparent := unix.SOL_IP, unix.IP_TRANSPARENT
	var sa unix.Sockaddr = &unix.SockaddrInet4{Port: Port, Addr: a.as4()}
	if a.six {
		level, transparent = unix.SOL_IPV6, unix.IPV6_TRANSPARENT
		sa = &unix.SockaddrInet6{Port: Port, Addr: a.as16()}
		if err := unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			return fmt.Errorf("IPv6 only: %w", err)
		}
	}
	if err := unix.SetsockoptInt(fd, level, transparent, 1); err != nil {
		return fmt.Errorf("transparent: %w", err)
	}
	if err := unix.Bind(fd, sa); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	if kind == unix.SOCK_STREAM {
		if err := unix.Listen(fd, backlog); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
	}
	return nil
}
