package names

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// maxMessage is larger than any valid question.
	maxMessage = 4096
	// giveUp is after how many consecutive errors a socket counts as broken.
	giveUp  = 50
	backOff = 20 * time.Millisecond
)

// ServeUDP answers on a socket until it is closed, which is no error. Messages
// are answered one after the other: an answer takes microseconds, and what does
// not fit the socket's buffer is dropped by the kernel.
func (s *Server) ServeUDP(conn net.PacketConn) error {
	s.start()
	buf := make([]byte, maxMessage)
	for failures := 0; ; {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			if failures++; dead(err, failures) {
				return closed(err)
			}
			s.pause(backOff)
			continue
		}
		failures = 0
		if out := s.respond(buf[:n], Client{Addr: addrOf(from)}); out != nil {
			// Ignore the error: the client has gone away or cannot be reached.
			_, _ = conn.WriteTo(out, from)
		}
	}
}

// ServeTCP answers on the connections of a listener until it is closed, which
// is no error; then it closes them. A client may send many questions without
// waiting, and gets the answers in their order.
func (s *Server) ServeTCP(l net.Listener) error {
	s.start()
	open := conns{limit: or(s.Limits.Conns, defaultConns)}
	defer open.end()
	for failures := 0; ; {
		c, err := l.Accept()
		if err != nil {
			if failures++; dead(err, failures) {
				return closed(err)
			}
			s.pause(backOff)
			continue
		}
		failures = 0
		if !open.serve(c, s.conversation) {
			_ = c.Close()
		}
	}
}

func dead(err error, failures int) bool {
	return errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || failures >= giveUp
}

func closed(err error) error {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// conversation answers on a connection until the first invalid message.
func (s *Server) conversation(c net.Conn) {
	client, idle := Client{Addr: addrOf(c.RemoteAddr()), Conn: c}, or(s.Limits.Idle, defaultIdle)
	buf := make([]byte, 2+maxMessage)
	for {
		if c.SetDeadline(time.Now().Add(idle)) != nil {
			return
		}
		if _, err := io.ReadFull(c, buf[:2]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint16(buf))
		if n > maxMessage {
			return
		}
		if _, err := io.ReadFull(c, buf[:n]); err != nil {
			return
		}
		out := s.respond(buf[:n], client)
		if out == nil {
			return
		}
		// One write: some clients read the length and the message as one.
		msg := append(binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(out)), uint16(len(out))), out...)
		if _, err := c.Write(msg); err != nil {
			return
		}
	}
}

// conns are the open connections of a listener.
type conns struct {
	limit int
	mu    sync.Mutex
	open  map[net.Conn]struct{}
	group sync.WaitGroup
}

// serve reports whether there was room for one more.
func (o *conns) serve(c net.Conn, f func(net.Conn)) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.open) >= o.limit {
		return false
	}
	if o.open == nil {
		o.open = make(map[net.Conn]struct{})
	}
	o.open[c] = struct{}{}
	o.group.Go(func() {
		defer o.drop(c)
		f(c)
	})
	return true
}

func (o *conns) drop(c net.Conn) {
	_ = c.Close()
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.open, c)
}

func (o *conns) end() {
	o.mu.Lock()
	for c := range o.open {
		_ = c.Close()
	}
	o.mu.Unlock()
	o.group.Wait()
}
