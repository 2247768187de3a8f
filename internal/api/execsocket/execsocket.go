// Package execsocket carries the streams of a command in a WebSocket: it is a transport
// of package execwire. The messages are those of docs/reference/api.md.
//
// The package knows no commands, and no requests: who dials or accepts the socket hands it
// over.
package execsocket

import (
	"context"
	"errors"
	"time"

	"github.com/coder/websocket"

	"github.com/forkcell/forkcell/internal/api/execwire"
)

const (
	// Protocol is the subprotocol of the sockets of commands.
	Protocol = "forkcell.exec.v1"
	// Acknowledged is the same with messages that acknowledge input: a caller that waits
	// for them can always send a signal.
	Acknowledged = Protocol + ".acknowledged"
)

// Protocols are the subprotocols of the sockets of commands, best first.
func Protocols() []string { return []string{Acknowledged, Protocol} }

// Conn is one end of a socket.
type Conn struct {
	ws    *websocket.Conn
	ctx   context.Context //nolint:containedctx // it is the connection's: frames have none
	limit time.Duration   // of a write; 0 for none
	parse func(kind websocket.MessageType, data []byte) (execwire.Frame, error)
}

// NewCaller returns the end of a caller, and the window of its input. The socket is used
// until ctx ends.
func NewCaller(ctx context.Context, ws *websocket.Conn) (c *Conn, window int) {
	ws.SetReadLimit(execwire.MaxFrame)
	if window = execwire.Unlimited; ws.Subprotocol() == Acknowledged {
		window = execwire.InputWindow
	}
	return &Conn{ws: ws, ctx: ctx, parse: parseHost}, window
}

// NewHost returns the end of a host. Reading and writing go on after the end of ctx, until
// the socket is closed. A caller that does not take a message in the time limit is cut off.
func NewHost(ctx context.Context, ws *websocket.Conn, limit time.Duration) *Conn {
	ws.SetReadLimit(execwire.MaxInput)
	return &Conn{ws: ws, ctx: context.WithoutCancel(ctx), limit: limit, parse: parseCaller}
}

// Receive implements execwire.Conn.
func (c *Conn) Receive() (execwire.Frame, error) {
	kind, data, err := c.ws.Read(c.ctx)
	if err != nil {
		return execwire.Frame{}, err
	}
	return c.parse(kind, data)
}

// Send implements execwire.Conn.
func (c *Conn) Send(f execwire.Frame) error {
	kind, data, err := message(f)
	if err != nil || data == nil {
		return err
	}
	if f.Kind == execwire.Window && c.ws.Subprotocol() != Acknowledged {
		return nil // the caller does not know it
	}
	ctx := c.ctx
	if c.limit > 0 {
		limited, cancel := context.WithTimeout(ctx, c.limit)
		defer cancel()
		ctx = limited
	}
	err = c.ws.Write(ctx, kind, data)
	if err != nil && c.limit > 0 && ctx.Err() != nil {
		_ = c.ws.CloseNow()
	}
	return err
}

// Close implements execwire.Conn.
func (c *Conn) Close() error { return c.ws.CloseNow() }

// Refuse closes the socket of a peer that breaks the protocol, with the code for that. Other
// errors are those of a socket that has ended.
func (c *Conn) Refuse(err error) {
	switch {
	case errors.Is(err, execwire.ErrFrame):
		_ = c.ws.Close(websocket.StatusProtocolError, execwire.ErrFrame.Error())
	case errors.Is(err, execwire.ErrMessage):
		_ = c.ws.Close(websocket.StatusPolicyViolation, execwire.ErrMessage.Error())
	}
}
