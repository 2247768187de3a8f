// Package execwire is the conversation of a command's streams with its caller: frames of
// input, output, sizes and signals, the flow control of input, and both ends.
//
// [Caller] is the end of the caller, [Listen] and [Input] are that of the host of the
// command. Both talk through a [Conn]: a WebSocket (package execsocket) or the socket of
// a supervisor (internal/sandbox/live/wire). The package knows no sockets, no commands
// and no cells.
package execwire

import (
	"errors"
	"fmt"

	"github.com/forkcell/forkcell/internal/api"
)

// Conn carries frames. Send may be called by several goroutines, Receive by one. Close
// ends both.
type Conn interface {
	Send(f Frame) error
	// Receive returns the next frame. An error that wraps ErrFrame or ErrMessage is a
	// peer that breaks the protocol; after any other one the connection has ended.
	Receive() (Frame, error)
	Close() error
}

// Kind says what a frame is. The numbers are those of the live protocol, where a number is
// never reused for something else.
type Kind byte

const (
	Unknown   Kind = 0 // of a later version; the caller ignores it
	Error     Kind = 3 // host: a failure; last
	Result    Kind = 4 // host: the answer; last
	Started   Kind = 5 // host: the command runs
	Stdin     Kind = 6 // caller: bytes
	StdinEnd  Kind = 7 // caller: no more input
	Stdout    Kind = 8 // host: bytes
	Stderr    Kind = 9 // host: bytes
	Window    Kind = 10
	Resize    Kind = 11
	Signal    Kind = 12
	OutputEnd Kind = 13 // caller: takes no more of one stream
	Exit      Kind = 14 // host: how the command ended; last
)

const (
	// MaxData is how many bytes of a stream one frame has, and so how long one can delay
	// a signal.
	MaxData = 32 << 10
	// MaxInput bounds a frame of a caller that is not ours.
	MaxInput = 1 << 20
	// MaxFrame bounds every frame. The result of a run is the largest.
	MaxFrame = 64 << 20
	// InputWindow is how much input a caller may have on its way that the command has not
	// read, where the host names no window.
	InputWindow = 256 << 10
	// MaxUnread is how much unread input a host takes before it reads no more frames.
	MaxUnread = 1 << 20
)

// Frame is one frame. Besides Kind it has the field of its kind.
type Frame struct {
	Kind Kind
	// Data is bytes of a stream, or the document of Started, Exit, Result and Error. It is
	// valid until the next frame is received.
	Data []byte
	// Bytes is how much more input a Window allows.
	Bytes int
	// Size is the size of the terminal.
	Size api.WindowSize
	// Signal is the name of a signal without SIG, or its number if it has none.
	Signal string
	// Stderr chooses the stream of OutputEnd.
	Stderr bool
}

// ErrFrame and ErrMessage are the failures of a peer that breaks the protocol.
var (
	ErrFrame   = errors.New("malformed frame")
	ErrMessage = errors.New("malformed message")
)

// ErrDetached is the error of an input whose caller leaves the command running.
var ErrDetached = errors.New("detached")

// Command is what the frames of a caller are for.
type Command interface {
	// Input gets bytes that are valid until it returns.
	Input(p []byte) error
	EndInput()
	// EndOutput is called when the caller takes no more of a stream.
	EndOutput(stderr bool)
	Resize(size api.WindowSize)
	Signal(name string) error
}

// Listen passes the frames of a caller to a command until the connection ends or the
// caller breaks the protocol, and returns that error.
func Listen(conn Conn, c Command) error {
	for {
		f, err := conn.Receive()
		if err != nil {
			return err
		}
		switch f.Kind {
		case Stdin:
			err = c.Input(f.Data)
		case StdinEnd:
			c.EndInput()
		case OutputEnd:
			c.EndOutput(f.Stderr)
		case Resize:
			c.Resize(f.Size)
		case Signal:
			err = c.Signal(f.Signal)
		default:
			err = misplaced(f.Kind)
		}
		if err != nil {
			return err
		}
	}
}

func misplaced(k Kind) error {
	return &api.Error{Kind: api.Failed, Code: api.CodeProtocol, Message: fmt.Sprintf("a frame of type %d inside a session", k), Err: ErrFrame}
}
