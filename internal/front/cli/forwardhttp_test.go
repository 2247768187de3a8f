package cli

import (
	"errors"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"
)

// TestCheckHost: a connection reaches the cell only if its first request is for the name
// of the forwarding.
func TestCheckHost(t *testing.T) {
	t.Parallel()
	const host = "demo-abc.localhost:8080"
	for sent, want := range map[string]error{
		"GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n":                                              nil,
		"POST /a HTTP/1.1\r\nA: b\r\nhost:DEMO-abc.localhost:8080\r\nContent-Length: 2\r\n\r\nhi":   nil,
		"GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n":                                            errElsewhere,
		"GET / HTTP/1.1\r\nHost: localhost:8080\r\n\r\n":                                            errElsewhere,
		"GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n":                                                errElsewhere,
		"GET / HTTP/1.1\r\nHost: rebound.example:8080\r\n\r\n":                                      errElsewhere,
		"GET / HTTP/1.1\r\nHost: demo-abc.localhost\r\n\r\n":                                        errElsewhere,
		"GET / HTTP/1.1\r\nHost: " + host + ".\r\n\r\n":                                             errElsewhere,
		"GET / HTTP/1.1\r\n\r\n":                                                                    errElsewhere,
		"GET / HTTP/1.0\r\n\r\n":                                                                    errElsewhere,
		"GET / HTTP/1.1\r\nHost: " + host + "\r\nHost: localhost:8080\r\n\r\n":                      errElsewhere,
		"GET http://localhost:8080/ HTTP/1.1\r\nHost: " + host + "\r\n\r\n":                         errElsewhere,
		"GET / HTTP/1.1\r\nHost: localhost:8080\r\n Host: " + host + "\r\n\r\n":                     errNotHTTP,
		"GET / HTTP/1.1\r\nHost : " + host + "\r\n\r\n":                                             errNotHTTP,
		"GET / HTTP/1.1\nHost: " + host + "\n\n":                                                    errNotHTTP,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":                                                          errNotHTTP,
		"\x16\x03\x01\x02\x00":                                                                      errNotHTTP,
		"GET / HTTP/1.1\r\nHost: ":                                                                  errNotHTTP,
		"":                                                                                          errNotHTTP,
		"GET / HTTP/1.1\r\nHost: " + host + "\r\nA: " + strings.Repeat("a", maxHead) + "\r\n\r\n":   nil,
		"GET / HTTP/1.1\r\nHost: " + host + "\r\nA: " + strings.Repeat("a", 2*maxHead) + "\r\n\r\n": errNotHTTP,
	} {
		name := sent[:min(len(sent), 80)]
		here, there := net.Pipe()
		answer := make(chan string, 1)
		go func() {
			_, _ = io.WriteString(there, sent) // ends when the other side closes
			if want == nil || errors.Is(want, errElsewhere) {
				text, _ := io.ReadAll(there)
				answer <- string(text)
			} else {
				answer <- ""
			}
			_ = there.Close()
		}()
		conn, err := checkHost(here, host)
		if !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", name, err, want)
		}
		if conn != nil {
			got := make([]byte, len(sent))
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != sent {
				t.Errorf("%q: the cell gets %q, %v", name, got, err)
			}
		}
		_ = here.Close()
		text := <-answer
		if errors.Is(want, errElsewhere) && (!strings.HasPrefix(text, "HTTP/1.1 421 ") || strings.Contains(text, "demo-abc")) {
			t.Errorf("%q: the client gets %q", name, text)
		}
	}
}

// TestPageName: a name is one label below localhost, whatever the cell is called, and
// another one each time.
func TestPageName(t *testing.T) {
	t.Parallel()
	for _, cell := range []string{"demo", "My_Cell.2", "...", strings.Repeat("long", 30)} {
		first, second := pageName(cell), pageName(cell)
		if !regexp.MustCompile(`^[a-z0-9][a-z0-9-]{17,61}[a-z0-9]\.localhost$`).MatchString(first) || first == second {
			t.Errorf("%s: %s, %s", cell, first, second)
		}
	}
}
