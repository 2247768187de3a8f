package main

import (
	"net"
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

// TestEgressBriefly shows that a program is known which has ended, or has closed
// its connection, or has executed another program, before anybody asks.
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
