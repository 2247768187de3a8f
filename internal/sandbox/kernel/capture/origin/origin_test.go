package origin_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/kernel/capture/capturetest"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/capture/origin"
)

// place is a cell that is served, with a directory that it may write. All else it
// may not.
type place struct {
	*capturetest.Cell
	sockets *origin.Sockets
	who     *origin.Attributor
	scratch string
}

func newPlace(t testing.TB) place {
	t.Helper()
	p := place{scratch: t.TempDir()}
	p.Cell = capturetest.Start(t, capturetest.Options{Scratch: p.scratch})
	var err error
	if p.sockets, err = origin.Open(p.Descriptors); err != nil {
		t.Fatal(err)
	}
	if p.who, err = origin.NewAttributor(p.sockets, p.PID); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(p.sockets.Close(), p.who.Close()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// serve answers each connection and each datagram with the program that sent it.
func (p place) serve() {
	for _, c := range p.sockets.DNSPackets {
		go func() {
			for {
				_, from, err := c.ReadFrom(make([]byte, 64))
				if err != nil {
					return
				}
				who := describe(p.who.Asker(from.(*net.UDPAddr).AddrPort()))
				_, _ = c.WriteTo([]byte(who), from)
			}
		}()
	}
	for _, l := range p.sockets.Proxy {
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					fmt.Fprintln(c, p.describe(c))
					// Closing before the request was read would be a reset.
					_ = c.(*net.TCPConn).CloseWrite()
					_, _ = io.Copy(io.Discard, c)
					_ = c.Close()
				}()
			}
		}()
	}
}

func (p place) describe(c net.Conn) string {
	return describe(p.who.Of(c))
}

func describe(who origin.Process, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	s := fmt.Sprintf("%d %s", who.PID, who.Binary)
	if who.Unnamed {
		s += " unnamed"
	}
	if who.Writable {
		s += " writable"
	}
	if who.IsTrusted() {
		s += " trusted"
	}
	return s
}

// check runs a probe that prints its own number and what the server says, which
// must be the same number and what is wanted.
func (p place) check(t *testing.T, want, probe string, args ...string) {
	t.Helper()
	got := p.Probe(t, probe, args...)
	pid, said, _ := strings.Cut(got, " ")
	if !strings.HasPrefix(want, "error: ") {
		want = pid + " " + want
	}
	if said != want {
		t.Errorf("%s %q: %q, not %q", probe, args, said, want)
	}
}

func TestAttribution(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.serve()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(p.scratch, name) }
	const dial, unlink, replace = "capturetest-probe:dial", "capturetest-probe:unlink", "capturetest-probe:replace"

	p.check(t, self+" trusted", "dial")
	p.check(t, self+" trusted", "share")
	p.check(t, self+" trusted", "mptcp")
	p.check(t, self+" trusted", "ask", "connected", "192.0.2.53:53")
	p.check(t, self+" trusted", "ask", "connected", "[2001:db8::53]:53")
	p.check(t, self+" trusted", "ask", "open", "[::ffff:192.0.2.53]:53")
	p.check(t, self+" trusted", "ask", "open", "[2001:db8::53]:53")
	p.check(t, self+" trusted", "ask", "open", "8.8.8.8:53")
	p.check(t, "error: "+origin.ErrGone.Error(), "ask", "connected", "8.8.8.8:53")
	p.check(t, at("copy")+" writable", "copy", self, at("copy"), dial)
	p.check(t, at("gone")+" (deleted) unnamed writable", "copy", self, at("gone"), unlink, at("gone"))
	p.check(t, at("other")+" (deleted) unnamed writable", "copy", self, at("other"), replace, at("other"))
	p.check(t, "/memfd:tool (deleted) unnamed writable", "memfd")
	p.Probe(t, "copy", self, at("receiver"))
	p.check(t, at("receiver")+" writable", "pass", at("receiver"))
	cat, err := p.who.Resolve("/bin/cat")
	if err != nil {
		t.Fatal(err)
	}
	p.check(t, fmt.Sprintf("error: the connection is shared by different programs: %q and %q", self, cat), "share", "/bin/cat")
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.serve()
	got := strings.Split(p.Probe(t, "herd"), "\n")
	for _, line := range got {
		pid, said, _ := strings.Cut(line, " ")
		if !strings.HasPrefix(said, pid+" ") || !strings.HasSuffix(said, " trusted") {
			t.Errorf("%q", line)
		}
	}
	if len(got) != 40 {
		t.Errorf("%d answers", len(got))
	}
}

// TestTools asks who the ordinary tools are.
func TestTools(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.serve()
	bash, err := p.who.Resolve("/bin/bash")
	if err != nil {
		t.Fatal(err)
	}
	const talk = `exec 3<>/dev/tcp/1.2.3.4/80; read -r line <&3; echo "$$ $line"`
	got, err := p.Run("/bin/bash", "-c", talk)
	if pid, said, _ := strings.Cut(got, " "); err != nil || said != pid+" "+bash+" trusted" {
		t.Errorf("bash: %q, %v", got, err)
	}
	// A script is its interpreter, wherever it lies.
	script := filepath.Join(p.scratch, "script")
	if _, err := p.Run("/bin/bash", "-c", `printf '#!/bin/bash\n%s\n' "$1" > "$2" && chmod 755 "$2"`, "-", talk, script); err != nil {
		t.Fatal(err)
	}
	got, err = p.Run(script)
	if pid, said, _ := strings.Cut(got, " "); err != nil || said != pid+" "+bash+" trusted" {
		t.Errorf("script: %q, %v", got, err)
	}
	if _, err := os.Stat("/usr/bin/curl"); err != nil {
		t.Skip("curl is not installed at /usr/bin")
	}
	got, err = p.Run("/usr/bin/curl", "-sS", "--http0.9", "http://1.2.3.4/")
	if _, said, _ := strings.Cut(got, " "); err != nil || said != "/usr/bin/curl trusted" {
		t.Errorf("curl: %q, %v", got, err)
	}
	copied := filepath.Join(p.scratch, "curl")
	got, err = p.Run("/bin/bash", "-c", `cp /usr/bin/curl "$1" && exec "$1" -sS --http0.9 http://1.2.3.4/`, "-", copied)
	if _, said, _ := strings.Cut(got, " "); err != nil || said != copied+" writable" {
		t.Errorf("copied curl: %q, %v", got, err)
	}
}

func TestGone(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.Probe(t, "leave")
	c, err := p.sockets.Proxy[0].Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if who, err := p.who.Of(c); !errors.Is(err, origin.ErrGone) {
		t.Errorf("%+v, %v", who, err)
	}
	// Nor is a socket that never was, in either family.
	for _, a := range [][2]string{{"192.0.2.2:9", "1.2.3.4:80"}, {"[2001:db8::2]:9", "[2606::1]:80"}} {
		if who, err := p.who.Lookup(netip.MustParseAddrPort(a[0]), netip.MustParseAddrPort(a[1])); !errors.Is(err, origin.ErrGone) {
			t.Errorf("%v: %+v, %v", a, who, err)
		}
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	link := filepath.Join(p.scratch, "link")
	p.Probe(t, "link", "/usr/bin/env", link)
	real, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, want string
		err        error
	}{
		{"/bin/sh", real, nil},
		{"/bin/../bin/./sh", real, nil},
		{"//usr//bin/env", "/usr/bin/env", nil},
		{"/", "/", nil},
		{"/../usr/bin/env", "/usr/bin/env", nil},
		{"/usr/bin/no-such-program", "", unix.ENOENT},
		{"/usr/bin/env/x", "", unix.ENOTDIR},
		{"usr/bin/env", "", origin.ErrUnresolved},
		{link, "", origin.ErrUnresolved},
		{link + "/../env", "", origin.ErrUnresolved},
	} {
		got, err := p.who.Resolve(c.path)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v; want %q, %v", c.path, got, err, c.want, c.err)
		}
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	who, err := origin.NewAttributor(p.sockets, p.PID)
	if err != nil {
		t.Fatal(err)
	}
	if err := who.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := who.Resolve("/"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("resolve: %v", err)
	}
	if _, err := who.Asker(netip.MustParseAddrPort("192.0.2.2:9")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("look up: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	var fds []int
	for range 4 {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, fd)
	}
	if _, err := origin.Open(fds[:3:3]); !errors.Is(err, unix.EINVAL) {
		t.Errorf("too few: %v", err)
	}
	if _, err := origin.Open(nil); !errors.Is(err, unix.EINVAL) {
		t.Errorf("none: %v", err)
	}
	_ = unix.Close(fds[3])
}

func TestDestinationRefuses(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if _, err := origin.DestinationOf(a); err == nil {
		t.Error("a pipe has a destination")
	}
}

// BenchmarkLookup is one connection's attribution in a cell with other processes
// that hold 23 descriptors each.
func BenchmarkLookup(b *testing.B) {
	for _, others := range []int{0, 10, 50} {
		b.Run(fmt.Sprintf("%d-others", others), func(b *testing.B) {
			p := newPlace(b)
			took := make(chan time.Duration, b.N)
			go func() {
				for range b.N {
					c, err := p.sockets.Proxy[0].Accept()
					if err != nil {
						return
					}
					start := time.Now()
					_, err = p.who.Of(c)
					took <- time.Since(start)
					if err != nil {
						b.Error(err)
					}
					_ = c.Close()
				}
			}()
			p.Probe(b, "crowd", fmt.Sprint(others), fmt.Sprint(b.N))
			var sum time.Duration
			for range b.N {
				sum += <-took
			}
			b.ReportMetric(float64(sum.Microseconds())/float64(b.N), "lookup-µs")
		})
	}
}
