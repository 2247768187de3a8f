package rest

import (
	"context"
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
	"github.com/forkcell/forkcell/internal/api/execsocket"
	"github.com/forkcell/forkcell/internal/api/execwire"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

const (
	// detachLimit is the time for input that has arrived to reach a command whose
	// caller has gone.
	detachLimit = 2 * time.Second
	// lookInterval is how often the daemon looks for a caller whose messages it does not
	// read, since a command does not read its input.
	lookInterval = time.Second
)

// checkUpgrade refuses a request that cannot become a socket of a command.
func checkUpgrade(r *http.Request) error {
	switch {
	case r.ProtoMajor != 1 || !hasToken(r.Header, "Connection", "upgrade") || !hasToken(r.Header, "Upgrade", "websocket"):
		return &api.Error{Kind: api.Usage, Code: api.CodeUpgrade, Message: "the resource is a WebSocket", Hint: "open it with a WebSocket client"}
	case r.Header.Get("Sec-WebSocket-Version") != "13" || r.Header.Get("Sec-WebSocket-Key") == "":
		return api.Usagef("use version 13", "malformed WebSocket request")
	case !slices.ContainsFunc(tokens(r.Header, "Sec-WebSocket-Protocol"), func(p string) bool { return slices.Contains(execsocket.Protocols(), p) }):
		return api.Usagef("offer the subprotocol "+execsocket.Protocol, "no common WebSocket subprotocol")
	case !sameOrigin(r):
		return api.Refusef(api.CodeForbidden, "open the socket from a program", "a page of another origin cannot open the socket")
	}
	return nil
}

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

// execSocket is the end of a WebSocket that has the command. Closing the socket detaches
// from the command. It implements execwire.Command.
type execSocket struct {
	x    *exchange
	ws   *websocket.Conn
	conn *execsocket.Conn
	fail error // of the upgrade

	input  *execwire.Input
	ended  bool // the input; used by listen only
	bound  bool // the command ends with the socket
	resize chan driver.WindowSize
	signal chan os.Signal
	over   <-chan struct{} // closed when the command has ended and takes no signals
	heard  chan struct{}   // closed when listen has returned
}

func newExecSocket(ctx context.Context, x *exchange) *execSocket {
	return &execSocket{
		x: x, input: execwire.NewInput(), resize: make(chan driver.WindowSize, 1), signal: make(chan os.Signal, 1),
		over: ctx.Done(), heard: make(chan struct{}),
	}
}

// use begins to send and receive frames.
func (s *execSocket) use(ctx context.Context, ws *websocket.Conn) {
	s.ws, s.conn = ws, execsocket.NewHost(ctx, ws, bodyTimeout)
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
		In: s.input, Out: s.stream(execwire.Stdout), Err: s.stream(execwire.Stderr), Resize: s.resize, Signals: s.signal,
		Started: func(id string) { s.begin(ctx, cancel, id) },
	})
	switch {
	case s.fail != nil:
		return // the library has answered
	case s.conn == nil:
		x.fail(err)
		return
	}
	s.input.Discard()
	s.finish(ctx, res, err)
	cancel()
	<-s.heard
}

// begin upgrades the connection, when the command has started.
func (s *execSocket) begin(ctx context.Context, cancel context.CancelFunc, id string) {
	ws, err := websocket.Accept(s.x.w, s.x.r, &websocket.AcceptOptions{Subprotocols: execsocket.Protocols()})
	if err != nil {
		s.fail = err
		cancel()
		return
	}
	s.use(ctx, ws)
	s.tell(execsocket.Message{Type: "started", ExecID: id})
	go func() {
		defer close(s.heard)
		s.conn.Refuse(execwire.Listen(s.conn, s)) // until the socket is closed
		if s.ended || s.bound {
			cancel()
			return
		}
		s.input.Close(execwire.ErrDetached)
		defer time.AfterFunc(detachLimit, cancel).Stop()
		<-ctx.Done()
	}()
}

// finish sends how the command ended, and closes the socket.
func (s *execSocket) finish(ctx context.Context, res *api.ExecResult, err error) {
	switch {
	case ctx.Err() != nil && s.x.server.drain.isStopping():
		_ = s.ws.Close(websocket.StatusGoingAway, "the daemon is stopping")
	case err != nil:
		_ = s.ws.Close(websocket.StatusInternalError, string(s.x.server.problemOf(s.x.call, err).Code))
	case res.Detached:
		_ = s.conn.Close()
	default:
		code, name := res.ExitCode, ""
		if res.Signal != 0 {
			name = strings.TrimPrefix(unix.SignalName(unix.Signal(res.Signal)), "SIG")
		}
		s.tell(execsocket.Message{Type: "exit", ExitCode: &code, Signal: &name, TimedOut: res.TimedOut, Killed: res.Killed, EndedBy: res.EndedBy})
		_ = s.ws.Close(websocket.StatusNormalClosure, "")
	}
}

// tell sends a message. If that fails, the caller has gone: Listen finds out, and first
// reads what the caller had sent.
func (s *execSocket) tell(m execsocket.Message) {
	f, err := m.Frame()
	if err == nil {
		_ = s.conn.Send(f)
	}
}

// stream returns a writer of one of the command's streams. It never fails: a caller that
// has gone leaves the command's output open.
func (s *execSocket) stream(kind execwire.Kind) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		_ = s.conn.Send(execwire.Frame{Kind: kind, Data: p})
		return len(p), nil
	})
}

// Input takes input. More of it than may be unread holds up the frames after it.
func (s *execSocket) Input(p []byte) error {
	if s.ended {
		return fmt.Errorf("%w: input after its end", execwire.ErrFrame)
	}
	s.input.Put(s, p)
	return s.awaitRoom()
}

// HasRead tells the caller how much the command has read.
func (s *execSocket) HasRead(n int) { _ = s.conn.Send(execwire.Frame{Kind: execwire.Window, Bytes: n}) }

// awaitRoom waits until the command has read input. The daemon does not read the socket
// meanwhile, so it finds out by writing whether the caller is still there: output
// without a byte changes nothing.
func (s *execSocket) awaitRoom() error {
	var look *time.Ticker
	for s.input.Unread() >= execwire.MaxUnread {
		if look == nil {
			look = time.NewTicker(lookInterval)
			defer look.Stop()
		}
		select {
		case <-s.input.Space():
		case <-look.C:
			if err := s.conn.Send(execwire.Frame{Kind: execwire.Stdout}); err != nil {
				return err
			}
		}
	}
	return nil
}

// EndInput ends the input of the command.
func (s *execSocket) EndInput() {
	s.ended = true
	s.input.Close(io.EOF)
}

// EndOutput does nothing: a caller of the API sends a signal instead.
func (*execSocket) EndOutput(bool) {}

// Resize gives the terminal of the command another size.
func (s *execSocket) Resize(size api.WindowSize) { send(s.over, s.resize, driver.WindowSize(size)) }

// Signal sends the command a signal.
func (s *execSocket) Signal(name string) error {
	n := unix.SignalNum("SIG" + name)
	if n == 0 {
		return fmt.Errorf("%w: there is no signal %s", execwire.ErrMessage, name)
	}
	send(s.over, s.signal, os.Signal(n))
	return nil
}

// send sends a value unless over is closed first.
func send[T any](over <-chan struct{}, to chan<- T, value T) {
	select {
	case to <- value:
	case <-over:
	}
}
