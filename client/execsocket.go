package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/coder/websocket"

	"github.com/forkcell/forkcell/internal/api/op"
)

const (
	// execProtocol is the subprotocol of the sockets of commands.
	execProtocol = "forkcell.exec.v1"
	// acknowledged is the same with messages that acknowledge input.
	acknowledged = execProtocol + ".acknowledged"
)

// The channels of binary messages: their first byte.
const (
	channelStdin = iota
	channelStdout
	channelStderr
)

const (
	// inputPart is how much input one message has.
	inputPart = 64 << 10
	// partsUnread is how many messages of input a daemon that acknowledges input may
	// have, so that what the command does not read delays no signal.
	partsUnread = 4
	// maxFrame bounds a message of the daemon.
	maxFrame = 16 << 20
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
	conn   *websocket.Conn
	unread chan int      // sizes of the messages of input that were not read, in order
	first  int           // what was not read of the first one; used by receive only
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
	conn, resp, err := websocket.Dial(ctx, c.client.address.base+path, &websocket.DialOptions{
		HTTPClient: c.client.http, HTTPHeader: in.header, Subprotocols: []string{acknowledged, execProtocol},
	})
	switch {
	case err != nil && resp != nil && resp.StatusCode >= http.StatusBadRequest:
		_, err = requireSuccess(resp)
		return nil, err
	case err != nil:
		return nil, c.client.failed(err)
	}
	conn.SetReadLimit(maxFrame)
	s := &ExecSocket{ctx: ctx, conn: conn, done: make(chan struct{})}
	if conn.Subprotocol() == acknowledged {
		s.unread = make(chan int, partsUnread)
	}
	first, err := s.next(nil, nil)
	if err == nil && first.Type != "started" {
		err = errors.New("the socket did not begin with the id of the command")
	}
	if err != nil {
		_ = conn.CloseNow()
		return nil, err
	}
	s.ID = first.ExecID
	go s.receive(in)
	return s, nil
}

// execMessage is a text message.
type execMessage struct {
	Type     string `json:"type"`
	Cols     uint16 `json:"cols,omitempty"`
	Rows     uint16 `json:"rows,omitempty"`
	Name     string `json:"name,omitempty"`
	ExecID   string `json:"exec_id,omitempty"`
	ExitCode int    `json:"exit_code,omitempty"`
	Signal   string `json:"signal,omitempty"`
	Bytes    int    `json:"bytes,omitempty"`
}

// receive passes on output until the command or the connection has ended.
func (s *ExecSocket) receive(in *call) {
	defer close(s.done)
	defer func() { _ = s.conn.CloseNow() }()
	for {
		m, err := s.next(in.stdout, in.stderr)
		switch {
		case err != nil:
			s.err = err
			return
		case m.Type == "exit":
			s.exit = &ExecExit{ExitCode: m.ExitCode, Signal: m.Signal}
			return
		case m.Type == "stdin_read":
			s.acknowledge(m.Bytes)
		}
	}
}

// acknowledge lets Write send as much as the command has read.
func (s *ExecSocket) acknowledge(n int) {
	for s.first -= n; s.first < 0; {
		select {
		case size := <-s.unread:
			s.first += size
		default:
			s.first = 0 // more than was sent
		}
	}
}

// next reads a message. One with output is written, and returned as an empty one.
func (s *ExecSocket) next(stdout, stderr io.Writer) (m execMessage, err error) {
	kind, data, err := s.conn.Read(s.ctx)
	switch {
	case err != nil:
		return m, s.lost(err)
	case kind == websocket.MessageText:
		return m, readDocument(data, &m)
	case len(data) == 0:
		return m, nil
	}
	to := stdout
	if data[0] == channelStderr {
		to = stderr
	}
	if to != nil {
		_, err = to.Write(data[1:])
	}
	return m, err
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
func (s *ExecSocket) Write(p []byte) (n int, err error) {
	for part := range bytesParts(p) {
		if s.unread != nil {
			select {
			case s.unread <- len(part):
			case <-s.done:
				return n, io.ErrClosedPipe
			}
		}
		if err := s.conn.Write(s.ctx, websocket.MessageBinary, append([]byte{channelStdin}, part...)); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// bytesParts cuts input into messages.
func bytesParts(p []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(p) > 0 {
			part := p[:min(len(p), inputPart)]
			if p = p[len(part):]; !yield(part) {
				return
			}
		}
	}
}

// CloseInput tells the command that there is no more input.
func (s *ExecSocket) CloseInput() error { return s.tell(execMessage{Type: "stdin_closed"}) }

// Resize gives the terminal of the command another size.
func (s *ExecSocket) Resize(cols, rows uint16) error {
	return s.tell(execMessage{Type: "resize", Cols: cols, Rows: rows})
}

// Signal sends the command a signal by its name, such as INT.
func (s *ExecSocket) Signal(name string) error {
	return s.tell(execMessage{Type: "signal", Name: name})
}

func (s *ExecSocket) tell(m execMessage) error {
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(m); err != nil {
		return err
	}
	return s.conn.Write(s.ctx, websocket.MessageText, text.Bytes())
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
		return s.conn.Close(websocket.StatusNormalClosure, "")
	}
}
