package wire

import (
	"encoding/json"
	"net"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api/execwire"
)

// frameConn is the supervisor's socket as the transport of a command's streams.
type frameConn struct {
	*net.UnixConn
	in *frameReader

	mu  sync.Mutex // frames are written whole
	buf []byte
}

// Send implements execwire.Conn.
func (c *frameConn) Send(f execwire.Frame) error {
	payload, err := payloadOf(f)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buf = appendFrame(c.buf[:0], f.Kind, payload)
	_, err = c.Write(c.buf)
	return err
}

func payloadOf(f execwire.Frame) ([]byte, error) {
	switch f.Kind {
	case execwire.Window:
		return json.Marshal(windowMessage{Bytes: f.Bytes})
	case execwire.Resize:
		return json.Marshal(f.Size)
	case execwire.Signal:
		return json.Marshal(signalMessage{Signal: signalNumber(f.Signal)})
	case execwire.OutputEnd:
		return json.Marshal(outputEndMessage{Stderr: f.Stderr})
	default:
		return f.Data, nil
	}
}

// Receive implements execwire.Conn.
func (c *frameConn) Receive() (execwire.Frame, error) {
	k, payload, err := c.in.next()
	if err != nil {
		return execwire.Frame{}, err
	}
	f := execwire.Frame{Kind: k, Data: payload}
	switch k {
	case execwire.Window:
		var m windowMessage
		err = decode(payload, &m)
		f.Bytes = m.Bytes
	case execwire.Resize:
		err = decode(payload, &f.Size)
	case execwire.Signal:
		var m signalMessage
		if err = decode(payload, &m); err == nil && (m.Signal < 1 || m.Signal > maxSignal) {
			err = protocolError("there is no signal %d", m.Signal)
		}
		f.Signal = signalName(m.Signal)
	case execwire.OutputEnd:
		var m outputEndMessage
		err = decode(payload, &m)
		f.Stderr = m.Stderr
	default:
	}
	return f, err
}

// maxSignal is Linux's highest.
const maxSignal = 64

// signalName returns the name of a signal without SIG, or its number if it has none.
func signalName(n int) string {
	if name := unix.SignalName(unix.Signal(n)); name != "" {
		return strings.TrimPrefix(name, "SIG")
	}
	return strconv.Itoa(n)
}

// signalNumber is the opposite of signalName; 0 means that there is no such signal.
func signalNumber(name string) int {
	if n := unix.SignalNum("SIG" + name); n != 0 {
		return int(n)
	}
	n, _ := strconv.Atoi(name)
	return n
}
