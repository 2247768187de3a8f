package egress

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/network/egress/inspect"
	"github.com/forkcell/forkcell/internal/policy"
)

// upgrade refuses every change of protocol except to a websocket on an endpoint
// for websockets. Rules of other endpoints are about requests, and after the
// change there are none.
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
		r := refuse(layerRequest, f.decision.Rule, "the request opens a websocket, and the entry for the path does not allow that")
		r.hint = "protocol: websocket"
		return r
	}
	return nil
}

// takeOverWebsocket takes over a connection that has become a websocket. Messages of the
// program are inspected, unless the rules allow every message. In messages of the
// upstream values of credentials are masked, if it may have got some.
func (p *Proxy) takeOverWebsocket(res *http.Response, f *flight) error {
	back, ok := res.Body.(io.ReadWriteCloser)
	if !ok || !strings.EqualFold(res.Header.Get("Upgrade"), "websocket") {
		return errors.New("the upstream switches to another protocol than was asked for")
	}
	if len(res.Header["Sec-Websocket-Extensions"]) > 0 && !p.extends(f) {
		return errors.New("the upstream uses extensions of the websocket that were not asked for")
	}
	m := &messages{ReadWriteCloser: back, p: p, f: f, replies: back}
	if f.searched {
		m.replies = newReplies(back, p.echo(f))
	}
	res.Body = m
	return nil
}

// extends reports whether a websocket may have extensions, such as compression:
// messages that are read must be plain.
func (p *Proxy) extends(f *flight) bool { return !f.searched && p.isUninspected(f) }

// isUninspected reports whether the messages on a websocket are forwarded without
// inspection: the rules allow all of them, and there are no credentials whose
// placeholders they could hold.
func (p *Proxy) isUninspected(f *flight) bool {
	e, want := p.message(f, nil)
	p.mu.RLock()
	defer p.mu.RUnlock()
	return want.Protocol == policy.TCP && e.Allowed && !e.Audited && p.gen.secrets() == nil
}

// message decides about a text message by the current generation.
func (p *Proxy) message(f *flight, facts *policy.Facts) (policy.Explanation, policy.Inspection) {
	p.mu.RLock()
	v := f.c.view(f.to)
	p.mu.RUnlock()
	q := policy.Request{Scheme: f.scheme, Method: textMessage, Path: f.q.Path, Query: f.q.Query, Facts: facts}
	want := v.inspection(q)
	if want.Protocol != policy.TCP && facts == nil {
		return policy.Explanation{}, want
	}
	return v.explain(q), want
}

// textMessage is the policy's name for the method of a message.
const textMessage = "WEBSOCKET_TEXT"

// messages is the upstream's side of a websocket. Write gets what the program
// sends, in pieces of any size.
type messages struct {
	io.ReadWriteCloser
	p *Proxy
	f *flight
	// replies are the upstream's frames, as the program gets them.
	replies io.Reader
	// unread reports that frames were forwarded without inspection, so that the
	// start of a frame is not known.
	unread bool
	// frame holds a frame until it is complete.
	frame     []byte
	inMessage bool
	recorded  bool
	refused   error
}

func (m *messages) Read(b []byte) (int, error) {
	n, err := m.replies.Read(b)
	m.f.out.Add(int64(n))
	var odd *frameError
	if errors.As(err, &odd) {
		no := refuse(layerCredential, "credentials", "the upstream's messages cannot be searched for credentials: "+odd.why)
		m.f.stopped.CompareAndSwap(nil, no)
	}
	return n, err
}

// CloseWrite reports to the upstream that the program sends nothing more.
func (m *messages) CloseWrite() error {
	if half, ok := m.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

func (m *messages) Write(b []byte) (int, error) {
	if m.refused != nil {
		return 0, m.refused
	}
	m.f.in.Add(int64(len(b)))
	switch free := m.p.isUninspected(m.f); {
	case free && len(m.frame) == 0 && !m.inMessage:
		m.unread = true
		return m.ReadWriteCloser.Write(b)
	case m.unread && !free:
		return 0, m.stop(errors.New("messages are looked at under the new policy, and this one may have begun before"))
	}
	if err := m.keep(b); err != nil {
		return 0, m.stop(err)
	}
	for {
		n, send, err := m.next()
		if err != nil {
			return 0, m.stop(err)
		}
		if n == 0 {
			return len(b), nil
		}
		if _, err := m.ReadWriteCloser.Write(send); err != nil {
			return 0, err
		}
		m.frame = slices.Delete(m.frame, 0, n)
	}
}

// keep adds to the incomplete frame.
func (m *messages) keep(b []byte) error {
	if len(m.frame) == 0 && cap(m.frame) > smallBuffer {
		m.f.account.give(int64(cap(m.frame)) * frameFactor)
		m.frame = nil
	}
	if need := len(m.frame) + len(b); need > cap(m.frame) {
		size := max(need, 2*cap(m.frame))
		if !m.f.account.take(int64(size) * frameFactor) {
			return m.p.overBudget(layerRequest)
		}
		grown := append(make([]byte, 0, size), m.frame...)
		m.f.account.give(int64(cap(m.frame)) * frameFactor)
		m.frame = grown
	}
	m.frame = append(m.frame, b...)
	return nil
}

// stop records why a message is not forwarded and ends the connection.
func (m *messages) stop(err error) error {
	no := refuse(layerRequest, "request", err.Error())
	if r, ok := err.(*refusal); ok { //nolint:errorlint // made below and not wrapped
		no = r
	}
	no.policy = m.p.ruling()
	m.f.stopped.Store(no)
	m.refused = no
	return no
}

// Codes of frames.
const (
	opContinuation = 0
	opBinary       = 2
	opClose        = 8
	opPong         = 10
	maxFrameHeader = 14
)

// maxFrame bounds a frame that is inspected.
const maxFrame = 4 << 20

// next inspects the first frame. If it is complete, next returns its length and
// what to send for it.
func (m *messages) next() (n int, send []byte, err error) {
	b := m.frame
	if len(b) < 2 {
		return 0, nil, nil
	}
	if err := checkFrame(b, true, m.inMessage); err != nil {
		return 0, nil, err
	}
	size, head, ok := frameSize(b)
	if !ok {
		return 0, nil, nil
	}
	control := b[0]&0x0f >= opClose
	limit := uint64(125)
	if !control {
		limit = maxFrame
	}
	e, want := m.p.message(m.f, nil)
	if !control {
		if err := m.permitted(b[0]&0x0f, e, want); err != nil {
			return 0, nil, err
		}
	}
	if size > limit {
		return 0, nil, errors.New("a frame of the websocket is too long to be looked at")
	}
	n = head + int(size)
	if len(b) < n {
		return 0, nil, nil
	}
	if control {
		return n, b[:n], nil
	}
	m.record(e)
	send, err = m.data(b[:n], head, want)
	return n, send, err
}

// frameError is a frame that cannot be read.
type frameError struct{ why string }

func (e *frameError) Error() string { return e.why }

// checkFrame checks the first two bytes of a frame. masked says that a program sends
// it; inMessage that a message has begun.
func checkFrame(b []byte, masked, inMessage bool) error {
	op, final := b[0]&0x0f, b[0]&0x80 != 0
	control := op >= opClose
	switch {
	case b[0]&0x70 != 0:
		return &frameError{"a frame of the websocket uses an extension"}
	case masked && b[1]&0x80 == 0:
		return &frameError{"a frame of the websocket is not masked"}
	case !masked && b[1]&0x80 != 0:
		return &frameError{"a frame of the websocket is masked, and only those of clients are"}
	case op > opPong || !control && op > opBinary:
		return &frameError{"a frame of the websocket is of an unknown kind"}
	case control && !final, (op == opContinuation) != inMessage && !control:
		return &frameError{"the frames of the websocket are out of order"}
	}
	return nil
}

// permitted decides about a message as far as possible without reading it.
func (m *messages) permitted(op byte, e policy.Explanation, want policy.Inspection) error {
	switch {
	case want.Protocol == policy.TCP && !e.Allowed:
		return &refusal{layer: layerRequest, Explanation: e, hint: "rules: [{allow: {method: " + textMessage + ", path: " + scalar(m.f.q.Path) + "}}]"}
	case want.Protocol != policy.TCP && op == opBinary:
		return errors.New("a binary message, where the rules are about what text messages say")
	}
	return nil
}

// frameSize returns the length of a frame's data and of its header.
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

// data inspects a complete frame of a message and returns what to send for it.
// Placeholders are replaced only in messages of one frame.
func (m *messages) data(frame []byte, head int, want policy.Inspection) ([]byte, error) {
	final := frame[0]&0x80 != 0
	whole := final && frame[0]&0x0f != opContinuation
	m.inMessage = !final
	if want.Protocol != policy.TCP && !whole {
		// The content of the message is known only at its end, when its first
		// part would have been sent.
		return nil, errors.New("a message in several frames, where the rules are about what messages say")
	}
	text := applyMask(frame[head:], frame[head-4:head])
	if want.Protocol != policy.TCP {
		facts, err := inspect.GraphQLMessage(text, want.MaxBody)
		if err != nil {
			return nil, err
		}
		e, _ := m.p.message(m.f, &facts)
		m.record(e)
		if !e.Allowed {
			return nil, &refusal{layer: layerRequest, Explanation: e, hint: factHint(&facts)}
		}
	}
	m.p.mu.RLock()
	set := m.p.gen.secrets()
	m.p.mu.RUnlock()
	if set == nil {
		return frame, nil
	}
	to := m.f.target()
	if !whole {
		if err := set.InspectBytes(to, "message", text); err != nil {
			return nil, m.p.misuse(m.f, err)
		}
		return frame, nil
	}
	out, used, err := set.Message(to, text)
	switch {
	case err != nil:
		return nil, m.p.misuse(m.f, err)
	case len(used) == 0:
		return frame, nil
	}
	m.f.use(used)
	return newFrame(frame[0], out), nil
}

// applyMask masks or unmasks data.
func applyMask(data, mask []byte) []byte {
	out := make([]byte, len(data))
	for i := range out {
		out[i] = data[i] ^ mask[i&3]
	}
	return out
}

// newFrame makes a frame as a client sends it.
func newFrame(first byte, data []byte) []byte {
	b := []byte{first}
	switch n := len(data); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	var mask [4]byte
	_, _ = rand.Read(mask[:]) // never fails
	return append(append(b, mask[:]...), applyMask(data, mask[:])...)
}

// record records the first message that is forwarded only because enforcement
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
