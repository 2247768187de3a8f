package drivertest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// testNetwork: a connection to anywhere comes to the host side, which knows where
// it was to go and, if that is claimed, which program opened it; a DNS query comes, too.
func testNetwork(t *testing.T, f *Fixture) {
	type arrival struct {
		to      driver.Destination
		program driver.Program
		err     error
	}
	arrived, asked := make(chan arrival, 1), make(chan []byte, 1)
	f.Spec.Network = &driver.Network{Files: []driver.File{{Name: "note", Data: []byte("of the host")}}}
	f.Spec.Network.Serve = func(c driver.Captured) (func(), error) {
		for _, l := range c.Connections[:1] {
			go func() {
				conn, err := l.Accept()
				if err != nil {
					arrived <- arrival{err: err}
					return
				}
				defer conn.Close()
				a := arrival{}
				a.to, a.err = c.Origin.Destination(conn)
				if a.err == nil {
					a.program, a.err = c.Origin.Opener(conn)
				}
				arrived <- a
				_, _ = io.WriteString(conn, "answer\n")
			}()
		}
		go func() {
			b := make([]byte, 512)
			n, _, _ := c.Queries[0].ReadFrom(b)
			asked <- b[:n]
		}()
		return func() { c.Close() }, nil
	}
	script := "exec 3<>/dev/tcp/192.0.2.7/4711; head -n 1 <&3; echo -n query > /dev/udp/192.0.2.53/53; cat /etc/note"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.Spec.Args = []string{"bash", "-c", script}
	var out strings.Builder
	o, err := f.Run(ctx, f.Spec, driver.Stdio{Out: &out})
	if err != nil || o.Code != 0 || out.String() != "answer\nof the host" {
		t.Fatalf("%+v, %v, %q", o, err, out.String())
	}
	a := <-arrived
	if want := netip.MustParseAddrPort("192.0.2.7:4711"); a.err != nil || a.to.Addr != want || a.to.Explicit {
		t.Errorf("destination %+v, %v", a.to, a.err)
	}
	known := strings.HasSuffix(a.program.Binary, "/bash") && a.program.Trusted && a.program.PID != 0
	if known != f.suite.claims(Programs) || !known && a.program != (driver.Program{}) {
		t.Errorf("program %+v", a.program)
	}
	if q := <-asked; string(q) != "query" {
		t.Errorf("query %q", q)
	}
}

// testSocket: the cell has a unix socket, at which the host side answers. It cannot be
// removed, and there is nothing of it on the host.
func testSocket(t *testing.T, f *Fixture) {
	const at = "/.forkcell/test"
	peer := make(chan driver.Program, 1)
	f.Spec.Network = &driver.Network{Socket: at}
	f.Spec.Network.Serve = func(c driver.Captured) (func(), error) {
		go func() {
			conn, err := c.Local.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			b := make([]byte, 5)
			_, _ = io.ReadFull(conn, b)
			who, _ := c.Origin.Peer(conn)
			peer <- who
			_, _ = io.WriteString(conn, strings.ToUpper(string(b)))
		}()
		return func() { c.Close() }, nil
	}
	script := "import os, socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('" + at + "')\ns.sendall(b'hello')\nprint(s.recv(9).decode())\n" +
		"try:\n  os.remove('" + at + "')\nexcept OSError as e:\n  print(e.strerror)\n"
	f.Spec.Args = []string{"/usr/bin/python3", "-c", script}
	var out, complaints strings.Builder
	o, err := f.Run(t.Context(), f.Spec, driver.Stdio{Out: &out, Err: &complaints})
	if err != nil || o.Code != 0 || out.String() != "HELLO\nRead-only file system\n" {
		t.Fatalf("%+v, %v, %q, %s", o, err, out.String(), complaints.String())
	}
	if who := <-peer; who.PID == 0 || !strings.HasPrefix(who.Binary, "/usr/bin/python3") || !who.Trusted {
		t.Errorf("program %+v", who)
	}
	if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("on the host: %v", err)
	}
}
