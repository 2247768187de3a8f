package names

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// serve starts a server on loopback and returns where it is. It has ended when
// the test ends.
func serve(t *testing.T, s *Server) (udp, tcp string) {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() { ended <- s.ServeUDP(pc) }()
	go func() { ended <- s.ServeTCP(l) }()
	t.Cleanup(func() {
		_ = pc.Close()
		_ = l.Close()
		for range 2 {
			if err := <-ended; err != nil {
				t.Errorf("a closed socket is no error, got %v", err)
			}
		}
	})
	return pc.LocalAddr().String(), l.Addr().String()
}

func liveServer() *Server {
	return &Server{
		Table:   &Table{first: 1},
		Allowed: func(n string) bool { return strings.HasSuffix(n, ".example.com") },
		IPv6:    true,
	}
}

// TestGoResolver uses Go's own resolver over both transports.
func TestGoResolver(t *testing.T) {
	t.Parallel()
	udp, tcp := serve(t, liveServer())
	for network, at := range map[string]string{"udp": udp, "tcp": tcp} {
		r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, at)
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		addrs, err := r.LookupNetIP(ctx, "ip", "Api.Example.com.")
		if err != nil || len(addrs) != 2 {
			t.Fatalf("%s: %v, %v", network, addrs, err)
		}
		for _, a := range addrs {
			if a = a.Unmap(); a != netip.MustParseAddr("198.18.0.2") && a != netip.MustParseAddr("fd9b:53c1:e86a::c612:2") {
				t.Errorf("%s: %s", network, a)
			}
			names, err := r.LookupAddr(ctx, a.String())
			if err != nil || len(names) != 1 || names[0] != "api.example.com." {
				t.Errorf("%s: %s is %v, %v", network, a, names, err)
			}
		}
		var missing *net.DNSError
		if _, err := r.LookupNetIP(ctx, "ip", "www.example.net."); !errors.As(err, &missing) || !missing.IsNotFound {
			t.Errorf("%s: a name that does not exist: %v", network, err)
		}
		if _, err := r.LookupTXT(ctx, "api.example.com."); !errors.As(err, &missing) || !missing.IsNotFound {
			t.Errorf("%s: a record that does not exist: %v", network, err)
		}
	}
}

// TestLibraryClient uses the client that is written for tests of servers; it
// randomises nothing and checks what it gets.
func TestLibraryClient(t *testing.T) {
	t.Parallel()
	udp, tcp := serve(t, liveServer())
	for network, at := range map[string]string{"udp": udp, "tcp": tcp} {
		c := &dns.Client{Net: network, Timeout: 20 * time.Second}
		q := new(dns.Msg).SetQuestion("aPi.eXample.coM.", dns.TypeA).SetEdns0(4096, false)
		m, _, err := c.ExchangeContext(t.Context(), q, at)
		if err != nil {
			t.Fatal(err)
		}
		if got := short(m); got != "NOERROR 198.18.0.2" || m.Question[0].Name != "aPi.eXample.coM." || m.Answer[0].Header().Name != "aPi.eXample.coM." {
			t.Errorf("%s: %s\n%s", network, got, m)
		}
	}
}

func message(t *testing.T, name string, id uint16) []byte {
	t.Helper()
	q := new(dns.Msg).SetQuestion(name, dns.TypeA)
	q.Id = id
	b, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)
}

func dialTCP(t *testing.T, at string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

// TestPipelining sends many questions before it reads the first answer.
func TestPipelining(t *testing.T) {
	t.Parallel()
	_, tcp := serve(t, liveServer())
	c := dialTCP(t, tcp)
	const n = 50
	var all []byte
	for i := range n {
		all = append(all, message(t, fmt.Sprintf("h%d.example.com.", i), uint16(1000+i))...)
	}
	// In pieces that are no messages.
	for len(all) > 0 {
		k := min(len(all), 37)
		if _, err := c.Write(all[:k]); err != nil {
			t.Fatal(err)
		}
		all = all[k:]
	}
	conn := &dns.Conn{Conn: c}
	for i := range n {
		m, err := conn.ReadMsg()
		if err != nil {
			t.Fatal(err)
		}
		if m.Id != uint16(1000+i) || short(m) != fmt.Sprintf("NOERROR 198.18.0.%d", 2+i) {
			t.Errorf("answer %d: %s", i, m)
		}
	}
}

// TestHostileConnections: each is closed, and the server goes on.
func TestHostileConnections(t *testing.T) {
	t.Parallel()
	s := liveServer()
	_, tcp := serve(t, s)
	for name, sent := range map[string]string{
		"too long":       "\xff\xff" + strings.Repeat("x", 100),
		"no message":     "\x00\x00",
		"half a header":  "\x00\x05abcde",
		"a response":     "\x00\x0c\x00\x01\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		"another client": "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		c := dialTCP(t, tcp)
		if _, err := io.WriteString(c, sent); err != nil {
			t.Fatal(err)
		}
		if b, _ := io.ReadAll(c); len(b) != 0 {
			t.Errorf("%s: answered %x", name, b)
		}
	}
	if !answers(t, dialTCP(t, tcp)) {
		t.Error("the server does not answer any more")
	}
}

func answers(t *testing.T, c net.Conn) bool {
	t.Helper()
	if _, err := c.Write(message(t, "api.example.com.", 7)); err != nil {
		return false
	}
	m, err := (&dns.Conn{Conn: c}).ReadMsg()
	return err == nil && m.Id == 7 && len(m.Answer) == 1
}

func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	s := liveServer()
	s.Limits.Conns = 2
	_, tcp := serve(t, s)
	first, second := dialTCP(t, tcp), dialTCP(t, tcp)
	if !answers(t, first) || !answers(t, second) {
		t.Fatal("two connections of two do not work")
	}
	if answers(t, dialTCP(t, tcp)) {
		t.Error("a third connection of two was served")
	}
	if !answers(t, first) {
		t.Error("the others suffered")
	}
}

func TestIdleConnection(t *testing.T) {
	t.Parallel()
	s := liveServer()
	s.Limits.Idle = 50 * time.Millisecond
	_, tcp := serve(t, s)
	c := dialTCP(t, tcp)
	if _, err := c.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	// It ends long before the deadline of this side.
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset") {
		t.Errorf("read: %v, want the end", err)
	}
}

// failing is a socket that fails a number of times before it works no more.
type failing struct {
	net.PacketConn
	errs int
	last error
}

func (f *failing) ReadFrom([]byte) (int, net.Addr, error) {
	if f.errs--; f.errs < 0 {
		return 0, nil, f.last
	}
	return 0, nil, errors.New("a passing error")
}

func TestSocketErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, c := range []struct {
		conn *failing
		want error
	}{
		{&failing{errs: giveUp - 1, last: net.ErrClosed}, nil},
		{&failing{errs: giveUp - 1, last: broken}, broken},
	} {
		s := newTestServer()
		if err := s.ServeUDP(c.conn); !errors.Is(err, c.want) {
			t.Errorf("ServeUDP = %v, want %v", err, c.want)
		}
		if want := (giveUp - 1) * backOff; s.waited != want {
			t.Errorf("waited %s, want %s", s.waited, want)
		}
	}
}
