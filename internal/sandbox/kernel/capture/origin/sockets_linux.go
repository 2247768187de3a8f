package origin

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/capture"
)

// Sockets serve a namespace. There is one of each kind for IPv4, and where the
// namespace has IPv6, a second one for that.
type Sockets struct {
	// Proxy accepts all connections that leave the cell; see [DestinationOf].
	Proxy []net.Listener
	// DNS accepts connections to port 53 of any address.
	DNS []net.Listener
	// DNSPackets has the datagrams to port 53 of any address. Answers go to the
	// address that a query came from; the kernel gives them the source that
	// the program expects.
	DNSPackets []net.PacketConn

	diag *os.File
}

// Open takes over the descriptors of [capture.Sockets.Descriptors], also when it
// fails.
func Open(fds []int) (*Sockets, error) {
	const kinds = 3
	files := make([]*os.File, len(fds))
	for i, fd := range fds {
		files[i] = os.NewFile(uintptr(fd), "captured socket")
	}
	if len(fds) != 1+kinds && len(fds) != 1+2*kinds {
		closeFiles(files)
		return nil, fmt.Errorf("%d descriptors: %w", len(fds), unix.EINVAL)
	}
	s := &Sockets{diag: files[0]}
	files = files[1:]
	defer closeFiles(files) // what net makes of them are copies
	for ; len(files) >= kinds; files = files[kinds:] {
		if err := s.add(files[0], files[1], files[2]); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// add takes the sockets of one address family.
func (s *Sockets) add(proxy, dns, packets *os.File) error {
	for _, l := range []struct {
		file *os.File
		to   *[]net.Listener
	}{{proxy, &s.Proxy}, {dns, &s.DNS}} {
		ln, err := net.FileListener(l.file)
		if err != nil {
			return fmt.Errorf("captured listener: %w", err)
		}
		*l.to = append(*l.to, ln)
	}
	pc, err := net.FilePacketConn(packets)
	if err != nil {
		return fmt.Errorf("captured DNS socket: %w", err)
	}
	s.DNSPackets = append(s.DNSPackets, pc)
	return nil
}

// Close closes the sockets. Accepted connections stay open.
func (s *Sockets) Close() error {
	errs := []error{s.diag.Close()}
	for _, l := range append(s.Proxy, s.DNS...) {
		errs = append(errs, l.Close())
	}
	for _, c := range s.DNSPackets {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Destination is the original destination of a connection.
type Destination struct {
	// Addr is never an IPv4 address in IPv6 form.
	Addr netip.AddrPort
	// Explicit reports that the program connected to the proxy itself: it will
	// name its destination within the connection.
	Explicit bool
}

// DestinationOf returns the original destination of a connection that Proxy or
// DNS accepted. The kernel keeps it as the accepted socket's local address.
func DestinationOf(c net.Conn) (Destination, error) {
	addr, err := addrPort(c.LocalAddr())
	if err != nil {
		return Destination{}, err
	}
	explicit := false
	if addr.Port() == capture.Port {
		name := addr.Addr().String()
		explicit = name == capture.Proxy4 || name == capture.Proxy6
	}
	return Destination{Addr: addr, Explicit: explicit}, nil
}

func addrPort(a net.Addr) (netip.AddrPort, error) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("%v is not the address of a TCP connection", a)
	}
	ap := tcp.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port()), nil
}
