package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/coder/websocket"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/execsocket"
	"github.com/forkcell/forkcell/internal/api/execwire"
	"github.com/forkcell/forkcell/internal/api/op"
)

// OpenExec is a command for OpenExec.
type OpenExec struct {
	Command []string
	Env     map[string]string
	Workdir string // where the command starts
	Timeout string // such as 30s
	// TTY gives the command a terminal of Cols and Rows. What it writes is Stdout.
	TTY        bool
	Cols, Rows uint16
	// Attached ends the command with the socket.
	Attached bool
}

func (r OpenExec) query() url.Values {
	q := url.Values{"command": r.Command}
	for name, value := range r.Env {
		q.Add("env", name+"="+value)
	}
	for key, value := range map[string]string{"workdir": r.Workdir, "timeout": r.Timeout} {
		if value != "" {
			q.Set(key, value)
		}
	}
	if r.TTY {
		q.Set("tty", "true")
	}
	if r.Attached {
		q.Set("attached", "true")
	}
	setSize(q, r.Cols, r.Rows)
	return q
}

func setSize(q url.Values, cols, rows uint16) {
	if cols != 0 || rows != 0 {
		q.Set("cols", strconv.Itoa(int(cols)))
		q.Set("rows", strconv.Itoa(int(rows)))
	}
}

// ExecSocket is a connection to a command in a live cell. Write sends it input.
type ExecSocket struct {
	// ID names the command, for Attach.
	ID string

	ctx    context.Context //nolint:containedctx // it is the connection's: Write has none
	ws     *websocket.Conn
	conn   *execsocket.Conn
	caller *execwire.Caller
	done   chan struct{} // closed when the next two are set
	exit   *ExecExit
	err    error
}

// ExecExit is how a command ended.
type ExecExit struct {
	ExitCode int
	Signal   string // the name of the signal that ended it, such as KILL, or ""
}

// OpenExec executes a command in a live cell with its input and output in a socket.
// Stdout and Stderr get the output as it comes. The end of the context closes the
// socket: the command goes on, unless it is Attached, and Attach joins it.
func (c *Cell) OpenExec(ctx context.Context, r OpenExec, opts ...CallOption) (*ExecSocket, error) {
	return c.dial(ctx, op.ExecSocket.At(c.Name)+"?"+r.query().Encode(), opts)
}

// ShareKeyboard has Attach join the clients that share the keyboard: the first one types.
// One that takes it becomes the first. Without it the client always types.
func ShareKeyboard(take bool) CallOption {
	return func(c *call) {
		if c.keyboard = "share"; take {
			c.keyboard = "take"
		}
	}
}

// Attach joins a command that OpenExec began: it gets the last 256 KiB of its output,
// and what comes. A terminal takes the size cols and rows, unless they are 0.
func (c *Cell) Attach(ctx context.Context, exec string, cols, rows uint16, opts ...CallOption) (*ExecSocket, error) {
	query := url.Values{}
	setSize(query, cols, rows)
	if in, err := newCall(http.MethodGet, "", nil, opts); err == nil && in.keyboard != "" {
		query.Set("keyboard", in.keyboard)
	}
	return c.dial(ctx, op.Attach.At(c.Name, exec)+"?"+query.Encode(), opts)
}

func (c *Cell) dial(ctx context.Context, path string, opts []CallOption) (*ExecSocket, error) {
	in, err := newCall(http.MethodGet, path, nil, opts)
	if err != nil {
		return nil, err
	}
	c.client.identify(in.header)
	ws, resp, err := websocket.Dial(ctx, c.client.address.base+path, &websocket.DialOptions{
		HTTPClient: c.client.http, HTTPHeader: in.header, Subprotocols: execsocket.Protocols(),
	})
	switch {
	case err != nil && resp != nil && resp.StatusCode >= http.StatusBadRequest:
		_, err = requireSuccess(resp)
		return nil, err
	case err != nil:
		return nil, c.client.failed(err)
	}
	conn, window := execsocket.NewCaller(ctx, ws)
	s := &ExecSocket{ctx: ctx, ws: ws, conn: conn, caller: execwire.NewCaller(conn, window), done: make(chan struct{})}
	if err := s.begin(); err != nil {
		_ = ws.CloseNow()
		return nil, err
	}
	go s.receive(in)
	return s, nil
}

// begin reads the first message, which has the id of the command.
func (s *ExecSocket) begin() error {
	f, err := s.conn.Receive()
	if err != nil {
		return s.lost(err)
	}
	if f.Kind != execwire.Started {
		return errors.New("the socket did not begin with the id of the command")
	}
	var m execsocket.Message
	err = readDocument(f.Data, &m)
	s.ID = m.ExecID
	return err
}

// receive passes on output until the command or the connection has ended.
func (s *ExecSocket) receive(in *call) {
	defer close(s.done)
	defer func() { _ = s.ws.CloseNow() }()
	var failed error // of a writer
	last, err := s.caller.Follow(func(stderr bool, p []byte) error {
		to := in.stdout
		if stderr {
			to = in.stderr
		}
		if to != nil {
			_, failed = to.Write(p)
		}
		return failed
	})
	if err != nil {
		if s.err = failed; failed == nil {
			s.err = s.lost(err)
		}
		return
	}
	if last.Kind != execwire.Exit {
		s.err = errors.New("the socket did not end with the exit of the command")
		return
	}
	var m struct {
		ExitCode int    `json:"exit_code"`
		Signal   string `json:"signal"`
	}
	if s.err = readDocument(last.Data, &m); s.err == nil {
		s.exit = &ExecExit{ExitCode: m.ExitCode, Signal: m.Signal}
	}
}

// lost returns the error of a connection that ended before the command.
func (s *ExecSocket) lost(err error) error {
	if cause := context.Cause(s.ctx); cause != nil {
		return errors.Join(cause, s.ctx.Err())
	}
	if closed, ok := errors.AsType[websocket.CloseError](err); ok && closed.Code == websocket.StatusInternalError {
		return problemError(reasonProblem(closed.Reason))
	}
	return fmt.Errorf("the socket was closed before the command ended: %w", err)
}

// Write sends input to the command. It waits while the command does not read.
func (s *ExecSocket) Write(p []byte) (n int, err error) { return s.caller.Write(p) }

// CloseInput tells the command that there is no more input.
func (s *ExecSocket) CloseInput() error {
	return s.conn.Send(execwire.Frame{Kind: execwire.StdinEnd})
}

// Resize gives the terminal of the command another size.
func (s *ExecSocket) Resize(cols, rows uint16) error {
	return s.conn.Send(execwire.Frame{Kind: execwire.Resize, Size: api.WindowSize{Cols: cols, Rows: rows}})
}

// Signal sends the command a signal by its name, such as INT.
func (s *ExecSocket) Signal(name string) error {
	return s.conn.Send(execwire.Frame{Kind: execwire.Signal, Signal: name})
}

// Wait returns how the command ended, when it has.
func (s *ExecSocket) Wait() (*ExecExit, error) {
	<-s.done
	return s.exit, s.err
}

// Close closes the socket. A command that has not ended goes on, and Attach joins it.
func (s *ExecSocket) Close() error {
	select {
	case <-s.done:
		return nil
	default:
		return s.ws.Close(websocket.StatusNormalClosure, "")
	}
}
