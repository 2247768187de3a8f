package remote

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
)

const (
	// protocol is the subprotocol of the sockets of commands.
	protocol = "forkcell.exec.v1"
	// acknowledged is the same with messages that acknowledge input.
	acknowledged = protocol + ".acknowledged"
	// window is how much input a daemon that acknowledges it may have without the
	// command having read it, so that unread input never delays a signal.
	window = 256 << 10
	// maxFrame bounds a message of the daemon. The result of a run is the largest.
	maxFrame = 64 << 20
	// maxInput bounds a frame of input.
	maxInput = 32 << 10
	// leaveLimit is how long a client that leaves a command waits for the daemon.
	leaveLimit = 2 * time.Second
	// endLimit is how long a command that was told to end may take to do so.
	endLimit = 30 * time.Second
)

// The channels of binary messages: their first byte.
const (
	channelStdin = iota
	channelStdout
	channelStderr
)

// message is a text message of the daemon, or to it.
type message struct {
	Type string `json:"type"`
	// Of the daemon.
	RunID    string         `json:"run_id,omitempty"`
	ExecID   string         `json:"exec_id,omitempty"`
	ExitCode int            `json:"exit_code,omitempty"`
	Signal   string         `json:"signal,omitempty"`
	TimedOut bool           `json:"timed_out,omitempty"`
	Killed   bool           `json:"killed,omitempty"`
	EndedBy  string         `json:"ended_by,omitempty"`
	Result   *api.RunResult `json:"result,omitempty"`
	Problem  *api.Problem   `json:"problem,omitempty"`
	Bytes    int            `json:"bytes,omitempty"`
	// To the daemon.
	Cols uint16 `json:"cols,omitempty"`
	Rows uint16 `json:"rows,omitempty"`
	Name string `json:"name,omitempty"`
}

// socket carries the streams of a command.
type socket struct {
	conn *websocket.Conn
	// started is called with the first message about the command.
	started func(message)
	// unread is the input on its way, nil if the daemon does not acknowledge it.
	unread *unreadInput
	// broken are the channels whose readers have gone.
	broken [3]bool
}

// viaClient sends the request of a socket as the client sends its own.
type viaClient struct{ e *Engine }

func (v viaClient) RoundTrip(r *http.Request) (*http.Response, error) { return v.e.client.Do(r) }

// dial opens a socket.
func (e *Engine) dial(ctx context.Context, path string) (*socket, error) {
	conn, resp, err := websocket.Dial(ctx, "http://daemon"+path, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: viaClient{e}}, Subprotocols: []string{acknowledged, protocol},
	})
	if resp != nil && resp.Body != nil && err != nil {
		_ = resp.Body.Close()
	}
	if err != nil {
		return nil, failure(err)
	}
	conn.SetReadLimit(maxFrame)
	s := &socket{conn: conn, started: func(message) {}}
	if conn.Subprotocol() == acknowledged {
		s.unread = newUnread()
	}
	return s, nil
}

func (s *socket) close() { _ = s.conn.CloseNow() }

// leave closes the socket once the daemon has read what was sent, and then calls left. It
// waits for leaveLimit at most: a command that does not read its input holds the daemon up.
func (s *socket) leave(left func()) {
	defer time.AfterFunc(leaveLimit, left).Stop()
	_ = s.conn.Close(websocket.StatusNormalClosure, "")
	left()
}

// tell sends a text message.
func (s *socket) tell(ctx context.Context, doc any) error {
	text, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	return s.conn.Write(ctx, websocket.MessageText, text)
}

// relay passes streams, sizes and signals on until the last message about the
// command, which it returns. detached is sent to when the caller leaves.
func (s *socket) relay(ctx context.Context, stdio engine.Stdio, detached chan<- struct{}) (message, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if stdio.In != nil {
		go s.feed(ctx, stdio.In, detached)
	}
	go s.pass(ctx, stdio)
	for {
		kind, data, err := s.conn.Read(ctx)
		if err != nil {
			return message{}, err
		}
		if kind == websocket.MessageBinary {
			if err := s.output(ctx, stdio, data); err != nil {
				return message{}, err
			}
			continue
		}
		var m message
		if err := decode(data, &m); err != nil {
			return message{}, err
		}
		switch {
		case m.Type == "started":
			s.started(m)
		case m.Type == "stdin_read" && s.unread != nil:
			s.unread.release(m.Bytes)
		default:
			return m, nil
		}
	}
}

// output writes a frame to its stream. If its reader has gone, the command gets the
// signal that it would get here.
func (s *socket) output(ctx context.Context, stdio engine.Stdio, frame []byte) error {
	if len(frame) == 0 || frame[0] != channelStdout && frame[0] != channelStderr {
		return malformed(errors.New("a frame of an unknown stream"))
	}
	w := stdio.Out
	if frame[0] == channelStderr {
		w = stdio.Err
	}
	if s.broken[frame[0]] || w == nil {
		return nil
	}
	if _, err := w.Write(frame[1:]); err != nil {
		s.broken[frame[0]] = true
		return s.tell(ctx, message{Type: "signal", Name: signalName(unix.SIGPIPE)})
	}
	return nil
}

// feed sends the input of the caller.
func (s *socket) feed(ctx context.Context, in io.Reader, detached chan<- struct{}) {
	frame := make([]byte, maxInput)
	frame[0] = channelStdin
	for {
		n, err := in.Read(frame[1:])
		if n > 0 && s.unread != nil && !s.unread.reserve(ctx, n) {
			return
		}
		if n > 0 && s.conn.Write(ctx, websocket.MessageBinary, frame[:n+1]) != nil {
			return // attend finds out
		}
		switch {
		case errors.Is(err, engine.ErrDetached):
			detached <- struct{}{}
			return
		case err != nil:
			_ = s.tell(ctx, message{Type: "stdin_closed"})
			return
		}
	}
}

// pass sends sizes of the terminal and signals.
func (s *socket) pass(ctx context.Context, stdio engine.Stdio) {
	for {
		var m message
		select {
		case <-ctx.Done():
			return
		case size := <-stdio.Resize:
			m = message{Type: "resize", Cols: size.Cols, Rows: size.Rows}
		case sig := <-stdio.Signals:
			m = message{Type: "signal", Name: signalName(sig)}
		}
		if s.tell(ctx, m) != nil {
			return // attend finds out
		}
	}
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
