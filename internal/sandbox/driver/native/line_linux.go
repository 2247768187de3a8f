package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/forkcell/forkcell/internal/sandbox/driver/fault"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/mountfd"
	"github.com/forkcell/forkcell/internal/sandbox/driver/native/protocol"
)

// line is the connection to a warm process or to a copy of one: messages of JSON,
// each after its length. Nothing that comes is trusted.
type line struct{ conn *protocol.Conn }

// warmMessage is a message of a warm process or a copy.
type warmMessage struct {
	Type string `json:"type"`
	// Step and Problem are what failed and why.
	Step    string `json:"step,omitempty"`
	Problem string `json:"problem,omitempty"`
	// Closed are the sockets of the warm process that a copy has closed.
	Closed closedSockets `json:"closed,omitzero"`

	raw    []byte
	fds    []int
	sender int // the process that said it
}

// closedSockets are counted by a copy: it is the only one who knows.
type closedSockets struct {
	Listeners   int `json:"listeners"`
	Connections int `json:"connections"`
}

func (c closedSockets) String() string {
	if c == (closedSockets{}) {
		return "the warm process had none"
	}
	return fmt.Sprintf("closed: %d listening, %d connected", c.Listeners, c.Connections)
}

// newLine takes over a descriptor.
func newLine(fd int) (*line, error) {
	c, err := protocol.NewParentConn(fd)
	if err != nil {
		return nil, err
	}
	if err := c.KnowSender(); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("warm process: %w", err)
	}
	return &line{c}, nil
}

func (l *line) say(ctx context.Context, v any, fds ...int) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return l.write(ctx, data, fds...)
}

// write sends a message. Nothing can be sent after an error.
func (l *line) write(ctx context.Context, data []byte, fds ...int) error {
	stop := context.AfterFunc(ctx, func() { _ = l.conn.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	text := protocol.Text(data)
	err := l.conn.Write(&text, fds...)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// hear returns the next message. Its descriptors are the caller's. Nothing can be
// heard after an error.
func (l *line) hear(ctx context.Context) (*warmMessage, error) {
	stop := context.AfterFunc(ctx, func() { _ = l.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var text protocol.Text
	fds, err := l.conn.Read(&text)
	if ctx.Err() != nil {
		mountfd.CloseAll(fds)
		return nil, ctx.Err()
	}
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the process has ended: %w", err)
	}
	if err != nil {
		return nil, err
	}
	s := &warmMessage{raw: text, fds: fds, sender: l.conn.Sender()}
	if err := json.Unmarshal(text, s); err != nil {
		mountfd.CloseAll(fds)
		return nil, fmt.Errorf("malformed message: %w", err)
	}
	return s, nil
}

// refusal is the answer of a process that could not do what it was asked to. The line
// can be used on.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }

// await returns the next message, which must be of this type. An error that is not a
// refusal means that the line cannot be used any more.
func (l *line) await(ctx context.Context, want string) (*warmMessage, error) {
	s, err := l.hear(ctx)
	switch {
	case err != nil:
		return nil, err
	case s.Type == "failed" && s.Step == "workdir":
		err = &refusal{fault.Wrap("workdir", fault.CauseWorkdir, fmt.Errorf("%.300q", s.Problem))}
	case s.Type == "failed":
		err = &refusal{fmt.Errorf("the process says: %.300q", s.Problem)}
	case s.Type != want:
		err = fmt.Errorf("the process said %.30q instead of %q", s.Type, want)
	default:
		return s, nil
	}
	mountfd.CloseAll(s.fds)
	return nil, err
}

// close ends the connection.
func (l *line) close() { _ = l.conn.Close() }
