package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

const (
	// execProtocol is the subprotocol of the sockets of commands.
	execProtocol = "forkcell.exec.v1"
	// acknowledged is the same with messages that acknowledge input: a caller that
	// waits for them can always send a signal.
	acknowledged = execProtocol + ".acknowledged"
	// maxFrame bounds a message of a caller.
	maxFrame = 1 << 20
	// detachLimit is the time for input that has arrived to reach a command whose
	// caller has gone.
	detachLimit = 2 * time.Second
	// lookInterval is how often the daemon looks for a caller whose messages it does not
	// read, since a command does not read its input.
	lookInterval = time.Second
)

// The channels of binary messages: their first byte.
const (
	channelStdin = iota
	channelStdout
	channelStderr
)

// checkUpgrade refuses a request that cannot become a socket of a command.
func checkUpgrade(r *http.Request) error {
	switch {
	case r.ProtoMajor != 1 || !hasToken(r.Header, "Connection", "upgrade") || !hasToken(r.Header, "Upgrade", "websocket"):
		return &api.Error{Kind: api.Usage, Code: api.CodeUpgrade, Message: "the resource is a WebSocket", Hint: "open it with a WebSocket client"}
	case r.Header.Get("Sec-WebSocket-Version") != "13" || r.Header.Get("Sec-WebSocket-Key") == "":
		return api.Usagef("use version 13", "malformed WebSocket request")
	case !slices.ContainsFunc(tokens(r.Header, "Sec-WebSocket-Protocol"), func(p string) bool { return slices.Contains(execProtocols(), p) }):
		return api.Usagef("offer the subprotocol "+execProtocol, "no common WebSocket subprotocol")
	case !sameOrigin(r):
		return api.Refusef(api.CodeForbidden, "open the socket from a program", "a page of another origin cannot open the socket")
	}
	return nil
}

// execProtocols are the subprotocols of the sockets of commands, best first.
func execProtocols() []string { return []string{acknowledged, execProtocol} }

// sameOrigin reports whether a request comes from a page of this host, or from no
// page. The library checks the same, but its answer is no problem document.
func sameOrigin(r *http.Request) bool {
	origin := r.Header.Values("Origin")
	if len(origin) == 0 {
		return true
	}
	u, err := url.Parse(origin[0])
	return err == nil && len(origin) == 1 && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// tokens returns the values of a header that is a list.
func tokens(h http.Header, name string) (list []string) {
	for _, line := range h.Values(name) {
		for part := range strings.SplitSeq(line, ",") {
			list = append(list, strings.TrimSpace(part))
		}
	}
	return list
}

func hasToken(h http.Header, name, token string) bool {
	return slices.ContainsFunc(tokens(h, name), func(t string) bool { return strings.EqualFold(t, token) })
}

// execSocket connects a WebSocket with a command in a live cell. Closing the socket
// detaches from the command.
type execSocket struct {
	x    *exchange
	conn *websocket.Conn
	fail error // of the upgrade

	input  *inbox
	ended  bool // the input; used by listen only
	bound  bool // the command ends with the socket
	resize chan driver.WindowSize
	signal chan os.Signal
	over   <-chan struct{} // closed when the command has ended and takes no signals
	heard  chan struct{}   // closed when listen has returned
}

func newExecSocket(ctx context.Context, x *exchange) *execSocket {
	s := &execSocket{x: x, resize: make(chan driver.WindowSize, 1), signal: make(chan os.Signal, 1), over: ctx.Done(), heard: make(chan struct{})}
	s.input = newInbox(func(n int) {
		if s.conn.Subprotocol() == acknowledged {
			s.tell(ctx, execMessage{Type: "stdin_read", Bytes: n})
		}
	})
	return s
}

// serveExecSocket answers a request with a socket of a command that join executes, or
// joins. A failure before that is answered with a problem. A command that is bound
// ends with the socket; others are left.
func serveExecSocket(ctx context.Context, x *exchange, bound bool, join func(context.Context, engine.Stdio) (*api.ExecResult, error)) {
	if err := checkUpgrade(x.r); err != nil {
		x.fail(err)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := newExecSocket(ctx, x)
	s.bound = bound
	res, err := join(ctx, engine.Stdio{
		In: s.input, Out: s.channel(ctx, channelStdout), Err: s.channel(ctx, channelStderr), Resize: s.resize, Signals: s.signal,
		Started: func(id string) { s.begin(ctx, cancel, id) },
	})
	switch {
	case s.fail != nil:
		return // the library has answered
	case s.conn == nil:
		x.fail(err)
		return
	}
	s.input.discard()
	s.finish(ctx, res, err)
	cancel()
	<-s.heard
}

// begin upgrades the connection, when the command has started.
func (s *execSocket) begin(ctx context.Context, cancel context.CancelFunc, id string) {
	conn, err := websocket.Accept(s.x.w, s.x.r, &websocket.AcceptOptions{Subprotocols: execProtocols()})
	if err != nil {
		s.fail = err
		cancel()
		return
	}
	s.conn = conn
	conn.SetReadLimit(maxFrame)
	s.tell(ctx, execMessage{Type: "started", ExecID: id})
	go func() {
		defer close(s.heard)
		s.listen(context.WithoutCancel(ctx)) // until the socket is closed
		if s.ended || s.bound {
			cancel()
			return
		}
		s.input.close(engine.ErrDetached)
		defer time.AfterFunc(detachLimit, cancel).Stop()
		<-ctx.Done()
	}()
}

// finish sends how the command ended, and closes the socket.
func (s *execSocket) finish(ctx context.Context, res *api.ExecResult, err error) {
	switch {
	case ctx.Err() != nil && s.x.server.drain.isStopping():
		_ = s.conn.Close(websocket.StatusGoingAway, "the daemon is stopping")
	case err != nil:
		_ = s.conn.Close(websocket.StatusInternalError, string(s.x.server.problemOf(s.x.call, err).Code))
	case res.Detached:
		_ = s.conn.CloseNow()
	default:
		code, name := res.ExitCode, ""
		if res.Signal != 0 {
			name = strings.TrimPrefix(unix.SignalName(unix.Signal(res.Signal)), "SIG")
		}
		s.tell(ctx, execMessage{Type: "exit", ExitCode: &code, Signal: &name, TimedOut: res.TimedOut, Killed: res.Killed, EndedBy: res.EndedBy})
		_ = s.conn.Close(websocket.StatusNormalClosure, "")
	}
}

// callerMessage is a text message of the caller.
type callerMessage struct {
	Type string  `json:"type" enum:"resize,signal,stdin_closed"`
	Cols *uint16 `json:"cols,omitempty"`
	Rows *uint16 `json:"rows,omitempty"`
	Name string  `json:"name,omitempty"`
}

// execMessage is a text message of the daemon.
type execMessage struct {
	Type     string  `json:"type"`
	ExecID   string  `json:"exec_id,omitempty"`
	ExitCode *int    `json:"exit_code,omitempty"`
	Signal   *string `json:"signal,omitempty"`
	TimedOut bool    `json:"timed_out,omitempty"`
	Killed   bool    `json:"killed,omitempty"`
	EndedBy  string  `json:"ended_by,omitempty"`
	Bytes    int     `json:"bytes,omitempty"`
}

func (s *execSocket) tell(ctx context.Context, m execMessage) {
	text, err := json.Marshal(m)
	if err == nil {
		_ = s.write(ctx, websocket.MessageText, text)
	}
}

// write sends a message. If that fails, the caller has gone: listen finds out, and first
// reads what the caller had sent. A caller that does not read is cut off.
func (s *execSocket) write(ctx context.Context, kind websocket.MessageType, p []byte) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bodyTimeout)
	defer cancel()
	err := s.conn.Write(ctx, kind, p)
	if err != nil && ctx.Err() != nil {
		_ = s.conn.CloseNow()
	}
	return err
}

// channel returns a writer of one of the command's streams. It never fails: a caller
// that has gone leaves the command's output open.
func (s *execSocket) channel(ctx context.Context, number byte) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		_ = s.write(ctx, websocket.MessageBinary, append([]byte{number}, p...))
		return len(p), nil
	})
}

// errFrame and errMessage are the failures of a caller that breaks the protocol.
var (
	errFrame   = errors.New("malformed frame")
	errMessage = errors.New("malformed message")
)

// listen obeys the caller's messages until the socket is closed. More unread input than
// an inbox has room for holds up the messages after it.
func (s *execSocket) listen(ctx context.Context) {
	for {
		err := s.next(ctx)
		switch {
		case err == nil:
			continue
		case errors.Is(err, errFrame):
			_ = s.conn.Close(websocket.StatusProtocolError, err.Error())
		case errors.Is(err, errMessage):
			_ = s.conn.Close(websocket.StatusPolicyViolation, err.Error())
		}
		return
	}
}

// next reads one message.
func (s *execSocket) next(ctx context.Context) error {
	kind, data, err := s.conn.Read(ctx)
	switch {
	case err != nil:
		return err
	case kind == websocket.MessageText:
		return s.obey(data)
	case len(data) == 0 || data[0] != channelStdin || s.ended:
		return fmt.Errorf("%w: a caller sends on channel 0, until it has closed it", errFrame)
	}
	if !s.input.put(data[1:]) {
		return s.awaitRoom(ctx)
	}
	return nil
}

// awaitRoom waits until the command has read input. The daemon does not read the socket
// meanwhile, so it finds out by writing whether the caller is still there: output
// without a byte changes nothing.
func (s *execSocket) awaitRoom(ctx context.Context) error {
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for {
		select {
		case <-s.input.space:
			if s.input.put(nil) {
				return nil
			}
		case <-look.C:
			if err := s.write(ctx, websocket.MessageBinary, []byte{channelStdout}); err != nil {
				return err
			}
		}
	}
}

// obey does what a text message says.
func (s *execSocket) obey(text []byte) error {
	var m callerMessage
	if err := execMessages().read(text, &m); err != nil {
		return errMessage
	}
	switch {
	case m.Type == "resize" && m.Cols != nil && m.Rows != nil:
		send(s.over, s.resize, driver.WindowSize{Cols: *m.Cols, Rows: *m.Rows})
	case m.Type == "signal" && unix.SignalNum("SIG"+m.Name) != 0:
		send(s.over, s.signal, os.Signal(unix.SignalNum("SIG"+m.Name)))
	case m.Type == "stdin_closed":
		s.ended = true
		s.input.close(io.EOF)
	default:
		return errMessage
	}
	return nil
}

// send sends a value unless over is closed first.
func send[T any](over <-chan struct{}, to chan<- T, value T) {
	select {
	case to <- value:
	case <-over:
	}
}
