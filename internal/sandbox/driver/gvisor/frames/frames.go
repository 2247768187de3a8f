// Package frames carries what the host and the process that serves a guest's commands
// say to each other, over one pair of byte streams: the process's standard streams.
//
// Orders and reports are messages of package protocol. The streams of commands are
// carried beside them. Each has a window: a side sends no more than the other one has
// room for, so an unread stream does not block others, and no side keeps more
// than a window of it in memory.
//
// Both ends link the package. It knows neither.
package frames

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Kind says what a frame is.
type Kind byte

// The kinds of frames, by who sends them.
const (
	// Hello is the host's first, with a protocol.Guest.
	Hello Kind = 1 + iota
	// Order, of the host, has a protocol.Order, and Report, of the guest, a
	// protocol.Report.
	Order
	Report
	// Data, of both, is a piece of a stream, and End says that there is no more.
	Data
	End
	// Taken, of both, says how many bytes of a stream have been used, and Stop that no
	// more of it are wanted.
	Taken
	Stop
	// Resize, of the host, changes a terminal's size: rows and columns.
	Resize
	// KillAll, of the host, ends every process but the one that reads it.
	KillAll
	// List, of the host, asks for a protocol.GuestProcesses. The answer is a List with
	// the same number.
	List
	// Terminate, of the host, asks every process to end, and tells how many
	// milliseconds to wait. The answer is a Terminate with the same number: one byte, 1
	// if all have ended.
	Terminate
	// Hold, of the host, asks the guest to say nothing until Release or Renew, and is
	// answered with a Hold. A guest that is saved between the two has read whole frames
	// only, and written whole ones. Renew tells a restored guest that this host knows of
	// no output that was sent before: every stream has its whole room.
	Hold
	Release
	Renew
	// Rest, of the host, asks for what a stream of a command that has ended holds, and
	// for its end then, even if a process has it open.
	Rest
)

// The streams of a command. A terminal's output is Out.
const (
	Out byte = iota
	Err
	In
	Streams
)

// Window is how much of a stream may be under way.
const Window = 256 << 10

// piece bounds the data of one frame of a stream.
const piece = 32 << 10

// The longest frames: arguments and environment of some megabytes for the guest,
// reports and pieces of streams for the host.
const (
	MaxToGuest = 16 << 20
	MaxToHost  = 4 << 20
)

// ErrMalformed means that the other side does not keep the protocol.
var ErrMalformed = errors.New("malformed frame")

// Frame is one thing that is said.
type Frame struct {
	Kind Kind
	// Stream is which of a command's, and ID the number of the command or question.
	Stream byte
	ID     uint32
	Data   []byte
}

const headSize = 10

// Conn is one end. One goroutine may read, many may write.
type Conn struct {
	r    *bufio.Reader
	max  uint32
	send chan struct{} // full while a writer has the connection
	w    io.Writer
}

// New returns an end that reads frames with up to max bytes of data.
func New(r io.Reader, w io.Writer, max uint32) *Conn {
	return &Conn{r: bufio.NewReaderSize(r, 2*piece), w: w, max: max, send: make(chan struct{}, 1)}
}

// Read returns the next frame. io.EOF means that the other side is gone.
func (c *Conn) Read() (Frame, error) {
	var head [headSize]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.EOF
		}
		return Frame{}, err
	}
	f := Frame{Kind: Kind(head[0]), Stream: head[1], ID: binary.LittleEndian.Uint32(head[2:])}
	size := binary.LittleEndian.Uint32(head[6:])
	if size > c.max || f.Stream >= Streams {
		return Frame{}, fmt.Errorf("%w: kind %d, %d bytes", ErrMalformed, f.Kind, size)
	}
	f.Data = make([]byte, size)
	if _, err := io.ReadFull(c.r, f.Data); err != nil {
		return Frame{}, io.EOF
	}
	return f, nil
}

// Write sends a frame.
func (c *Conn) Write(f Frame) error {
	c.send <- struct{}{}
	defer func() { <-c.send }()
	_, err := c.w.Write(f.bytes())
	return err
}

func (f Frame) bytes() []byte {
	b := make([]byte, headSize, headSize+len(f.Data))
	b[0], b[1] = byte(f.Kind), f.Stream
	binary.LittleEndian.PutUint32(b[2:], f.ID)
	binary.LittleEndian.PutUint32(b[6:], uint32(len(f.Data)))
	return append(b, f.Data...)
}

// WriteAndHold sends a frame as the last one until Resume.
func (c *Conn) WriteAndHold(f Frame) error {
	c.send <- struct{}{}
	_, err := c.w.Write(f.bytes())
	if err != nil {
		<-c.send
	}
	return err
}

// Resume sends a frame as the first one after WriteAndHold, if it has a kind.
func (c *Conn) Resume(f Frame) error {
	defer func() { <-c.send }()
	if f.Kind == 0 {
		return nil
	}
	_, err := c.w.Write(f.bytes())
	return err
}

// Number returns a number as the data of a frame.
func Number(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }

// ReadNumber reads what Number returned.
func ReadNumber(b []byte) (uint32, error) {
	if len(b) != 4 {
		return 0, fmt.Errorf("%w: a number of %d bytes", ErrMalformed, len(b))
	}
	return binary.LittleEndian.Uint32(b), nil
}
