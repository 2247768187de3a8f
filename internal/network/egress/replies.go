package egress

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/forkcell/forkcell/internal/network/egress/credential"
)

// replies reads what an upstream sends on a websocket, and masks values of
// credentials in it. The lengths of frames stay. A message may be in several frames,
// with control frames between them, and a value in several of these.
type replies struct {
	from io.Reader
	echo func() *credential.Echo
	mask credential.Mask

	// head is the part of a frame's header that has come; of a control frame also its data.
	head []byte
	// left is how much of the data of the current frame is still to come.
	left uint64
	// final reports that the current frame is the last of its message.
	final     bool
	inMessage bool

	// held is the order of what has come and is not ready. waiting is how much of it
	// is not data of the message.
	held    []piece
	waiting int
	ready   []byte
	err     error
}

// piece is a part of the stream: text as it is, or a number of bytes of the message,
// which the mask holds.
type piece struct {
	text []byte
	data int
}

// maxWaiting bounds the headers and control frames that wait for the rest of what
// could be a value.
const maxWaiting = 16 << 10

func newReplies(from io.Reader, echo func() *credential.Echo) *replies {
	return &replies{from: from, echo: echo, mask: credential.Mask{Echo: echo}}
}

func (r *replies) Read(p []byte) (int, error) {
	for len(r.ready) == 0 && len(p) > 0 {
		if r.err != nil {
			return 0, r.err
		}
		n, err := r.from.Read(p)
		r.ready = r.ready[:0]
		if r.err = r.take(p[:n]); r.err == nil {
			r.err = err
		}
		if errors.Is(r.err, io.EOF) {
			r.pass(r.mask.Next(nil, true))
		}
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

// take reads the frames in b.
func (r *replies) take(b []byte) error {
	for len(b) > 0 {
		if r.left > 0 {
			n := int(min(r.left, uint64(len(b))))
			r.left -= uint64(n)
			r.held = append(r.held, piece{data: n})
			r.pass(r.mask.Next(b[:n], r.final && r.left == 0))
			b = b[n:]
			continue
		}
		r.head, b = append(r.head, b[0]), b[1:]
		whole, err := r.header()
		if err != nil {
			return err
		}
		if !whole {
			continue
		}
		r.held = append(r.held, piece{text: r.head})
		r.waiting += len(r.head)
		r.head = nil
		r.pass(r.mask.Next(nil, r.final && r.left == 0))
		if r.waiting > maxWaiting {
			return &frameError{"its frames are too short"}
		}
	}
	return nil
}

// header reports whether head is complete, and then begins the frame.
func (r *replies) header() (whole bool, err error) {
	if len(r.head) < 2 {
		return false, nil
	}
	if err := checkFrame(r.head, false, r.inMessage); err != nil {
		return false, err
	}
	size, n, ok := uint64(r.head[1]), 2, true
	switch {
	case size == 126 && len(r.head) == 4:
		size, n = uint64(binary.BigEndian.Uint16(r.head[2:])), 4
	case size == 127 && len(r.head) == 10:
		size, n = binary.BigEndian.Uint64(r.head[2:]), 10
	case size >= 126:
		ok = false
	}
	if r.head[0]&0x0f < opClose {
		if ok {
			r.left, r.final, r.inMessage = size, r.head[0]&0x80 != 0, r.head[0]&0x80 == 0
		}
		return ok, nil
	}
	if size > 125 {
		return false, &frameError{"a control frame of the websocket is too long"}
	}
	if len(r.head) < n+int(size) {
		return false, nil
	}
	r.head = append(r.head[:n], r.echo().Text(string(r.head[n:]))...)
	return true, nil
}

// pass moves to ready what no longer waits: data of the message, and what is between
// it.
func (r *replies) pass(data []byte) {
	for len(r.held) > 0 {
		first := &r.held[0]
		if first.data > len(data) {
			r.ready = append(r.ready, data...)
			first.data -= len(data)
			return
		}
		r.ready = append(append(r.ready, first.text...), data[:first.data]...)
		data = data[first.data:]
		r.waiting -= len(first.text)
		r.held = r.held[1:]
	}
}
