package egress

import (
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/egress/inspect"
	"github.com/forkcell/forkcell/internal/event"
	"github.com/forkcell/forkcell/internal/policy"
)

// upgrade refuses every change of protocol but to a websocket on an endpoint for
// that. Rules of other endpoints are about requests, and after the change there
// are none.
func (f *flight) upgrade(h http.Header) error {
	tokens := h["Upgrade"]
	if len(tokens) == 0 && len(h["Http2-Settings"]) == 0 {
		return nil
	}
	switch {
	case len(tokens) != 1 || !strings.EqualFold(tokens[0], "websocket"):
		return refuse(layerRequest, "request", "the request asks for another protocol on the connection; only websocket is possible")
	case f.q.Method != http.MethodGet:
		return refuse(layerRequest, "request", "the handshake of a websocket is a GET request")
	case f.endpoint == nil || f.endpoint.Protocol != policy.Websocket:
		r := refuse(layerRequest, f.decision.Rule, "the request opens a websocket, and the entry that speaks for the path is not for that")
		r.hint = "protocol: websocket"
		return r
	}
	return nil
}

// switched takes over a connection that has become a websocket. What the
// upstream says is not looked at. What the program says is, where the rules do
// not allow every message.
func (p *Proxy) switched(res *http.Response, f *flight) error {
	back, ok := res.Body.(io.ReadWriteCloser)
	if !ok || !strings.EqualFold(res.Header.Get("Upgrade"), "websocket") {
		return errors.New("the upstream switches to another protocol than was asked for")
	}
	if len(res.Header["Sec-Websocket-Extensions"]) > 0 && !p.anyMessage(f) {
		return errors.New("the upstream uses extensions of the websocket that were not asked for")
	}
	res.Body = &messages{ReadWriteCloser: back, p: p, f: f}
	return nil
}

// anyMessage reports whether the rules allow every message on a websocket.
func (p *Proxy) anyMessage(f *flight) bool {
	e, want := p.message(f, nil)
	return want.Protocol == policy.TCP && e.Allowed && !e.Audited
}

// message decides about a text message by the generation that rules now.
func (p *Proxy) message(f *flight, facts *policy.Facts) (policy.Explanation, policy.Inspection) {
	p.mu.RLock()
	v := f.c.view(f.to)
	p.mu.RUnlock()
	q := policy.Request{Method: textMessage, Path: f.q.Path, Query: f.q.Query, Facts: facts}
	want := v.inspection(q)
	if want.Protocol != policy.TCP && facts == nil {
		return policy.Explanation{}, want
	}
	return v.explain(q), want
}

// textMessage is the policy's word for the method of a message.
const textMessage = "WEBSOCKET_TEXT"

// messages is the upstream's side of a websocket. Write gets what the program
// sends, in pieces of any size.
type messages struct {
	io.ReadWriteCloser
	p *Proxy
	f *flight
	// unread says that frames have gone by that nobody looked at, so that it is
	// not known where one starts.
	unread bool
	// frame holds a frame until it is complete.
	frame     []byte
	inMessage bool
	recorded  bool
	refused   error
}

func (m *messages) Read(b []byte) (int, error) {
	n, err := m.ReadWriteCloser.Read(b)
	m.f.out.Add(int64(n))
	return n, err
}

func (m *messages) Write(b []byte) (int, error) {
	if m.refused != nil {
		return 0, m.refused
	}
	m.f.in.Add(int64(len(b)))
	switch free := m.p.anyMessage(m.f); {
	case free && len(m.frame) == 0 && !m.inMessage:
		m.unread = true
		return m.ReadWriteCloser.Write(b)
	case m.unread:
		return 0, m.stop(errors.New("the new policy does not allow every message"))
	}
	m.frame = append(m.frame, b...)
	for {
		n, err := m.next()
		if err != nil {
			return 0, m.stop(err)
		}
		if n == 0 {
			return len(b), nil
		}
		if _, err := m.ReadWriteCloser.Write(m.frame[:n]); err != nil {
			return 0, err
		}
		m.frame = slices.Delete(m.frame, 0, n)
	}
}

// stop notes why a message is not forwarded, which ends the connection.
func (m *messages) stop(err error) error {
	no := refuse(layerRequest, "request", err.Error())
	if r, ok := err.(*refusal); ok { //nolint:errorlint // made below and not wrapped
		no = r
	}
	m.f.stopped.Store(no)
	m.refused = no
	return no
}

// Codes of frames.
const (
	opContinuation = 0
	opText         = 1
	opClose        = 8
	opPong         = 10
	maxFrameHeader = 14
)

// maxFrame bounds a frame that is looked at.
const maxFrame = 1 << 20

// next looks at the first frame, and returns its length if it is complete and
// may be sent.
func (m *messages) next() (int, error) {
	b := m.frame
	if len(b) < 2 {
		return 0, nil
	}
	op, final := b[0]&0x0f, b[0]&0x80 != 0
	control := op >= opClose
	switch {
	case b[0]&0x70 != 0:
		return 0, errors.New("a frame of the websocket uses an extension")
	case b[1]&0x80 == 0:
		return 0, errors.New("a frame of the websocket is not masked")
	case op > opPong || !control && op > opText+1:
		return 0, errors.New("a frame of the websocket is of an unknown kind")
	case control && !final, (op == opContinuation) != m.inMessage && !control:
		return 0, errors.New("the frames of the websocket are out of order")
	}
	size, head, ok := frameSize(b)
	if !ok {
		return 0, nil
	}
	e, want := m.p.message(m.f, nil)
	limit := uint64(125)
	if !control {
		if want.Protocol == policy.TCP && !e.Allowed {
			return 0, &refusal{layer: layerRequest, Explanation: e, hint: "rules: [{allow: {method: WEBSOCKET_TEXT, path: " + scalar(m.f.q.Path) + "}}]"}
		}
		if want.Protocol != policy.TCP && op == opText+1 {
			return 0, errors.New("a binary message, where the rules are about what text messages say")
		}
		limit = uint64(max(want.MaxBody, maxFrame))
	}
	if size > limit {
		return 0, errors.New("a frame of the websocket is too long to be looked at")
	}
	total := head + int(size)
	if len(b) < total {
		return 0, nil
	}
	if control {
		return total, nil
	}
	m.record(e)
	return total, m.data(b[:total], head, final, want)
}

// frameSize returns the length of a frame's data and of what is before it.
func frameSize(b []byte) (size uint64, head int, ok bool) {
	switch n := b[1] & 0x7f; {
	case n == 126 && len(b) >= 8:
		return uint64(binary.BigEndian.Uint16(b[2:])), 8, true
	case n == 127 && len(b) >= maxFrameHeader:
		return binary.BigEndian.Uint64(b[2:]), maxFrameHeader, true
	case n < 126 && len(b) >= 6:
		return uint64(n), 6, true
	}
	return 0, 0, false
}

// data looks at a complete frame of a message.
func (m *messages) data(frame []byte, head int, final bool, want policy.Inspection) error {
	m.inMessage = !final
	if want.Protocol == policy.TCP {
		return nil
	}
	if !final || frame[0]&0x0f == opContinuation {
		// What the message says is known at its end only, and by then its
		// first part would be gone.
		return errors.New("a message in several frames, where the rules are about what messages say")
	}
	mask := frame[head-4 : head]
	text := make([]byte, len(frame)-head)
	for i := range text {
		text[i] = frame[head+i] ^ mask[i&3]
	}
	facts, err := inspect.GraphQLMessage(text, want.MaxBody)
	if err != nil {
		return err
	}
	e, _ := m.p.message(m.f, &facts)
	m.record(e)
	if !e.Allowed {
		return &refusal{layer: layerRequest, Explanation: e, hint: factHint(&facts)}
	}
	return nil
}

// record tells of the first message that is forwarded only because enforcement
// is audit.
func (m *messages) record(e policy.Explanation) {
	if !e.Audited || m.recorded {
		return
	}
	m.recorded = true
	s := m.p.subject(m.f.c, event.Audited)
	s.Rule, s.Reason = e.Rule, e.Reason
	q := m.f.event()
	q.Method = textMessage
	m.p.emit(event.HTTP(s, q))
}
