package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestEgressUnsolicited checks that an upstream that sends what nobody asked for
// writes nothing to the operator's terminal.
func TestEgressUnsolicited(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.raw("api.example.com", 80, "tcp4", "127.0.0.1:0", func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 unasked\r\n\r\n")
		}
	})
	o := l.run(`version: 1
network_policies: {api: {endpoints: [{host: api.example.com, port: 80, protocol: rest, access: full}], binaries: [{path: "/**"}]}}
`, "for i in 1 2 3; do curl -sS -d x http://api.example.com/ || exit; done")
	if o.code != 0 || strings.TrimSpace(o.said) != "okokok" {
		t.Errorf("exit %d: %s", o.code, o.said)
	}
}
