package egress

import (
	"crypto/tls"
	"encoding/binary"
	"net"
	"net/http"
	"sync/atomic"
)

// framedConn is a connection as the HTTP/2 server uses it, within TLS. The server
// does not report a request that it cannot read: it resets the stream, ends the
// connection or answers by itself. Its hook for counting errors does not know
// connections and is not called for the header block, so framed reads the
// frames that the server writes. Of the program's frames it needs only the
// numbers of streams, and in how many pieces headers come.
type framedConn struct {
	net.Conn // TLS, without a ConnectionState, so that the server does not treat it as TLS
	c        *conn

	// got is how much of the preface was received; -1 if it was another.
	got int
	// in and out are the frames of the program and of the server. One goroutine
	// at a time reads, and one writes.
	in, out frames
	// pieces counts those of the header that is being read.
	pieces int
	// opened is the last stream that the program has opened.
	opened atomic.Uint32
	// awaited is the stream whose answer comes from the server itself if no
	// handler was called: see conn.unhandled.
	awaited atomic.Uint32
	// reported counts events about streams; ended reports that there was one about
	// the connection.
	reported int
	ended    bool
	// writing reports that the server writes, and may wait for the program to read;
	// unanswered counts the frames that arrived meanwhile and may need answers.
	writing    atomic.Bool
	unanswered int
}

const (
	preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	// maxReported bounds the events about streams of one connection.
	maxReported = 16
	// maxUnanswered is how many answers the server keeps for a program that does not
	// read; with more it ends the connection. answersPaid of them cost answersCost.
	maxUnanswered = 10000
	answersPaid   = 1000
	// maxPieces bounds the frames after the first that a header comes in: four would do.
	maxPieces = 256
)

// frames finds the frames in one direction of a stream, in pieces of any size.
type frames struct {
	// head is a frame's header and the first bytes after it.
	head [frameHeader + 8]byte
	n    int
	// skip is how much of the last frame is still to come.
	skip int
}

const frameHeader = 9

// The types of frames that are read.
const (
	frameHeaders = 0x1
	frameReset   = 0x3
	frameGoAway  = 0x7
	frameWindow  = 0x8

	frameContinuation = 0x9
)

// next returns the beginning of the next frame, nil if there is none yet, and
// the bytes after it.
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

func (w *framedConn) NetConn() net.Conn { return w.Conn }

func (w *framedConn) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.came(b[:n])
	return n, err
}

// came reads bytes of the program.
func (w *framedConn) came(b []byte) {
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
		if w.countPieces(head[3]) {
			w.c.cut(refuse(layerRequest, "request", "the header of a request is in too many pieces"))
			return
		}
		opens := false
		if id := binary.BigEndian.Uint32(head[5:]); head[3] == frameHeaders && id > w.opened.Load() {
			w.opened.Store(id)
			opens = true
		}
		if !w.queues(head[3]) || opens && !w.c.account.take(streamCost) {
			w.c.cut(w.c.p.overBudget(layerRequest))
			return
		}
	}
}

// countPieces counts the pieces of a header, and reports whether they are too many. The server
// reads empty ones without an end, for as long as another stream is open.
func (w *framedConn) countPieces(kind byte) bool {
	if kind != frameContinuation {
		w.pieces = 0
		return false
	}
	w.pieces++
	return w.pieces > maxPieces
}

// queues counts a frame for which the server may keep an answer, and reports whether
// there is memory for it. Memory stays taken, since it is not seen which answers were
// written. Updates of windows, of which a long answer needs many, have no answer.
func (w *framedConn) queues(kind byte) bool {
	if kind == frameWindow || !w.writing.Load() || w.unanswered == maxUnanswered {
		return true
	}
	w.unanswered++
	return w.unanswered%answersPaid != 0 || w.c.account.take(answersCost)
}

func (w *framedConn) Write(b []byte) (int, error) {
	for left := b; ; {
		var head []byte
		if head, left = w.out.next(left); head == nil {
			w.writing.Store(true)
			defer w.writing.Store(false)
			return w.Conn.Write(b)
		}
		switch kind, payload := head[3], head[frameHeader:]; {
		case kind == frameHeaders && len(payload) > 0:
			w.handleAnswer(binary.BigEndian.Uint32(head[5:]), payload[0])
		case kind == frameReset && len(payload) >= 4:
			w.handleReset(binary.BigEndian.Uint32(payload))
		case kind == frameGoAway && len(payload) >= 8:
			w.end(binary.BigEndian.Uint32(payload[4:]))
		}
	}
}

// handleAnswer handles the header of every answer, and trailers. The server itself
// answers a header that is too long, and one with fields that HTTP/2 forbids.
func (w *framedConn) handleAnswer(stream uint32, first byte) {
	if stream != w.awaited.Load() || !w.c.unhandled.CompareAndSwap(true, false) {
		return
	}
	status := http.StatusRequestHeaderFieldsTooLarge
	if first == 0x8c { // HPACK for ":status: 400"
		status = http.StatusBadRequest
	}
	w.report(status, http.StatusText(status))
}

// handleReset handles every stream that the server resets: after an answer, because a
// handler gave up, or for an error of the program. Data for a stream that has
// just ended is not an error.
func (w *framedConn) handleReset(code uint32) {
	switch name := codeName(code); code {
	case codeProtocol, codeFlowControl, codeFrameSize, codeCompression:
		w.report(0, "HTTP/2 stream reset with "+name)
	}
}

// report records a malformed message, unless the connection has had many.
func (w *framedConn) report(status int, what string) {
	if w.reported++; w.reported > maxReported {
		return
	}
	if w.reported == maxReported {
		what += "; others on this connection are not reported"
	}
	w.c.p.recordMalformed(w.c, status, what)
}

// end is called when the server ends the connection.
func (w *framedConn) end(code uint32) {
	if code == 0 || w.ended {
		return
	}
	w.ended = true
	w.c.p.recordMalformed(w.c, 0, "HTTP/2 connection ended with "+codeName(code))
}

// Error codes of RFC 9113.
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

// serveTLS hands a connection to the server of the negotiated protocol.
func (p *Proxy) serveTLS(c *conn, secure *tls.Conn) error {
	if secure.ConnectionState().NegotiatedProtocol == "h2" {
		if !c.account.take(framedCost) {
			return p.overBudget(layerRequest)
		}
		return p.streams.put(&framedConn{Conn: secure, c: c})
	}
	return p.inner.put(&servedConn{Conn: secure, c: c})
}
