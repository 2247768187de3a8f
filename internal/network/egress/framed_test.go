package egress_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/network/egress"
)

// speaker is a client that writes HTTP/2 frame by frame.
type speaker struct {
	*http2.Framer
	conn  net.Conn
	block bytes.Buffer
	enc   *hpack.Encoder
}

// speak starts HTTP/2 with the proxy. Programs can write anything.
func (c *cell) speak() *speaker {
	c.t.Helper()
	conn, err := c.secure(api, 443, api, "h2")
	if err != nil {
		c.t.Fatal(err)
	}
	s := &speaker{Framer: http2.NewFramer(conn, conn), conn: conn}
	s.AllowIllegalWrites = true
	s.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	s.enc = hpack.NewEncoder(&s.block)
	return s
}

func (s *speaker) greet() error {
	_, err := io.WriteString(s.conn, http2.ClientPreface)
	return errors.Join(err, s.WriteSettings())
}

// fields encodes a header of "name: value" lines.
func (s *speaker) fields(lines ...string) []byte {
	s.block.Reset()
	for _, line := range lines {
		name, value, _ := strings.Cut(line[1:], ":")
		_ = s.enc.WriteField(hpack.HeaderField{Name: line[:1] + name, Value: strings.TrimPrefix(value, " ")})
	}
	return bytes.Clone(s.block.Bytes())
}

// open sends a request without a body.
func (s *speaker) open(stream uint32, lines ...string) error {
	return s.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: s.fields(lines...), EndStream: true, EndHeaders: true})
}

func proper(more ...string) []string {
	return append([]string{":method: GET", ":scheme: https", ":authority: " + api, ":path: /a"}, more...)
}

// ends reads until the server says what became of a stream: the status of its
// answer, or the code of its reset or of the connection's end.
func (s *speaker) ends(stream uint32) string {
	for {
		f, err := s.ReadFrame()
		if err != nil {
			return "closed"
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			if f.StreamID == stream {
				return f.PseudoValue("status")
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == stream {
				return "reset " + f.ErrCode.String()
			}
		case *http2.GoAwayFrame:
			return "goaway " + f.ErrCode.String()
		}
	}
}

// TestMalformedStreams has requests in HTTP/2 that the server refuses before
// the policy decides: each is one denied request, and the upstream hears nothing.
func TestMalformedStreams(t *testing.T) {
	t.Parallel()
	header := func(lines ...string) func(*speaker) error {
		return func(s *speaker) error { return errors.Join(s.greet(), s.open(1, lines...)) }
	}
	const protocol, stream, whole = "PROTOCOL_ERROR", "stream reset with ", "connection ended with "
	for _, q := range []struct {
		name         string
		send         func(*speaker) error
		want, reason string
		status       string
	}{
		{"no method", header(":scheme: https", ":authority: "+api, ":path: /a"), "reset " + protocol, stream + protocol, ""},
		{"no path", header(":method: GET", ":scheme: https", ":authority: "+api), "reset " + protocol, stream + protocol, ""},
		{"scheme", header(":method: GET", ":scheme: ftp", ":authority: "+api, ":path: /a"), "reset " + protocol, stream + protocol, ""},
		{"two paths", header(proper(":path: /b")...), "reset " + protocol, stream + protocol, ""},
		{"unknown pseudo", header(proper(":other: x")...), "reset " + protocol, stream + protocol, ""},
		{"pseudo of answers", header(proper(":status: 200")...), "reset " + protocol, stream + protocol, ""},
		{"pseudo last", header(":method: GET", ":scheme: https", "x: y", ":path: /a"), "reset " + protocol, stream + protocol, ""},
		{"upper case", header(proper("X: y")...), "reset " + protocol, stream + protocol, ""},
		{"header name", header(proper("a b: y")...), "reset " + protocol, stream + protocol, ""},
		{"header value", header(proper("a: \x00")...), "reset " + protocol, stream + protocol, ""},
		{"extended connect", header(":method: CONNECT", ":protocol: websocket", ":scheme: https", ":authority: "+api, ":path: /a"), "reset " + protocol, stream + protocol, ""},
		{"path", header(":method: GET", ":scheme: https", ":authority: "+api, ":path: a b"), "reset " + protocol, stream + protocol, ""},
		{"field of HTTP/1.1", header(proper("connection: close")...), "400", "Bad Request", "400"},
		{"field too long", header(proper("x: " + strings.Repeat("a", 80<<10))...), "goaway COMPRESSION_ERROR", whole + "COMPRESSION_ERROR", ""},
		{"frame too long", func(s *speaker) error {
			// Its header is enough: what nobody reads would break the connection.
			err := s.greet()
			_, err2 := io.WriteString(s.conn, "\x20\x00\x00\x01\x04\x00\x00\x00\x01")
			return errors.Join(err, err2)
		}, "goaway FRAME_SIZE_ERROR", whole + "FRAME_SIZE_ERROR", ""},
		{"too long in parts", func(s *speaker) error {
			block := s.fields(proper("x: "+strings.Repeat("a", 40<<10), "y: "+strings.Repeat("b", 40<<10))...)
			err := s.greet()
			for i := 0; i < len(block); i += 16 << 10 {
				part := block[i:min(i+16<<10, len(block))]
				if last := i+16<<10 >= len(block); i == 0 {
					err = errors.Join(err, s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: part, EndStream: true}))
				} else {
					err = errors.Join(err, s.WriteContinuation(1, last, part))
				}
			}
			return err
		}, "431", "Request Header Fields Too Large", "431"},
		{"block", func(s *speaker) error {
			return errors.Join(s.greet(), s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0xff, 0xff, 0xff}, EndHeaders: true}))
		}, "goaway COMPRESSION_ERROR", whole + "COMPRESSION_ERROR", ""},
		{"block cut short", func(s *speaker) error {
			block := s.fields(proper()...)
			return errors.Join(s.greet(), s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:len(block)-1], EndHeaders: true}))
		}, "goaway COMPRESSION_ERROR", whole + "COMPRESSION_ERROR", ""},
		{"no continuation", func(s *speaker) error {
			return errors.Join(s.greet(), s.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: s.fields(proper()...)}), s.WritePing(false, [8]byte{}))
		}, "goaway " + protocol, whole + protocol, ""},
		{"even stream", func(s *speaker) error { return errors.Join(s.greet(), s.open(2, proper()...)) }, "goaway " + protocol, whole + protocol, ""},
		{"stream 0", func(s *speaker) error {
			return errors.Join(s.greet(), s.WriteRawFrame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 0, s.fields(proper()...)))
		}, "goaway " + protocol, whole + protocol, ""},
		{"data without a request", func(s *speaker) error { return errors.Join(s.greet(), s.WriteData(1, true, []byte("x"))) }, "goaway " + protocol, whole + protocol, ""},
		{"no settings", func(s *speaker) error {
			_, err := io.WriteString(s.conn, http2.ClientPreface)
			return errors.Join(err, s.open(1, proper()...))
		}, "goaway " + protocol, whole + protocol, ""},
		{"preface", func(s *speaker) error {
			_, err := io.WriteString(s.conn, "GET / HTTP/1.1\r\nHost: "+api+"\r\n\r\n")
			return err
		}, "closed", "something else was sent", ""},
	} {
		t.Run(q.name, func(t *testing.T) {
			t.Parallel()
			c := newCell(t, rules(fullAPI))
			up := c.serve(api, 443, http.HandlerFunc(mirror))
			s := c.speak()
			if err := q.send(s); err != nil {
				t.Fatal(err)
			}
			if got := s.ends(1); got != q.want {
				t.Errorf("the server says %s, want %s", got, q.want)
			}
			c.find(event.HTTPActivity, func(e map[string]any) bool { return strings.Contains(text(e, "status_detail"), q.reason) })
			_ = s.conn.Close()
			if err := c.proxy.Close(); err != nil {
				t.Error(err)
			}
			up.untouched(t)
			if q.status == "" {
				q.status = "<nil>"
			}
			c.deniedWith(q.status)
		})
	}
}

// TestMalformedAmong: a bad stream is reported while others on the connection go
// on as if nothing had happened; of many bad ones only some are.
func TestMalformedAmong(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(fullAPI))
	up := c.serve(api, 443, http.HandlerFunc(mirror))
	s := c.speak()
	if err := errors.Join(s.greet(), s.open(1, proper()...)); err != nil {
		t.Fatal(err)
	}
	if got := s.ends(1); got != "200" {
		t.Fatal(got)
	}
	const bad = 40
	for i := range uint32(bad) {
		if err := s.open(3+2*i, proper("X: y")...); err != nil {
			t.Fatal(err)
		}
		if got := s.ends(3 + 2*i); got != "reset PROTOCOL_ERROR" {
			t.Fatal(got)
		}
	}
	if err := s.open(3+2*bad, proper()...); err != nil {
		t.Fatal(err)
	}
	if got := s.ends(3 + 2*bad); got != "200" {
		t.Error(got)
	}
	_ = s.conn.Close()
	if err := c.proxy.Close(); err != nil {
		t.Error(err)
	}
	denied, allowed, last := c.requests()
	if denied != 16 || allowed != 2 || up.requests.Load() != 2 || !strings.Contains(last, "are not reported") {
		t.Errorf("%d denied, the last with %q, %d allowed, %d forwarded", denied, last, allowed, up.requests.Load())
	}
}

// TestSoundStreams: what programs do that is no mistake is not told of as one.
func TestSoundStreams(t *testing.T) {
	t.Parallel()
	c := newCell(t, rules(fullAPI))
	c.serve(api, 443, http.HandlerFunc(mirror))
	s := c.speak()
	if err := s.greet(); err != nil {
		t.Fatal(err)
	}
	body := http2.HeadersFrameParam{StreamID: 1, BlockFragment: s.fields(":method: POST", ":scheme: https", ":authority: "+api, ":path: /..%2f"), EndHeaders: true}
	if err := errors.Join(s.WriteHeaders(body), s.WriteData(1, false, make([]byte, 100))); err != nil {
		t.Fatal(err)
	}
	if got := s.ends(1); got != "403" {
		t.Error(got)
	}
	// More of a body whose request was answered already, and one that the
	// program gives up.
	given := http2.HeadersFrameParam{StreamID: 3, BlockFragment: s.fields(":method: POST", ":scheme: https", ":authority: "+api, ":path: /b"), EndHeaders: true}
	if err := errors.Join(s.WriteData(1, true, make([]byte, 100)), s.WriteHeaders(given), s.WriteRSTStream(3, http2.ErrCodeCancel), s.open(5, proper()...)); err != nil {
		t.Fatal(err)
	}
	if got := s.ends(5); got != "200" {
		t.Error(got)
	}
	if err := s.WriteGoAway(0, http2.ErrCodeNo, nil); err != nil {
		t.Error(err)
	}
	_ = s.conn.Close()
	if err := c.proxy.Close(); err != nil {
		t.Error(err)
	}
	for _, e := range c.events {
		if strings.Contains(text(e, "status_detail"), "in one way only") {
			t.Errorf("event %v", e)
		}
	}
}

// requests counts the events about requests; the proxy is closed.
func (c *cell) requests() (denied, allowed int, last string) {
	for _, e := range c.events {
		switch {
		case e["class_uid"] != float64(event.HTTPActivity):
		case text(e, "action") == "Denied":
			denied++
			last = text(e, "status_detail")
		default:
			allowed++
		}
	}
	return denied, allowed, last
}

// FuzzStreamFrames finds frames as another reader does, wherever the bytes are cut.
func FuzzStreamFrames(f *testing.F) {
	f.Add([]byte("\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x04\x01\x00\x00\x00\x00"), 3, 11)
	f.Add([]byte("\x00\x00\x0a\x00\x01\x00\x00\x00\x030123456789\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x01"), 9, 20)
	f.Add([]byte("\xff\xff\xff"), 0, 1)
	f.Fuzz(func(t *testing.T, b []byte, one, two int) {
		one, two = max(0, min(one, len(b))), max(0, min(two, len(b)))
		one, two = min(one, two), max(one, two)
		got := egress.FrameStarts(b[:one], b[one:two], b[two:])
		var want [][]byte
		for rest := b; len(rest) >= 9; {
			h, err := http2.ReadFrameHeader(bytes.NewReader(rest))
			if err != nil {
				t.Fatal(err)
			}
			first := 9 + min(int(h.Length), 8)
			if len(rest) < first {
				break
			}
			want = append(want, rest[:first])
			rest = rest[min(9+int(h.Length), len(rest)):]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestFramesDuringAnswer has a program send many frames while it reads an answer
// slowly. The answer arrives whole.
func TestFramesDuringAnswer(t *testing.T) {
	t.Parallel()
	const size = 16 << 20
	c := newCell(t, rules(fullAPI))
	c.serve(api, 443, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, size))
	}))
	s := c.speak()
	_, err := io.WriteString(s.conn, http2.ClientPreface)
	if err := errors.Join(err, s.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30}), s.WriteWindowUpdate(0, 1<<30), s.open(1, proper()...)); err != nil {
		t.Fatal(err)
	}
	got, err := s.data(1 << 16)
	for i := 0; i < 20000 && err == nil; i++ {
		err = s.WriteWindowUpdate(0, 1)
	}
	if err == nil {
		_, err = s.data(size - got)
	}
	if err != nil {
		t.Error(err)
	}
}

// TestAnswersArePaid checks the memory for answers to a program that does not read.
func TestAnswersArePaid(t *testing.T) {
	t.Parallel()
	window, ping := http2.FrameWindowUpdate, http2.FramePing
	for _, q := range []struct {
		kind   http2.FrameType
		n      int
		memory int64
		cut    bool
	}{
		{window, 50000, 300 << 10, false}, {ping, 1999, 300 << 10, false}, {ping, 2000, 300 << 10, true}, {ping, 50000, 3 << 20, false},
	} {
		c := newCell(t, rules(fullAPI), withMemory(q.memory, time.Minute))
		frame := append([]byte{0, 0, 8, byte(q.kind), 0, 0, 0, 0, 0}, make([]byte, 8)...)
		if cut := c.proxy.ReceiveWhileWriting(bytes.Repeat(frame, q.n)); cut != q.cut {
			t.Errorf("%d frames %s: cut %v", q.n, q.kind, cut)
		}
	}
}

// data reads frames until they had some bytes of data.
func (s *speaker) data(until int) (got int, err error) {
	for got < until {
		f, err := s.ReadFrame()
		if err != nil {
			return got, err
		}
		if d, ok := f.(*http2.DataFrame); ok {
			got += len(d.Data())
		}
	}
	return got, nil
}
