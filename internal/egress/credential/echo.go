package credential

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
)

// minEcho is the length of the shortest value that is searched for in answers: a
// shorter one could be an ordinary word.
const minEcho = 8

// Echo finds values in answers. An upstream may repeat what it was sent.
type Echo struct{ values [][]byte }

// Echo returns what masks all values of the Set in an answer; nil if there is nothing
// to mask.
func (s *Set) Echo() *Echo {
	var e Echo
	for _, entry := range s.entries {
		for _, v := range entry.values() {
			if len(v) >= minEcho {
				e.values = append(e.values, []byte(v))
			}
		}
	}
	if len(e.values) == 0 {
		return nil
	}
	return &e
}

// Covers reports whether some credential may go to a target.
func (s *Set) Covers(to Target) bool {
	return slices.ContainsFunc(s.entries, func(e *entry) bool { return e.covers(to) })
}

// Found reports whether a text holds a value.
func (e *Echo) Found(text []byte) bool {
	for _, v := range e.values {
		if bytes.Contains(text, v) {
			return true
		}
	}
	return false
}

// Header masks values in the fields of a header.
func (e *Echo) Header(h http.Header) {
	for _, list := range h {
		for i, v := range list {
			b := []byte(v)
			if e.mask(b) {
				list[i] = string(b)
			}
		}
	}
}

// mask overwrites values with asterisks of the same number, so that lengths stay.
func (e *Echo) mask(b []byte) (found bool) {
	for _, v := range e.values {
		for rest := b; ; {
			i := bytes.Index(rest, v)
			if i < 0 {
				break
			}
			found = true
			for j := range v {
				rest[i+j] = '*'
			}
			rest = rest[i+len(v):]
		}
	}
	return found
}

// Body masks values in a body while it is read. It holds back only bytes that could
// be the start of a value.
func (e *Echo) Body(from io.ReadCloser) io.ReadCloser { return &maskedBody{from: from, echo: e} }

type maskedBody struct {
	from io.ReadCloser
	echo *Echo
	buf  []byte
	// ready is the number of bytes at the start of buf that can be passed on.
	ready int
	err   error
}

func (m *maskedBody) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for m.ready == 0 {
		if m.err != nil {
			return 0, m.err
		}
		m.fill(len(p))
	}
	n := copy(p, m.buf[:m.ready])
	m.buf = m.buf[:copy(m.buf, m.buf[n:])]
	m.ready -= n
	if m.ready == 0 && len(m.buf) == 0 && m.err != nil {
		return n, m.err
	}
	return n, nil
}

// fill reads once, and masks what it has.
func (m *maskedBody) fill(size int) {
	old := len(m.buf)
	if cap(m.buf) < old+size {
		grown := make([]byte, old, old+size)
		copy(grown, m.buf)
		m.buf = grown
	}
	n, err := m.from.Read(m.buf[old : old+size])
	m.buf, m.err = m.buf[:old+n], err
	m.echo.mask(m.buf)
	m.ready = len(m.buf)
	if err == nil || !errors.Is(err, io.EOF) {
		m.ready = m.echo.open(m.buf)
	}
}

// open returns the index from which b could be the start of a value that continues
// after its end; len(b) if there is none.
func (e *Echo) open(b []byte) int {
	at := len(b)
	for _, v := range e.values {
		from := max(0, len(b)-len(v)+1)
		for {
			i := bytes.IndexByte(b[from:], v[0])
			if i < 0 || from+i >= at {
				break
			}
			from += i
			if bytes.HasPrefix(v, b[from:]) {
				at = from
				break
			}
			from++
		}
	}
	return at
}

func (m *maskedBody) Close() error { return m.from.Close() }
