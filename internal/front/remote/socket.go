package remote

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/execsocket"
	"github.com/forkcell/forkcell/internal/api/execwire"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

const (
	// leaveLimit is how long a client that leaves a command waits for the daemon.
	leaveLimit = 2 * time.Second
	// endLimit is how long a command that was told to end may take to do so.
	endLimit = 30 * time.Second
)

// socket carries the streams of a command.
type socket struct {
	ws *websocket.Conn
	// started is called with the first message about the command.
	started func(execsocket.Message)
}

// viaClient sends the request of a socket as the client sends its own.
type viaClient struct{ e *Engine }

func (v viaClient) RoundTrip(r *http.Request) (*http.Response, error) { return v.e.client.Do(r) }

// dial opens a socket.
func (e *Engine) dial(ctx context.Context, path string) (*socket, error) {
	ws, resp, err := websocket.Dial(ctx, "http://daemon"+path, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: viaClient{e}}, Subprotocols: execsocket.Protocols(),
	})
	if resp != nil && resp.Body != nil && err != nil {
		_ = resp.Body.Close()
	}
	if err != nil {
		if sent, ok := errors.AsType[*url.Error](err); ok {
			err = sent.Err // what the client says, without the words of two libraries
		}
		return nil, failure(err)
	}
	return &socket{ws: ws, started: func(execsocket.Message) {}}, nil
}

func (s *socket) close() { _ = s.ws.CloseNow() }

// leave closes the socket once the daemon has read what was sent, and then calls left. It
// waits for leaveLimit at most: a command that does not read its input holds the daemon up.
func (s *socket) leave(left func()) {
	defer time.AfterFunc(leaveLimit, left).Stop()
	_ = s.ws.Close(websocket.StatusNormalClosure, "")
	left()
}

// tell sends the document that a socket begins with.
func (s *socket) tell(ctx context.Context, doc any) error {
	text, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	return s.ws.Write(ctx, websocket.MessageText, text)
}

// relay passes streams, sizes and signals on until the last message about the
// command, which it returns. detached is sent to when the caller leaves.
func (s *socket) relay(ctx context.Context, stdio engine.Stdio, detached chan<- struct{}) (m execsocket.Message, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	conn, window := execsocket.NewCaller(ctx, s.ws)
	caller := execwire.NewCaller(conn, window)
	caller.Started = func(f execwire.Frame) error {
		var m execsocket.Message
		err := decode(f.Data, &m)
		if err == nil {
			s.started(m)
		}
		return err
	}
	if stdio.In != nil {
		go func() {
			if caller.Feed(stdio.In) != nil {
				detached <- struct{}{}
			}
		}()
	}
	go execwire.Control(caller, stdio.Resize, sizeFrame, stdio.Signals, signalFrame)
	last, err := caller.Follow(caller.Print(stdio.Out, stdio.Err))
	switch {
	case errors.Is(err, execwire.ErrFrame), errors.Is(err, execwire.ErrMessage):
		return m, malformed(err)
	case err != nil:
		return m, err
	}
	return m, decode(last.Data, &m)
}

func sizeFrame(size driver.WindowSize) execwire.Frame {
	return execwire.Frame{Kind: execwire.Resize, Size: api.WindowSize(size)}
}

func signalFrame(sig os.Signal) execwire.Frame {
	return execwire.Frame{Kind: execwire.Signal, Signal: signalName(sig)}
}

// emptyInput is an empty input.
type emptyInput struct{}

func (emptyInput) Read([]byte) (int, error) { return 0, io.EOF }

// signalName returns the name of a signal, without SIG.
func signalName(sig os.Signal) string {
	n, _ := sig.(unix.Signal)
	return strings.TrimPrefix(unix.SignalName(n), "SIG")
}

// signalNumber is the opposite of signalName.
func signalNumber(name string) int { return int(unix.SignalNum("SIG" + name)) }
