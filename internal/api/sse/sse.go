// Package sse reads streams of events: server-sent events, or one document on each line.
//
// It must not know what an event says, or who sends it.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxEvent bounds one event of a stream.
const maxEvent = 64 << 20

// Event is one event of a stream.
type Event struct {
	ID, Name string
	Data     []byte
}

// Reader reads the events of a stream.
type Reader struct{ r *bufio.Reader }

// NewReader returns a reader of a stream.
func NewReader(r io.Reader) Reader { return Reader{bufio.NewReader(r)} }

// Next returns the next event. It returns io.EOF at the end of the stream; an event
// that is not complete there is dropped.
func (r Reader) Next() (Event, error) {
	var out Event
	size, any := 0, false
	for {
		line, err := r.line(maxEvent - size)
		if err != nil {
			return Event{}, err
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
			out.Name, any = string(value), true
		case "id":
			out.ID, any = string(value), true
		case "data":
			if out.Data != nil {
				out.Data = append(out.Data, '\n')
			}
			out.Data, any = append(out.Data, value...), true
		}
	}
}

// Line returns the next line of a stream that has one event on each.
func (r Reader) Line() ([]byte, error) { return r.line(maxEvent) }

// line returns a line of at most limit bytes, without its end.
func (r Reader) line(limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.r.ReadSlice('\n')
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
