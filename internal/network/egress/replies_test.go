package egress_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/network/egress"
	"github.com/forkcell/forkcell/internal/network/egress/credential"
)

// reply makes a frame as a server sends it.
func reply(head byte, text string) string {
	b := []byte{head}
	switch n := len(text); {
	case n < 126:
		b = append(b, byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 127), uint64(n))
	}
	return string(b) + text
}

const stars = "************"

// replied has messages of a host that repeat the secret, and what the program gets.
func replied() (sent, want string) {
	long := strings.Repeat("x", 70<<10)
	for _, f := range []struct {
		head       byte
		sent, want string
	}{
		{0x81, "hello", "hello"},
		{0x81, "it is " + secret, "it is " + stars},
		{0x82, "\x00" + secret + "\x00", "\x00" + stars + "\x00"},
		{0x89, secret, stars}, // ping
		// In three frames, with a ping and an empty frame between them.
		{0x01, "it is " + secret[:4], "it is " + stars[:4]},
		{0x89, "ping", "ping"},
		{0x00, "", ""},
		{0x00, secret[4:6], stars[4:6]},
		{0x80, secret[6:] + " indeed", stars[6:] + " indeed"},
		// The start of a value, at the end of a message.
		{0x02, "a" + secret[:6], "a" + secret[:6]},
		{0x80, "", ""},
		{0x81, secret[6:], secret[6:]},
		{0x82, long + secret + long, long + stars + long},
		{0x81, strings.Repeat("y", 200) + secret, strings.Repeat("y", 200) + stars},
		{0x88, "\x03\xe8" + secret, "\x03\xe8" + stars}, // close
	} {
		sent += reply(f.head, f.sent)
		want += reply(f.head, f.want)
	}
	return sent, want
}

// TestReplies masks values in messages that arrive in any pieces.
func TestReplies(t *testing.T) {
	t.Parallel()
	g, _ := withToken(t, rules(fullAPI)+tokens)
	echo := func() *credential.Echo { return g.Credentials.Echo(api) }
	sent, want := replied()
	for name, from := range map[string]io.Reader{
		"whole": strings.NewReader(sent), "half": iotest.HalfReader(strings.NewReader(sent)), "byte": iotest.OneByteReader(strings.NewReader(sent)),
		"end": iotest.DataErrReader(strings.NewReader(sent)),
	} {
		got, err := io.ReadAll(egress.Replies(from, echo))
		if err != nil || string(got) != want {
			t.Errorf("%s: %d bytes, want %d; %v", name, len(got), len(want), err)
		}
	}
	for _, bad := range []string{
		reply(0xc1, "compressed"), frame(0x81, "masked"), reply(0x80, "continued"), reply(0x83, "unknown"), reply(0x8b, "unknown"),
		reply(0x01, "begun") + reply(0x81, "again"), reply(0x09, "in parts"), reply(0x89, strings.Repeat("x", 126)),
		reply(0x01, secret[:4]) + strings.Repeat(reply(0, ""), 10<<10),
	} {
		if got, err := io.ReadAll(egress.Replies(strings.NewReader(bad), echo)); err == nil {
			t.Errorf("%.40q: %.40q", bad, got)
		}
	}
	broken := io.MultiReader(strings.NewReader(reply(0x81, "one")), iotest.ErrReader(errors.New("gone")))
	if got, err := io.ReadAll(egress.Replies(broken, echo)); err == nil || string(got) != reply(0x81, "one") {
		t.Errorf("%q, %v", got, err)
	}
}

// TestWebsocketReplies has a host repeat a value on a websocket, at a path to which
// the credential does not go.
func TestWebsocketReplies(t *testing.T) {
	t.Parallel()
	text := websocket("access: read-write") + tokens
	g, _ := withToken(t, text)
	sent, want := replied()
	for name, q := range map[string]struct{ header, sent, want string }{
		"masked":     {"", sent, want},
		"compressed": {"", reply(0x81, "one") + reply(0xc1, "two"), ""},
		"extended":   {"Sec-WebSocket-Extensions: permessage-deflate\r\n", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCell(t, text, func(cfg *egress.Config) { cfg.Generation = g })
			c.serve(api, 443, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("Sec-Websocket-Extensions"); got != "" {
					t.Error("the upstream is asked for", got)
				}
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = conn.Close() }()
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+q.header+"\r\n"+reply(0x81, "hello")+q.sent)
			}))
			_, r, res := c.open()
			if q.header != "" {
				if res.StatusCode != 502 {
					t.Error(res)
				}
				return
			}
			if q.want == "" {
				c.find(event.HTTPActivity, func(e map[string]any) bool { return strings.Contains(fieldOf(e), "uses an extension") })
				return
			}
			got := make([]byte, len(q.want))
			if n, err := io.ReadFull(r, got); err != nil || string(got) != q.want {
				t.Errorf("%d bytes, want %d; %v", n, len(q.want), err)
			}
		})
	}
}
