package main

import (
	"maps"
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// threadsPython connects from many threads at once, without waiting for the
// connection, and closes what it has sent.
const threadsPython = `
import select, socket, threading
def talk():
    for _ in range(5):
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex((socket.gethostbyname("tcp.test"), 7000))
        select.select([], [s], [])
        s.send(b"x\n")
        s.close()
threads = [threading.Thread(target=talk) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
`

// fastPython sends data without connecting first.
const fastPython = `
import socket, sys
s = socket.socket()
try:
    s.sendto(b"x\n", 0x20000000, (socket.gethostbyname("tcp.test"), 7000))
except OSError as e:
    print("refused:", e.strerror)
`

// TestEgressBriefly checks that a program is known although it has ended,
// closed its connection, or executed another program before the connection is
// accepted.
func TestEgressBriefly(t *testing.T) {
	t.Parallel()
	need(t, "/usr/bin/bash", "/usr/bin/python3")
	const loops = `bash -c 'for i in 1 2 3; do for j in $(seq 20); do echo x >/dev/tcp/tcp.test/7000; done & done; wait'`
	for _, p := range []struct {
		name, binaries, script string
		conns                  int
		says                   string
	}{
		{"any binary", "/**", loops, 60, ""},
		{"the binary", "/usr/bin/bash", loops, 60, ""},
		{"read by another", "/usr/bin/bash", `bash -c 'for i in $(seq 10); do exec 3<>/dev/tcp/tcp.test/7000; echo >&3; head -n 1 <&3; exec 3>&-; done'`, 10, strings.Repeat(payload+"\n", 10)},
		{"threads", "/usr/bin/python3", "/usr/bin/python3 threads.py", 40, ""},
		{"no data before the connection", "/**", "/usr/bin/python3 fast.py", 0, "refused: Operation not supported"},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.write("threads.py", threadsPython)
			l.write("fast.py", fastPython)
			s := l.raw("tcp.test", 7000, "tcp4", "127.0.0.1:0", func(c net.Conn) {
				_, _ = c.Read(make([]byte, 8))
				_, _ = c.Write([]byte(payload + "\n"))
			})
			o := l.run(rule("host: tcp.test, port: 7000, protocol: tcp", p.binaries), p.script)
			o.says(0, p.says)
			if conns, _ := s.traffic(t); conns != p.conns {
				t.Errorf("%d of %d connections came:\n%s", conns, p.conns, o.denials())
			}
		})
	}
}

// askPython asks for a name over TCP.
const askPython = `
import socket
s = socket.create_connection(("192.0.2.53", 53))
q = bytes.fromhex("000101000001000000000000") + b"\x06stream\x04test\x00\x00\x01\x00\x01"
s.sendall(len(q).to_bytes(2, "big") + q)
s.recv(100)
`

// TestEgressQuestions shows that questions are recorded by name and type, at once and
// with how often they came, and with the program that asked first.
func TestEgressQuestions(t *testing.T) {
	t.Parallel()
	need(t, "/usr/bin/getent", "/usr/bin/python3")
	l := newLab(t)
	l.write("ask.py", askPython)
	o := l.run(rule("host: tcp.test, port: 7000, protocol: tcp", "/usr/bin/bash"),
		"for i in 1 2 3; do getent ahostsv4 denied.test; done; getent ahostsv4 tcp.test; /usr/bin/python3 ask.py")
	type told struct{ name, kind, binary, action string }
	got := map[told]int{}
	for _, r := range o.events {
		if r.Class == dnsActivity {
			got[told{r.Query.Hostname, r.Query.Type, r.Actor.Process.File.Path, r.Action}] += max(r.Count, 1)
			if r.Actor.Process.PID < 2 {
				t.Errorf("no process in %+v", r)
			}
		}
	}
	python, err := filepath.EvalSymlinks("/usr/bin/python3")
	l.ok(err)
	want := map[told]int{
		{"denied.test", "A", "/usr/bin/getent", "Denied"}: 3,
		{"tcp.test", "A", "/usr/bin/getent", "Allowed"}:   1,
		{"stream.test", "A", python, "Denied"}:            1,
	}
	if !maps.Equal(got, want) {
		t.Errorf("told %+v, want %+v\n%s", got, want, o.said)
	}
}
