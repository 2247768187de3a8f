package egress_test

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/network/egress"
)

// frame makes a frame as a client sends it.
func frame(head byte, text string) string {
	b := []byte{head}
	switch n := len(text); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	mask := []byte{1, 2, 3, 4}
	b = append(b, mask...)
	for i := range len(text) {
		b = append(b, text[i]^mask[i&3])
	}
	return string(b)
}

// unframe reads a frame and returns its data.
func unframe(r io.Reader) (string, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return "", err
	}
	n := uint64(head[1] & 0x7f)
	switch n {
	case 126:
		var b [2]byte
		_, _ = io.ReadFull(r, b[:])
		n = uint64(binary.BigEndian.Uint16(b[:]))
	case 127:
		var b [8]byte
		_, _ = io.ReadFull(r, b[:])
		n = binary.BigEndian.Uint64(b[:])
	}
	if n > 1<<22 {
		return "", errors.New("too long")
	}
	var mask [4]byte
	if head[1]&0x80 != 0 {
		_, _ = io.ReadFull(r, mask[:])
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(r, data); err != nil {
		return "", err
	}
	for i := range data {
		data[i] ^= mask[i&3]
	}
	return string(data), nil
}

// socket is an upstream that greets and then sends back, unmasked and in short
// frames, what it got.
func socket(got chan<- string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		sum := sha1.Sum([]byte(r.Header.Get("Sec-Websocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 103 Early Hints\r\nX-Given: "+r.Header.Get("Authorization")+"\r\n\r\n")
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: "+
			base64.StdEncoding.EncodeToString(sum[:])+"\r\nX-Extensions: "+r.Header.Get("Sec-Websocket-Extensions")+"\r\nX-Given: "+r.Header.Get("Authorization")+"\r\n\r\n\x81\x05hello")
		for {
			s, err := unframe(rw)
			if err != nil {
				close(got)
				return
			}
			got <- s
			_, _ = io.WriteString(conn, "\x81\x02ok")
		}
	}
}

const handshake = "GET /ws HTTP/1.1\r\nHost: api.example.com\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
	"Sec-WebSocket-Extensions: permessage-deflate\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

// open makes a websocket and reads the greeting.
func (c *cell) open() (io.ReadWriteCloser, *bufio.Reader, *http.Response) {
	c.t.Helper()
	conn, err := c.secure(api, 443, api, "http/1.1")
	if err != nil {
		c.t.Fatal(err)
	}
	_, _ = io.WriteString(conn, handshake)
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	if res.StatusCode == 101 {
		if s, err := unframe(r); s != "hello" {
			c.t.Fatal(s, err)
		}
	}
	return conn, r, res
}

func websocket(rest string) string {
	return rules("{host: api.example.com, port: 443, protocol: websocket, " + rest + "}")
}

func TestWebsocket(t *testing.T) {
	t.Parallel()
	const subscribe = `{"type":"subscribe","id":"1","payload":{"query":"subscription { messageAdded { id } }"}}`
	graphql := "rules: [{allow: {method: GET, path: /ws}}, {allow: {operation_type: subscription, fields: [messageAdded]}}]"
	for _, q := range []struct {
		name, rules string
		// sent are frames; each of seen must arrive, and then the connection
		// must still be there or not.
		sent []string
		seen []string
		cut  bool
		// extensions says that the client's offer is passed on.
		extensions bool
	}{
		{"any", "access: read-write", []string{frame(0x81, "a"), frame(0x82, "b"), frame(0x81, strings.Repeat("c", 70000)), frame(0x89, "ping")}, []string{"a", "b", strings.Repeat("c", 70000), "ping"}, false, true},
		{"receive only", "access: read-only", []string{frame(0x89, "ping"), frame(0x81, "a")}, []string{"ping"}, true, false},
		{"no binary either", "access: read-only", []string{frame(0x82, "a")}, nil, true, false},
		{"no continuation either", "access: read-only", []string{frame(0x80, "a")}, nil, true, false},
		{"operation", graphql, []string{frame(0x81, subscribe), frame(0x81, `{"type":"ping"}`)}, []string{subscribe, `{"type":"ping"}`}, false, false},
		{"other operation", graphql, []string{frame(0x81, strings.Replace(subscribe, "messageAdded", "secrets", 1))}, nil, true, false},
		{"mutation", graphql, []string{frame(0x81, strings.Replace(subscribe, "subscription", "mutation", 1))}, nil, true, false},
		{"binary", graphql, []string{frame(0x82, subscribe)}, nil, true, false},
		{"fragments", graphql, []string{frame(0x01, subscribe[:20]), frame(0x80, subscribe[20:])}, nil, true, false},
		{"compressed", graphql, []string{frame(0xc1, subscribe)}, nil, true, false},
		{"unmasked", graphql, []string{"\x81\x01a"}, nil, true, false},
		{"reserved", graphql, []string{frame(0x83, "a")}, nil, true, false},
		{"long", graphql, []string{frame(0x81, strings.Repeat(" ", 5<<20))}, nil, true, false},
	} {
		t.Run(q.name, func(t *testing.T) {
			t.Parallel()
			c := newCell(t, websocket(q.rules))
			got := make(chan string, 8)
			c.serve(api, 443, socket(got))
			conn, r, res := c.open()
			if res.StatusCode != 101 {
				t.Fatal(res)
			}
			if (res.Header.Get("X-Extensions") != "") != q.extensions {
				t.Error("extensions:", res.Header)
			}
			// In pieces, so that frames do not come whole.
			all := strings.Join(q.sent, "")
			for _, part := range []string{all[:1], all[1 : len(all)/2], all[len(all)/2:]} {
				_, _ = io.WriteString(conn, part)
			}
			for _, want := range q.seen {
				if s := <-got; s != want {
					t.Errorf("upstream got %.40q, want %.40q", s, want)
				}
				if s, err := unframe(r); s != "ok" && !q.cut {
					t.Error(s, err)
				}
			}
			if !q.cut {
				return
			}
			// Answers to what was seen may come before the end.
			for range len(q.seen) + 1 {
				if _, err := unframe(r); err != nil {
					break
				}
			}
			if s, err := unframe(r); err == nil {
				t.Errorf("still open: %q", s)
			}
			if s, ok := <-got; ok {
				t.Errorf("upstream also got %.40q", s)
			}
			c.find(event.HTTPActivity, func(e map[string]any) bool {
				return text(e, "disposition") == "Blocked" && text(e, "http_response", "code") == "101"
			})
		})
	}
}

func TestWebsocketDenied(t *testing.T) {
	t.Parallel()
	c := newCell(t, websocket("rules: [{allow: {method: GET, path: /other}}]"))
	up := c.serve(api, 443, socket(nil))
	if _, _, res := c.open(); res.StatusCode != 403 || res.Header.Get("X-Forkcell-Policy") != "denied" {
		t.Error(res)
	}
	up.untouched(t)
}

// TestWebsocketReload checks that a new policy ends a websocket, at once if it
// does not allow it, and with the next message if it looks at messages.
func TestWebsocketReload(t *testing.T) {
	t.Parallel()
	for _, next := range []string{"rules: [{allow: {method: GET, path: /other}}]", "access: read-only"} {
		c := newCell(t, websocket("access: read-write"))
		got := make(chan string, 8)
		c.serve(api, 443, socket(got))
		conn, r, _ := c.open()
		_, _ = io.WriteString(conn, frame(0x81, "a"))
		if s, err := unframe(r); s != "ok" {
			t.Fatal(s, err)
		}
		if err := c.proxy.Reload(generation(t, websocket(next))); err != nil {
			t.Fatal(err)
		}
		if next == "access: read-only" {
			_, _ = io.WriteString(conn, frame(0x81, "b"))
		}
		if s, err := unframe(r); err == nil {
			t.Errorf("still open: %q", s)
		}
		if s := <-got; s != "a" {
			t.Error(s)
		}
		if s, ok := <-got; ok {
			t.Errorf("upstream also got %q", s)
		}
	}
}

// TestWebsocketAudit checks that messages pass and the first is recorded.
func TestWebsocketAudit(t *testing.T) {
	t.Parallel()
	c := newCell(t, websocket("enforcement: audit, access: read-only"))
	got := make(chan string, 8)
	c.serve(api, 443, socket(got))
	conn, _, _ := c.open()
	_, _ = io.WriteString(conn, frame(0x81, "a"))
	if s := <-got; s != "a" {
		t.Error(s)
	}
	c.find(event.HTTPActivity, func(e map[string]any) bool {
		return text(e, "disposition") == "Alert" && text(e, "http_request", "http_method") == "WEBSOCKET_TEXT"
	})
}

// TestWebsocketCredential checks that placeholders in messages become values for
// the credential's endpoint, and end the connection elsewhere.
func TestWebsocketCredential(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/ws", "/other"} {
		text := websocket("access: read-write") + strings.Replace(strings.Replace(tokens, "/v1/**", path, 1), "expose_as", "replace_in_body: true, expose_as", 1)
		g, placeholder := withToken(t, text)
		c := newCell(t, text, func(cfg *egress.Config) { cfg.Generation = g })
		got := make(chan string, 8)
		c.serve(api, 443, socket(got))
		conn, r, res := c.open()
		if res.Header.Get("X-Extensions") != "" {
			t.Error("extensions:", res.Header)
		}
		if given := res.Header.Get("X-Given"); strings.Contains(given, secret) || (given != "") != (path == "/ws") {
			t.Error("the handshake repeats", given)
		}
		_, _ = io.WriteString(conn, frame(0x81, "a")+frame(0x01, "b")+frame(0x80, "c")+frame(0x81, `{"token":"`+placeholder+`"}`))
		for _, want := range []string{"a", "b", "c"} {
			if s := <-got; s != want {
				t.Errorf("%q, want %q", s, want)
			}
		}
		if path == "/ws" {
			if s := <-got; s != `{"token":"`+secret+`"}` {
				t.Errorf("%q", s)
			}
			continue
		}
		if s, ok := <-got; ok {
			t.Errorf("upstream got %q", s)
		}
		for {
			if _, err := unframe(r); err != nil {
				break
			}
		}
		c.find(event.DetectionFinding, func(map[string]any) bool { return true })
	}
}

// TestRefusedUpgrade has an upstream that does not switch, and repeats the credential.
func TestRefusedUpgrade(t *testing.T) {
	t.Parallel()
	text := websocket("access: read-write") + strings.Replace(tokens, "/v1/**", "/ws", 1)
	g, _ := withToken(t, text)
	c := newCell(t, text, func(cfg *egress.Config) { cfg.Generation = g })
	c.serve(api, 443, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := r.Header.Get("Authorization")
		w.Header().Set("X-Given", given)
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "X-Last")
		_, _ = io.WriteString(w, given)
		w.Header().Set("X-Last", given)
	}))
	_, r, res := c.open()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 || r.Buffered() > 0 {
		t.Error(res, err)
	}
	for _, text := range []string{res.Header.Get("X-Given"), string(body), res.Trailer.Get("X-Last")} {
		if !strings.HasPrefix(text, "Bearer ") || strings.Contains(text, secret) {
			t.Errorf("the program gets %q", text)
		}
	}
}
