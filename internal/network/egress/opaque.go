package egress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/network/egress/authority"
)

// maxHello bounds a ClientHello; post-quantum keys make it a few kilobytes.
const maxHello = 64 << 10

// serveOpaque forwards a connection without inspecting it. It dials at once,
// and forwards at once what the upstream sends first. It checks what the
// program sends first: a ClientHello must name the host that was resolved, or
// nothing of it is forwarded. TLS that starts later in a connection (STARTTLS)
// is not checked.
func (p *Proxy) serveOpaque(ctx context.Context, c *conn, v *view) {
	// Cutting the connection must not wait for a silent upstream.
	ctx, cancel := context.WithCancel(ctx)
	stop := c.whenDone(cancel)
	up, err := p.dialFor(ctx, c.to, v)
	stop()
	cancel()
	if err != nil {
		reset(c.Conn)
		p.recordConn(c, event.Failed, err)
		return
	}
	p.tunnel(c, up)
}

// dialFor connects to the host of a connection.
func (p *Proxy) dialFor(ctx context.Context, to place, v *view) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.lim.Dial)
	defer cancel()
	up, err := p.cfg.Dialer.Dial(ctx, to.host, to.port, v.allowed())
	if errors.Is(err, ErrDestination) {
		return nil, refuse(layerDestination, v.connection.Rule, err.Error())
	}
	return up, err
}

// tunnel copies both ways until both sides have ended or one has failed.
func (p *Proxy) tunnel(c *conn, up net.Conn) {
	addr := up.RemoteAddr().String()
	c.peer.Store(&addr)
	var wg sync.WaitGroup
	var refused error
	end := func() {
		_ = up.Close()
		reset(c.Conn)
	}
	wg.Go(func() {
		n, err := copyRaw(c.Conn, up)
		c.out.Add(n)
		if err != nil {
			end()
			return
		}
		closeWrite(c.Conn)
	})
	wg.Go(func() {
		defer c.sent()
		if refused = p.firstBytes(c, up); refused != nil {
			reset(up)
			reset(c.Conn)
			return
		}
		n, err := c.rest(up)
		c.in.Add(n)
		if err != nil {
			end()
			return
		}
		closeWrite(up)
	})
	stop := make(chan struct{})
	go func() {
		// Cutting the connection closes only the program's side.
		select {
		case <-c.done:
			_ = up.Close()
		case <-stop:
		}
	}()
	wg.Wait()
	close(stop)
	_ = up.Close()
	_ = c.Close()
	step := event.Closed
	if cause := c.why(); cause != nil {
		refused = cause
	}
	if refused != nil {
		step = event.Reset
	}
	p.recordConn(c, step, refused)
}

// firstBytes checks and forwards the first bytes of the program.
func (p *Proxy) firstBytes(c *conn, up net.Conn) error {
	var head [2]byte
	n, err := io.ReadFull(c, head[:1])
	if err == nil && head[0] == tlsHandshake {
		// Other protocols may start with this byte, for instance as a length;
		// the second byte of TLS is its major version.
		_ = c.SetReadDeadline(time.Now().Add(p.lim.Hello))
		var more int
		more, err = io.ReadFull(c, head[1:])
		n += more
	}
	if err == nil && head == [2]byte{tlsHandshake, 3} {
		err = p.forwardHello(c, up, head[:])
		_ = c.SetReadDeadline(time.Time{})
		return err
	}
	_ = c.SetReadDeadline(time.Time{})
	if n > 0 {
		// A write error occurs again when the rest is copied.
		_, _ = up.Write(head[:n])
	}
	return nil
}

func (p *Proxy) forwardHello(c *conn, up net.Conn, head []byte) error {
	hello, replay, err := authority.PeekHello(io.MultiReader(bytes.NewReader(head), c), maxHello)
	if err != nil {
		return refuse(layerTLS, "", "the ClientHello cannot be read: "+err.Error())
	}
	if err := checkServerName(hello.ServerName, c.to); err != nil {
		return err
	}
	_, _ = up.Write(replay)
	return nil
}

// rest copies what has not been read yet. Some may have been read ahead.
func (c *conn) rest(up net.Conn) (int64, error) {
	ahead := c.ahead
	c.ahead = nil
	if _, err := up.Write(ahead); err != nil {
		return 0, err
	}
	return copyRaw(up, c.Conn)
}

// copyRaw copies between sockets, by splice where both are TCP.
func copyRaw(dst, src net.Conn) (int64, error) {
	return io.Copy(unwrap(dst), unwrap(src))
}

// unwrap returns the socket below a connection that has nothing read ahead.
func unwrap(c net.Conn) net.Conn {
	for {
		inner, ok := c.(*conn)
		if !ok || len(inner.ahead) > 0 {
			return c
		}
		c = inner.Conn
	}
}
