package egress

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/policy"
)

// servedConn is a connection as the HTTP/1.1 server uses it, within TLS. It sees
// the answers that the server makes without calling a handler: to a request
// that it cannot read, or that could be read in two ways.
type servedConn struct {
	net.Conn
	c *conn
	// over reports that the program sends nothing more. The server also answers
	// an incomplete request, which is not recorded as one.
	over atomic.Bool
	// timed reports that reads have a deadline, as those of a header have.
	timed atomic.Bool
}

// SetReadDeadline sets the deadline of reads.
func (s *servedConn) SetReadDeadline(t time.Time) error {
	s.timed.Store(time.Until(t) > 0)
	return s.Conn.SetReadDeadline(t)
}

func (s *servedConn) Read(b []byte) (int, error) {
	if len(b) == 1 && !s.timed.Load() {
		// While a request is answered the server reads one byte ahead, to
		// detect that the program is gone. Proxy.endGone does that without a
		// goroutine that waits for each request.
		return 0, nil
	}
	n, err := s.Conn.Read(b)
	s.c.head.came(b[:n])
	if !s.c.header.came(n, &s.c.account) {
		s.c.cut(s.c.p.overBudget(layerRequest))
		return 0, errClosed
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		s.over.Store(true)
	}
	return n, err
}

// NetConn returns the connection below.
func (s *servedConn) NetConn() net.Conn { return s.Conn }

// CloseWrite ends the sending side of the connection below.
func (s *servedConn) CloseWrite() error {
	closeWrite(s.Conn)
	return nil
}

func (s *servedConn) Write(b []byte) (int, error) {
	if s.c.unhandled.Load() && !s.over.Load() {
		if status, ok := bytes.CutPrefix(b, []byte("HTTP/1.1 ")); ok {
			s.c.unhandled.Store(false)
			status, _, _ = bytes.Cut(status, []byte("\r\n"))
			code, _ := strconv.Atoi(string(status[:min(3, len(status))]))
			s.c.p.recordMalformed(s.c, code, string(status))
		}
	}
	return s.Conn.Write(b)
}

// connState is called by the servers when a request has arrived, before its
// handler is called or the server itself answers it. For an HTTP/1.1 request
// that arrived together with the previous one, it is called only for the end of
// the previous one. For a stream of HTTP/2 while others are open, it is not
// called.
func connState(raw net.Conn, state http.ConnState) {
	switch s := raw.(type) {
	case *servedConn:
		if state == http.StateActive || state == http.StateIdle {
			s.c.unhandled.Store(true)
		}
		if state == http.StateIdle {
			s.c.head.begin()
			s.c.header.begin(&s.c.account)
		}
	case *framedConn:
		if state == http.StateActive {
			s.awaited.Store(s.opened.Load())
			s.c.unhandled.Store(true)
		}
	}
}

// recordMalformed records a request that the server itself refused. Only the
// server's message is known, and the status if it was an answer.
func (p *Proxy) recordMalformed(c *conn, status int, said string) {
	if !p.enter(func() { p.wg.Add(1) }) {
		return
	}
	defer p.wg.Done()
	f := &flight{c: c, start: time.Now(), to: c.to, scheme: c.scheme()}
	q := f.event()
	q.Status = status
	s := p.denial(c, refuse(layerRequest, "request", "not a request that can be read in one way only: "+said))
	p.emit(event.HTTP(s, q))
}

func (c *conn) scheme() string {
	if c.secure {
		return policy.HTTPS
	}
	return policy.HTTP
}
