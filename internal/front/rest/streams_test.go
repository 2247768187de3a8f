package rest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/coder/websocket"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/internal/api/execsocket"
	"github.com/forkcell/forkcell/internal/api/execwire/execwiretest"
)

// TestNewCaller: the daemon's end and the caller of package execwire understand each other,
// whatever goes through the socket.
func TestNewCaller(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	accepted := make(chan *execSocket, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: execProtocols()})
		if err != nil {
			t.Error(err)
			return
		}
		s := newExecSocket(ctx, nil)
		s.conn = conn
		conn.SetReadLimit(maxFrame)
		accepted <- s
	}))
	t.Cleanup(server.Close)
	rapid.Check(t, func(rt *rapid.T) {
		tr := execwiretest.Draw(rt)
		protocol := rapid.SampledFrom(execsocket.Protocols()).Draw(rt, "protocol")
		ws, _, err := websocket.Dial(ctx, server.URL, &websocket.DialOptions{Subprotocols: []string{protocol}}) //nolint:bodyclose // the library does
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = ws.CloseNow() }()
		wrong := make(chan string, 1)
		go func() { wrong <- playOld(ctx, <-accepted, tr) }()
		conn, window := execsocket.NewCaller(ctx, ws)
		got := execwiretest.Use(conn, window, tr)
		if w := <-wrong + got; w != "" {
			rt.Fatal(w)
		}
	})
}

// playOld is what the command of a trial does.
func playOld(ctx context.Context, s *execSocket, tr execwiretest.Trial) string {
	go s.listen(ctx)
	taken := make(chan string, 1)
	go func() {
		wrong := ""
		for _, want := range tr.Sizes {
			if got := <-s.resize; got.Rows != want.Rows || got.Cols != want.Cols {
				wrong = "another size came"
			}
		}
		taken <- wrong
	}()
	go func() {
		wrong := ""
		for _, name := range tr.Signals {
			if got := <-s.signal; got != os.Signal(unix.SignalNum("SIG"+name)) {
				wrong = "another signal came"
			}
		}
		taken <- wrong
	}()
	input, err := io.ReadAll(s.input)
	if err != nil || !bytes.Equal(input, tr.Input) {
		return "other input came"
	}
	if wrong := <-taken + <-taken; wrong != "" {
		return wrong
	}
	streams := [2]io.Writer{s.channel(ctx, channelStdout), s.channel(ctx, channelStderr)}
	tr.Print(func(stderr bool, p []byte) {
		i := 0
		if stderr {
			i = 1
		}
		_, _ = streams[i].Write(p)
	})
	text := ""
	s.tell(ctx, execMessage{Type: "exit", ExitCode: new(int), Signal: &text})
	return ""
}
