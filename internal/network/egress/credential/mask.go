package credential

import (
	"encoding/binary"
	"errors"
	"io"
)

// Mask masks values in one stream, at the same length. It holds back only bytes that
// could be the start of a value.
type Mask struct {
	// Echo returns what finds the values at this time: new ones may come while the
	// stream flows.
	Echo func() *Echo

	// buf has what was passed on last, in its first bytes, and what is held back.
	buf    []byte
	passed int
	// covered is how many of the bytes that are held back belong to a value that
	// begins before them.
	covered int
	spans   []span
}

// Next adds bytes to the stream, and returns those that can be passed on. They are
// good until the next call. last says that the stream ends here; the next one may
// follow.
func (m *Mask) Next(b []byte, last bool) []byte {
	m.buf = append(m.buf[:copy(m.buf, m.buf[m.passed:])], b...)
	open, spans := m.Echo().scan(m.buf, m.spans[:0])
	if last {
		open = len(m.buf)
	}
	blank(m.buf[:min(m.covered, open)])
	covered := max(0, m.covered-open)
	for _, s := range spans {
		if s.from >= open {
			continue // found again when it is passed on
		}
		blank(m.buf[s.from:min(s.to, open)])
		covered = max(covered, s.to-open)
	}
	m.spans, m.passed, m.covered = spans, open, covered
	return m.buf[:open]
}

// Body masks values in a body while it is read.
func (m *Mask) Body(from io.ReadCloser) io.ReadCloser { return &maskedBody{from: from, mask: m} }

// Calls masks values in a body of gRPC while it is read. A message does not wait for
// the next one, so a value in two messages is not found.
func (m *Mask) Calls(from io.ReadCloser) io.ReadCloser {
	return &maskedBody{from: from, mask: m, calls: &messageFinder{}}
}

type maskedBody struct {
	from  io.ReadCloser
	mask  *Mask
	calls *messageFinder // nil if the body has no messages
	out   []byte
	err   error
}

// maxPiece bounds what is read at once: the mask has a copy of it.
const maxPiece = 32 << 10

func (m *maskedBody) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(m.out) == 0 {
		if m.err != nil {
			return 0, m.err
		}
		var n int
		n, m.err = m.from.Read(p[:min(len(p), maxPiece)])
		m.out = m.out[:0]
		for b := p[:n]; len(b) > 0; {
			k, last := m.calls.next(b)
			m.out = append(m.out, m.mask.Next(b[:k], last)...)
			b = b[k:]
		}
		if errors.Is(m.err, io.EOF) {
			m.out = append(m.out, m.mask.Next(nil, true)...)
		}
	}
	n := copy(p, m.out)
	if m.out = m.out[n:]; len(m.out) == 0 {
		return n, m.err
	}
	return n, nil
}

func (m *maskedBody) Close() error { return m.from.Close() }

// messageFinder finds the messages of gRPC in a stream. Before each are five bytes, of which
// the last four are its length.
type messageFinder struct {
	head []byte
	left int64
}

// next returns how much of b belongs to the current message, and whether it ends
// there.
func (c *messageFinder) next(b []byte) (n int, last bool) {
	if c == nil {
		return len(b), false
	}
	for n < len(b) {
		if c.left > 0 {
			k := min(c.left, int64(len(b)-n))
			c.left -= k
			n += int(k)
		} else {
			c.head = append(c.head, b[n])
			n++
			if len(c.head) < 5 {
				continue
			}
			c.left = int64(binary.BigEndian.Uint32(c.head[1:]))
			c.head = c.head[:0]
		}
		if c.left == 0 {
			return n, true
		}
	}
	return n, false
}
