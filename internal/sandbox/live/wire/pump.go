package wire

import (
	"io"

	"github.com/forkcell/forkcell/internal/api/execwire"
)

// batch is how much a pump takes from the ring at once.
const batch = execwire.MaxData

// pump sends a session to one client: first what the caller has prepared, then
// credit and output as they arrive, last the exit or a failure, before which it
// calls ending. It returns when everything was sent or the client has
// disconnected.
func (s *exec) pump(a *attachment, w io.Writer, buf []byte, ending func()) {
	last := false
	for {
		if buf, last = s.take(a, buf); last {
			ending()
		}
		if len(buf) > 0 {
			if _, err := w.Write(buf); err != nil {
				return
			}
		}
		if last {
			return
		}
		buf = buf[:0]
	}
}

// take adds to buf what is to be sent to a client. It waits only if buf is
// empty.
func (s *exec) take(a *attachment, buf []byte) (_ []byte, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if a.gone {
			return nil, true
		}
		if a.failure != nil {
			return message(buf, execwire.Error, toWire(a.failure)), true
		}
		buf = s.takeCredit(a, buf)
		buf = s.takeOutput(a, buf)
		if s.ended && a.pos == s.out.end {
			return message(buf, execwire.Exit, s.exit), true
		}
		if len(buf) > 0 {
			return buf, false
		}
		s.changed.Wait()
	}
}

// takeCredit grants input in halves of a window. A client that has used up its
// window always gets another half, and one that types is not sent credit for
// every key.
func (s *exec) takeCredit(a *attachment, buf []byte) []byte {
	if a.credit < window/2 {
		return buf
	}
	buf = message(buf, execwire.Window, windowMessage{Bytes: a.credit})
	a.window += a.credit
	a.credit = 0
	return buf
}

func (s *exec) takeOutput(a *attachment, buf []byte) []byte {
	before := a.pos
	for left := batch; left > 0 && a.pos < s.out.end; {
		at := len(buf)
		buf = appendFrame(buf, execwire.Stdout, nil)
		body := len(buf)
		buf = grow(buf, min(left, int(s.out.end-a.pos)))
		stream, n := s.out.read(a.pos, buf[body:])
		a.pos += uint64(n)
		if a.refuses(stream) {
			buf = buf[:at] // so that an empty buf means the end of the ring
			continue
		}
		left -= n
		buf = buf[:body+n]
		setFrame(buf[at:], stream)
	}
	if a.pos != before && s.blocked > 0 {
		s.changed.Broadcast()
	}
	return buf
}

// grow lengthens b by n bytes.
func grow(b []byte, n int) []byte {
	if need := len(b) + n; need > cap(b) {
		b = append(make([]byte, 0, max(need, 2*cap(b))), b...)
	}
	return b[:len(b)+n]
}

// message adds one of the protocol's own messages, which can always be encoded.
func message(buf []byte, k execwire.Kind, v any) []byte {
	out, err := appendMessage(buf, k, v)
	if err != nil {
		out, _ = appendMessage(buf, execwire.Error, toWire(err))
	}
	return out
}
