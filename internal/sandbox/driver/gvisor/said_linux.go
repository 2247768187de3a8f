package gvisor

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// maxSaid bounds what is kept of the runtime's own messages, and a line of them.
const maxSaid = 4 << 10

// limitedText keeps the beginning of what the runtime says. Its lines about connects go
// to connect, if it is set. The guest may be able to write here, too: it is told no more
// than what a connect would say.
type limitedText struct {
	connect func(driver.Program, netip.AddrPort, bool)

	mu   sync.Mutex
	line []byte // that has not ended
	text []byte
	last error
}

func (l *limitedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		rest = after
		l.line = append(l.line, line[:min(len(line), maxSaid-len(l.line))]...)
		if ended {
			l.endLine()
		}
	}
	return len(p), nil
}

// endLine deals with the line that was read; l.mu is held.
func (l *limitedText) endLine() {
	if to, udp, ok := parseConnect(l.line); ok && l.connect != nil {
		if !inCell(to) {
			l.connect(driver.Program{}, to, udp)
		}
	} else {
		l.keep(append(l.line, '\n'))
	}
	l.line = l.line[:0]
}

// keep keeps more of the runtime's own messages.
func (l *limitedText) keep(p []byte) {
	l.text = append(l.text, p[:min(len(p), maxSaid-len(l.text))]...)
}

// keptMessages returns the messages with the last line, which may not have ended; l.mu is held.
func (l *limitedText) keptMessages() []byte {
	return append(slices.Clone(l.text), l.line[:min(len(l.line), maxSaid-len(l.text))]...)
}

// parseConnect reads a line of the runtime about a connect.
func parseConnect(line []byte) (to netip.AddrPort, udp, ok bool) {
	f := strings.Split(string(line), " ")
	if len(f) != 3 || f[0] != "connect" || f[1] != "tcp" && f[1] != "udp" {
		return to, false, false
	}
	to, err := netip.ParseAddrPort(f[2])
	// The runtime writes neither.
	return to, f[1] == "udp", err == nil && to.Addr().Zone() == "" && !to.Addr().Is4In6()
}

// inCell reports whether an address is the cell itself, or none. Programs connect to
// port 0 to learn their own address.
func inCell(to netip.AddrPort) bool {
	return to.Port() == 0 || to.Addr().IsLoopback() || to.Addr().IsUnspecified()
}

// end is called when the runtime has ended.
func (l *limitedText) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = err
	l.text, l.line = l.keptMessages(), nil
}

// failure is why a command of the runtime failed: the first line of what it said, or
// that the disk is full.
func (l *limitedText) failure(code int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.keptMessages()
	if bytes.Contains(text, []byte(unix.ENOSPC.Error())) {
		return unix.ENOSPC
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if first == "" { // it was killed
		return fmt.Errorf("exit code %d", code)
	}
	return fmt.Errorf("exit code %d: %q", code, first)
}

// err is why the runtime has ended.
func (l *limitedText) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Errorf("the runtime has ended: %w: %q", l.last, strings.TrimSpace(string(l.keptMessages())))
}
