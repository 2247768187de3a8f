package egress

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/forkcell/forkcell/internal/event"
)

// served is a connection as the server for HTTP/1.1 has it, within TLS. It
// sees what the server answers by itself: to a request that it cannot read, or
// that could be read in two ways, of which no handler ever hears.
type served struct {
	net.Conn
	c *conn
}

// serving prepares a connection for the server. HTTP/2 needs TLS's own type.
func serving(c *conn, secure *tls.Conn) net.Conn {
	switch {
	case secure == nil:
		return &served{c, c}
	case secure.ConnectionState().NegotiatedProtocol == "h2":
		return secure
	}
	return &served{secure, c}
}

// NetConn leads to the connection below.
func (s *served) NetConn() net.Conn { return s.Conn }

// CloseWrite passes an end of data on.
func (s *served) CloseWrite() error {
	closeWrite(s.Conn)
	return nil
}

func (s *served) Write(b []byte) (int, error) {
	if s.c.unheard.Load() {
		if status, ok := bytes.CutPrefix(b, []byte("HTTP/1.1 ")); ok {
			s.c.unheard.Store(false)
			status, _, _ = bytes.Cut(status, []byte("\r\n"))
			s.c.p.recordMalformed(s.c, string(status))
		}
	}
	return s.Conn.Write(b)
}

// connState is told by the server when a request has come, before its handler is
// called or the server answers it by itself. Of one that came together with the
// request before it nothing is told but that that one is over.
func connState(raw net.Conn, state http.ConnState) {
	if s, ok := raw.(*served); ok && (state == http.StateActive || state == http.StateIdle) {
		s.c.unheard.Store(true)
	}
}

// recordMalformed tells of a request that the server itself refused. All that is
// known of it is the status line of the answer.
func (p *Proxy) recordMalformed(c *conn, status string) {
	if !p.enter(func() { p.wg.Add(1) }) {
		return
	}
	defer p.wg.Done()
	f := &flight{c: c, start: time.Now(), to: c.to, scheme: c.scheme()}
	q := f.event()
	if len(status) >= 3 {
		q.Status, _ = strconv.Atoi(status[:3])
	}
	s := p.subject(c, event.Denied)
	s.Rule, s.Reason = "request", layerRequest+": not a request that can be read in one way only: "+status
	p.emit(event.HTTP(s, q))
}

func (c *conn) scheme() string {
	if c.secure {
		return "https"
	}
	return "http"
}
