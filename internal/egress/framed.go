package egress

import (
	"crypto/tls"
	"encoding/binary"
	"net"
	"net/http"
	"sync/atomic"
)

// framed is a connection as the server for HTTP/2 has it, within TLS. The server
// tells nobody of a request that it cannot read: it resets the stream, ends the
// connection or answers by itself. Its hook for counting errors does not know
// connections and is not called for the header block, so the frames that it
// writes are looked at instead. Of the program's frames only the numbers of
// streams are of interest.
type framed struct {
	net.Conn // TLS, without a ConnectionState: the server is not to take it for its own
	c        *conn

	// got is how much of the preface has come; -1 if it was another.
	got int
	// in and out are the frames of the program and of the server. One goroutine
	// at a time reads, and one writes.
	in, out frames
	// opened is the last stream that the program has opened.
	opened atomic.Uint32
	// awaited is the stream whose answer is the server's own if no handler has
	// heard of it: see conn.unheard.
	awaited atomic.Uint32
	// told counts events about streams; ended says that there was one about the
	// connection.
	told  int
	ended bool
	// stalled says that the server waits for the program to read; unanswered
	// counts the frames that have come meanwhile, to which it may have answers.
	stalled    atomic.Bool
	unanswered int
}

const (
	preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	// maxTold bounds the events about streams of one connection.
	maxTold = 16
	// maxUnanswered bounds what the server keeps for a program that does not
	// read.
	maxUnanswered = 1024
)

// frames finds the frames in what goes one way, however it is cut.
type frames struct {
	// head is a frame's header and the first bytes behind it.
	head [frameHeader + 8]byte
	n    int
	// skip is how much of the last frame is still to come.
	skip int
}

const frameHeader = 9

// Types of frames that say something.
const (
	frameHeaders = 0x1
	frameReset   = 0x3
	frameGoAway  = 0x7
)

// next returns the beginning of the next frame, nil if there is none yet, and
// what follows of the bytes.
func (f *frames) next(b []byte) (head, rest []byte) {
	for {
		n := min(f.skip, len(b))
		f.skip -= n
		b = b[n:]
		want, length := frameHeader, 0
		if f.n >= frameHeader {
			length = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
			want += min(length, len(f.head)-frameHeader)
		}
		if f.n >= frameHeader && f.n == want {
			f.n, f.skip = 0, length-(want-frameHeader)
			return f.head[:want], b
		}
		if len(b) == 0 {
			return nil, nil
		}
		n = copy(f.head[f.n:want], b)
		f.n += n
		b = b[n:]
	}
}

func (w *framed) NetConn() net.Conn { return w.Conn }

func (w *framed) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.came(b[:n])
	return n, err
}

// came looks at bytes of the program.
func (w *framed) came(b []byte) {
	for ; len(b) > 0 && w.got >= 0 && w.got < len(preface); b = b[1:] {
		if b[0] != preface[w.got] {
			w.got = -1
			w.c.p.recordMalformed(w.c, 0, "HTTP/2 was agreed on, and something else was sent")
			return
		}
		w.got++
	}
	if w.got < 0 {
		return
	}
	for {
		var head []byte
		if head, b = w.in.next(b); head == nil {
			return
		}
		if w.stalled.Load() {
			w.unanswered++
		}
		opens := false
		if id := binary.BigEndian.Uint32(head[5:]); head[3] == frameHeaders && id > w.opened.Load() {
			w.opened.Store(id)
			opens = true
		}
		if w.unanswered > maxUnanswered || opens && !w.c.account.take(streamCost) {
			w.c.cut(w.c.p.overBudget(layerRequest))
			return
		}
	}
}

func (w *framed) Write(b []byte) (int, error) {
	for left := b; ; {
		var head []byte
		if head, left = w.out.next(left); head == nil {
			w.stalled.Store(true)
			defer w.stalled.Store(false)
			return w.Conn.Write(b)
		}
		switch kind, payload := head[3], head[frameHeader:]; {
		case kind == frameHeaders && len(payload) > 0:
			w.answered(binary.BigEndian.Uint32(head[5:]), payload[0])
		case kind == frameReset && len(payload) >= 4:
			w.reset(binary.BigEndian.Uint32(payload))
		case kind == frameGoAway && len(payload) >= 8:
			w.end(binary.BigEndian.Uint32(payload[4:]))
		}
	}
}

// answered is told of every answer's header, and of trailers. The server itself
// answers a header that is too long, and one with fields that are not for HTTP/2.
func (w *framed) answered(stream uint32, first byte) {
	if stream != w.awaited.Load() || !w.c.unheard.CompareAndSwap(true, false) {
		return
	}
	status := http.StatusRequestHeaderFieldsTooLarge
	if first == 0x8c { // HPACK for ":status: 400"
		status = http.StatusBadRequest
	}
	w.tell(status, http.StatusText(status))
}

// reset is told of every stream that the server resets: after an answer, because
// a handler gave up, or for the program's mistakes. Data for a stream that has
// ended meanwhile is none.
func (w *framed) reset(code uint32) {
	switch name := codeName(code); code {
	case codeProtocol, codeFlowControl, codeFrameSize, codeCompression:
		w.tell(0, "HTTP/2 stream reset with "+name)
	}
}

func (w *framed) tell(status int, what string) {
	if w.told++; w.told > maxTold {
		return
	}
	if w.told == maxTold {
		what += "; of others on this connection nothing is told"
	}
	w.c.p.recordMalformed(w.c, status, what)
}

// end is told when the server ends the connection.
func (w *framed) end(code uint32) {
	if code == 0 || w.ended {
		return
	}
	w.ended = true
	w.c.p.recordMalformed(w.c, 0, "HTTP/2 connection ended with "+codeName(code))
}

// Codes of errors, as in RFC 9113.
const (
	codeProtocol    = 0x1
	codeFlowControl = 0x3
	codeFrameSize   = 0x6
	codeCompression = 0x9
)

func codeName(code uint32) string {
	names := [...]string{
		"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED", "FRAME_SIZE_ERROR",
		"REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
	}
	if int(code) < len(names) {
		return names[code]
	}
	return "an unknown error"
}

// serveTLS hands a connection to the server of the protocol that was agreed on.
func (p *Proxy) serveTLS(c *conn, secure *tls.Conn) error {
	if secure.ConnectionState().NegotiatedProtocol == "h2" {
		if !c.account.take(framedCost) {
			return p.overBudget(layerRequest)
		}
		return p.streams.put(&framed{Conn: secure, c: c})
	}
	return p.inner.put(&served{Conn: secure, c: c})
}
