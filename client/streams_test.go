package client_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"
	"pgregory.net/rapid"

	"github.com/forkcell/forkcell/client"
	"github.com/forkcell/forkcell/internal/api/execsocket"
	"github.com/forkcell/forkcell/internal/api/execwire"
	"github.com/forkcell/forkcell/internal/api/execwire/execwiretest"
)

// TestStreams: the methods of a socket carry whatever a caller and a command say to each
// other. The host is that of package execwire.
func TestStreams(t *testing.T) {
	t.Parallel()
	accepted := make(chan *websocket.Conn, 1)
	protocols := make(chan []string, 1)
	c := against(t, func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: <-protocols})
		if err != nil {
			t.Error(err)
			return
		}
		accepted <- ws
	})
	started, _ := execsocket.Message{Type: "started", ExecID: "exec_1"}.Frame()
	exit, _ := execsocket.Message{Type: "exit", ExitCode: new(3)}.Frame()
	rapid.Check(t, func(rt *rapid.T) {
		tr := execwiretest.Draw(rt)
		protocol := rapid.SampledFrom(execsocket.Protocols()).Draw(rt, "protocol")
		protocols <- []string{protocol}
		wrong := make(chan string, 1)
		go func() {
			host := execsocket.NewHost(t.Context(), <-accepted, time.Minute)
			_ = host.Send(started)
			limit := execwire.Unlimited
			if protocol == execsocket.Acknowledged {
				limit = execwire.InputWindow
			}
			wrong <- execwiretest.Serve(host, limit).Play(tr)
			_ = host.Send(exit)
		}()
		var out, errs bytes.Buffer
		s, err := c.Cells.Named("x").OpenExec(t.Context(), client.OpenExec{Command: []string{"true"}}, client.Stdout(&out), client.Stderr(&errs))
		if err != nil {
			rt.Fatal(err)
		}
		for _, size := range tr.Sizes {
			err = s.Resize(size.Cols, size.Rows)
		}
		for _, name := range tr.Signals {
			err = s.Signal(name)
		}
		if _, copied := io.Copy(s, onlyReader{tr.Reader()}); err != nil || copied != nil {
			rt.Fatal(err, copied)
		}
		if err := s.CloseInput(); err != nil {
			rt.Fatal(err)
		}
		end, err := s.Wait()
		if w := <-wrong + tr.Check(out.Bytes(), errs.Bytes()); w != "" || err != nil || end.ExitCode != 3 || s.ID != "exec_1" {
			rt.Fatal(w, end, err)
		}
	})
}

// onlyReader hides that a reader could write by itself.
type onlyReader struct{ io.Reader }
