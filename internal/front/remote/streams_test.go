package remote

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/api/execsocket"
	"github.com/forkcell/forkcell/internal/api/execwire/execwiretest"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// TestNewHost: this end and the host of package execwire understand each other, whatever
// goes through the socket.
func TestNewHost(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	accepted := make(chan *websocket.Conn, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: execsocket.Protocols()})
		if err != nil {
			t.Error(err)
			return
		}
		accepted <- ws
	}))
	t.Cleanup(server.Close)
	exit, err := execsocket.Message{Type: "exit", ExitCode: new(3)}.Frame()
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		tr := execwiretest.Draw(rt)
		protocol := rapid.SampledFrom(execsocket.Protocols()).Draw(rt, "protocol")
		ws, _, err := websocket.Dial(ctx, server.URL, &websocket.DialOptions{Subprotocols: []string{protocol}}) //nolint:bodyclose // the library does
		if err != nil {
			rt.Fatal(err)
		}
		s := &socket{conn: ws, started: func(message) {}}
		ws.SetReadLimit(maxFrame)
		if protocol == acknowledged {
			s.unread = newUnread()
		}
		defer s.close()
		wrong := make(chan string, 1)
		go func() {
			host := execsocket.NewHost(ctx, <-accepted, time.Minute)
			limit := window
			if protocol != acknowledged {
				limit = -1
			}
			wrong <- execwiretest.Serve(host, limit).Play(tr)
			_ = host.Send(exit)
		}()
		sizes, signals := make(chan driver.WindowSize), make(chan os.Signal)
		go func() {
			for _, size := range tr.Sizes {
				sizes <- driver.WindowSize(size)
			}
		}()
		go func() {
			for _, name := range tr.Signals {
				signals <- unix.SignalNum("SIG" + name)
			}
		}()
		var out, errs bytes.Buffer
		m, err := s.relay(ctx, engine.Stdio{In: tr.Reader(), Out: &out, Err: &errs, Resize: sizes, Signals: signals}, nil)
		if w := <-wrong + tr.Check(out.Bytes(), errs.Bytes()); w != "" || err != nil || m.ExitCode != 3 {
			rt.Fatal(w, m, err)
		}
	})
}
