package capture_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/capture"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/capture/capturetest"
)

func TestMain(m *testing.M) {
	os.Exit(capturetest.Main(m, map[string]capturetest.Probe{
		"connect": each(connect),
		"attempt": each(attempt),
		"inside":  each(inside),
		"query":   queryProbe,
		"change":  changeProbe,
		"many":    manyProbe,
		"setup":   setupProbe,
		"broken":  brokenProbe,
	}))
}

// limit is how long a refusal may take at most. A packet that is lost instead is sent
// again after a second.
const limit = 900 * time.Millisecond

// each makes a probe that does something for each of its arguments, the parts of
// which are separated by spaces, and prints a line for each. One process for many
// attempts keeps the tests quick.
func each(f func(args []string) error) capturetest.Probe {
	return func(all []string) error {
		for _, a := range all {
			if err := f(strings.Fields(a)); err != nil {
				fmt.Print(err)
			}
			fmt.Println()
		}
		return nil
	}
}

// connect connects to an address, from another if one is given, while it listens
// on a third if one is given, and prints what the server says.
func connect(args []string) error {
	start := time.Now()
	fd, err := socket(args[0], unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	if len(args) > 1 {
		if err := unix.Bind(fd, sockaddr(args[1])); err != nil {
			return said(err, start)
		}
	}
	if len(args) > 2 {
		if _, err := net.Listen("tcp", args[2]); err != nil {
			return err
		}
	}
	// A connection that is not refused but lost is not waited for.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 2}); err != nil {
		return err
	}
	if err := unix.Connect(fd, sockaddr(args[0])); err != nil {
		return said(err, start)
	}
	b := make([]byte, 512)
	n, err := unix.Read(fd, b)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	fmt.Print(strings.TrimSpace(string(b[:n])))
	return nil
}

// said prints an errno, and fails if it took too long to come.
func said(err error, start time.Time) error {
	if took := time.Since(start); took > limit {
		return fmt.Errorf("%w after %v", err, took)
	}
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return err
	}
	fmt.Print(unix.ErrnoName(errno))
	return nil
}

// attempt sends a packet by a kind of socket that is not served. It prints
// the error of the call, and what a program sees that ignores it and waits for an
// answer.
func attempt(args []string) error {
	kinds := map[string][2]int{
		"udp": {unix.SOCK_DGRAM, 0}, "ping": {unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, "ping6": {unix.SOCK_DGRAM, unix.IPPROTO_ICMPV6},
		"raw": {unix.SOCK_RAW, unix.IPPROTO_ICMP}, "udplite": {unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE},
	}
	k := kinds[args[0]]
	fd, err := socket(args[1], k[0], k[1])
	start := time.Now()
	if err != nil {
		return said(err, start)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1)
	payload := []byte{8, 0, 0, 0, 0, 0, 0, 0, 1, 2}
	if args[0] == "ping6" {
		payload[0] = 128
	}
	if len(args) > 2 { // connected
		if err := unix.Connect(fd, sockaddr(args[1])); err != nil {
			return said(err, start)
		}
		err = unix.Send(fd, payload, 0)
	} else {
		err = unix.Sendto(fd, payload, 0, sockaddr(args[1]))
	}
	if err == nil {
		fmt.Print("sent")
		return nil
	}
	if err := said(err, start); err != nil {
		return err
	}
	if len(args) > 2 {
		fmt.Print(" ")
		start = time.Now()
		_, err = unix.Read(fd, make([]byte, 16))
		return said(err, start)
	}
	return nil
}

// inside listens on an address and connects to another, which must be the
// same socket.
func inside(args []string) error {
	ln, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	defer ln.Close()
	to := args[1]
	if strings.HasSuffix(to, ":0") {
		to = strings.TrimSuffix(to, "0") + fmt.Sprint(ln.Addr().(*net.TCPAddr).Port)
	}
	go func() {
		c, err := net.DialTimeout("tcp", to, 20*time.Second)
		if err == nil {
			_, _ = io.WriteString(c, "inside\n")
			_ = c.Close()
		}
	}()
	_ = ln.(*net.TCPListener).SetDeadline(time.Now().Add(20 * time.Second))
	c, err := ln.Accept()
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	fmt.Print(strings.TrimSpace(line))
	return err
}

// queryProbe sends a datagram and prints the answer and where it came from, on
// one unconnected socket to each of the addresses in turn.
func queryProbe(args []string) error {
	fd, err := socket(args[0], unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 20}); err != nil {
		return err
	}
	for _, a := range args {
		if err := unix.Sendto(fd, []byte("query"), 0, sockaddr(a)); err != nil {
			return fmt.Errorf("send to %s: %w", a, err)
		}
	}
	for range args {
		b := make([]byte, 64)
		n, from, err := unix.Recvfrom(fd, b, 0)
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		fmt.Printf("%s from %s\n", b[:n], text(from))
	}
	return nil
}

// changeProbe tries what needs CAP_NET_ADMIN.
func changeProbe([]string) error {
	// NFT_MSG_DELTABLE of everything, alone in a batch; RTM_DELADDR; a
	// transparent socket; a raw one.
	for _, c := range []struct {
		protocol int
		message  string
	}{
		{unix.NETLINK_NETFILTER, "\x14\x00\x00\x00\x10\x00\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0a" +
			"\x14\x00\x00\x00\x02\x0a\x05\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
			"\x14\x00\x00\x00\x11\x00\x01\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0a"},
		{unix.NETLINK_ROUTE, "\x20\x00\x00\x00\x15\x00\x05\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x20\x00\x00\x01\x00\x00\x00\x08\x00\x02\x00\xc0\x00\x02\x02"},
	} {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, c.protocol)
		if err != nil {
			return err
		}
		if err := unix.Sendto(fd, []byte(c.message), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return err
		}
		b := make([]byte, 4096)
		n, _, err := unix.Recvfrom(fd, b, unix.MSG_DONTWAIT)
		if err != nil || n < 20 {
			return fmt.Errorf("%d bytes, %w", n, err)
		}
		fmt.Printf("%s ", unix.ErrnoName(unix.Errno(-int8(b[16]))))
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	err = unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_TRANSPARENT, 1)
	_, err2 := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP)
	_, err3 := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	for _, e := range []error{err, err2, err3} {
		var errno unix.Errno
		errors.As(e, &errno)
		fmt.Printf("%s ", unix.ErrnoName(errno))
	}
	return nil
}

// setupProbe tries what only the first process may.
func setupProbe([]string) error {
	_, err := capture.Setup()
	return err
}

// manyProbe holds connections to many addresses at once and counts those that
// were answered by who they wanted.
func manyProbe([]string) error {
	const count = 1000
	good := 0
	var fds []int
	for i := range count {
		a := netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}), 443).String()
		fd, err := socket(a, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		if err := unix.Connect(fd, sockaddr(a)); err != nil {
			return fmt.Errorf("%s, the %dth: %w", a, i, err)
		}
		fds = append(fds, fd)
		own, err := unix.Getsockname(fd)
		if err != nil {
			return err
		}
		b := make([]byte, 128)
		n, err := unix.Read(fd, b)
		if err != nil {
			return err
		}
		if string(b[:n]) == fmt.Sprintf("proxy %s from %s\n", a, text(own)) {
			good++
		}
	}
	fmt.Printf("%d of %d", good, len(fds))
	return nil
}

func socket(addr string, kind, protocol int) (int, error) {
	domain := unix.AF_INET
	if netip.MustParseAddrPort(addr).Addr().Is6() {
		domain = unix.AF_INET6
	}
	return unix.Socket(domain, kind, protocol)
}

func sockaddr(s string) unix.Sockaddr {
	a := netip.MustParseAddrPort(s)
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16(), ZoneId: loZone(a.Addr())}
}

// loZone is the zone that link-local addresses need.
func loZone(a netip.Addr) uint32 {
	if a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() {
		return 1
	}
	return 0
}

func text(sa unix.Sockaddr) string {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)).String()
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port)).String()
	}
	return "?"
}
