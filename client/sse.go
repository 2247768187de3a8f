package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxEvent bounds one event of a stream.
const maxEvent = 64 << 20

// message is one event of a stream of server-sent events.
type message struct {
	id, name string
	data     []byte
}

// messages reads the events of a stream.
type messages struct{ r *bufio.Reader }

func newMessages(r io.Reader) messages { return messages{bufio.NewReader(r)} }

// next returns the next event. It returns io.EOF at the end of the stream; an event
// that is not complete there is dropped.
func (m messages) next() (message, error) {
	var out message
	size, any := 0, false
	for {
		line, err := m.line(maxEvent - size)
		if err != nil {
			return message{}, err
		}
		size += len(line)
		if len(line) == 0 {
			if any {
				return out, nil
			}
			continue
		}
		key, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(key) {
		case "event":
			out.name, any = string(value), true
		case "id":
			out.id, any = string(value), true
		case "data":
			if out.data != nil {
				out.data = append(out.data, '\n')
			}
			out.data, any = append(out.data, value...), true
		}
	}
}

// line returns a line of at most limit bytes, without its end.
func (m messages) line(limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := m.r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > limit:
			return nil, fmt.Errorf("an event of more than %d bytes", maxEvent)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return nil, err
		}
		return bytes.TrimRight(line, "\r\n"), nil
	}
}
