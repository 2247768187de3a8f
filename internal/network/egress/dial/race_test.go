package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestInterleave(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"1.0.0.1":                     "1.0.0.1",
		"1.0.0.1 1.0.0.2 ::1 ::2 ::3": "1.0.0.1 ::1 1.0.0.2 ::2 ::3",
		"::1 ::2 1.0.0.1":             "::1 1.0.0.1 ::2",
		"::1 ::2":                     "::1 ::2",
	} {
		var addrs []netip.AddrPort
		for _, a := range strings.Fields(in) {
			addrs = append(addrs, netip.AddrPortFrom(netip.MustParseAddr(a), 1))
		}
		var got []string
		for _, a := range interleave(addrs) {
			got = append(got, a.Addr().String())
		}
		if !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %v, want %s", in, got, want)
		}
	}
}

// TestFailover: addresses that refuse cost nothing, and the last one wins.
func TestFailover(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, "127.0.0.3:0")
	d := loopbackDialer(zone{"up.test.": {"127.0.0.1", "::1", "127.0.0.2", "127.0.0.3"}})
	d.Stagger = time.Hour // only failures move it on
	conn, dec, err := d.Dial(t.Context(), "up.test", u.addr.Port(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, conn); got != u.addr.String() || dec.Remote != u.addr {
		t.Errorf("connected to %s, %+v", got, dec)
	}
	_, dec, err = d.Dial(t.Context(), "up.test", 1, nil)
	if !errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, ErrRefused) || dec.Remote.IsValid() {
		t.Errorf("nobody listens: %+v, %v", dec, err)
	}
}

// full is a listener whose queue is full: connecting to it hangs, as it does to
// an address behind a firewall that drops.
func full(t *testing.T, at string) netip.AddrPort {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	ip := netip.MustParseAddr(at)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: ip.As4()}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.AddrPortFrom(ip, uint16(name.(*syscall.SockaddrInet4).Port))
	for range 8 {
		c, err := net.DialTimeout("tcp", addr.String(), time.Second)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Fatal("the queue does not fill")
	return addr
}

// TestSlowAddress: the next address is tried beside one that hangs, and the
// time-out ends what hangs altogether.
func TestSlowAddress(t *testing.T) {
	t.Parallel()
	slow := full(t, "127.0.0.4")
	u := newUpstream(t, fmt.Sprintf("127.0.0.5:%d", slow.Port()))
	d := loopbackDialer(zone{"up.test.": {"127.0.0.4", "127.0.0.5"}, "slow.test.": {"127.0.0.4"}})
	d.Stagger = time.Millisecond
	conn, _, err := d.Dial(t.Context(), "up.test", slow.Port(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, conn); got != u.addr.String() {
		t.Errorf("connected to %s", got)
	}
	d.Timeout = 50 * time.Millisecond
	if _, _, err := d.Dial(t.Context(), "slow.test", slow.Port(), nil); !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
		t.Errorf("%v, want a time-out", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := d.Dial(ctx, "slow.test", slow.Port(), nil); err == nil {
		t.Error("dialled after the caller had gone")
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

func BenchmarkRoute(b *testing.B) {
	a := netip.MustParseAddr("8.8.8.8")
	for b.Loop() {
		if _, err := isOtherHost(a); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDial is one dialled connection to a pinned address and to one that
// is checked.
func BenchmarkDial(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	at := netip.MustParseAddrPort(l.Addr().String())
	pinned := &Dialer{Pins: Pins{{"up.test", 0}: {at}}}
	checked := loopbackDialer(zone{"up.test.": {"127.0.0.1"}})
	checked.route = func(a netip.Addr) (bool, error) {
		_, err := isOtherHost(a)
		return true, err
	}
	for name, dial := range map[string]func() (net.Conn, error){
		"plain": func() (net.Conn, error) { return net.Dial("tcp", at.String()) },
		"pinned": func() (net.Conn, error) {
			c, _, err := pinned.Dial(b.Context(), "up.test", at.Port(), nil)
			return c, err
		},
		"checked": func() (net.Conn, error) {
			c, _, err := checked.Dial(b.Context(), "up.test", at.Port(), nil)
			return c, err
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c, err := dial()
				if err != nil {
					b.Fatal(err)
				}
				_ = c.Close()
			}
		})
	}
}
