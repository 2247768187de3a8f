package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/execwire"
)

// handle serves the one request of a connection.
func (s *server) handle(ctx context.Context, conn *net.UnixConn) {
	// A client that sends nothing, or an incomplete request, must not keep its
	// place.
	s.deadline(conn.SetDeadline)
	f := newFrameReader(conn)
	req, err := s.greet(conn, f)
	if err == nil {
		switch {
		case req.Exec != nil:
			err = s.exec(ctx, conn, f, req.Exec)
		case req.Attach != nil:
			err = s.attach(conn, f, req.Attach)
		default:
			err = s.answer(ctx, conn, f, req)
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = &api.Error{Kind: api.Failed, Code: api.CodeTimeout, Message: "live protocol: no request came in time"}
	}
	if err != nil && canReply(err) {
		s.deadline(conn.SetWriteDeadline)
		s.releasePlace(conn)
		_, _ = conn.Write(message(nil, execwire.Error, toWire(err)))
	}
}

// canReply reports whether the other side may still receive an error.
func canReply(err error) bool {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) {
		return false
	}
	_, broken := errors.AsType[*net.OpError](err)
	return !broken
}

// deadline sets the usual time limit, unless the server is ending and has set a
// final one.
func (s *server) deadline(set func(time.Time) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopping {
		_ = set(time.Now().Add(s.opt.RequestTimeout))
	}
}

func (s *server) noDeadline(conn *net.UnixConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopping {
		_ = conn.SetDeadline(time.Time{})
	}
}

// greet negotiates a version and reads the request.
func (s *server) greet(conn *net.UnixConn, f *frameReader) (*request, error) {
	payload, err := expect(f, kindHello)
	if err != nil {
		return nil, err
	}
	var h hello
	if err := json.Unmarshal(payload, &h); err != nil {
		return nil, protocolError("a hello cannot be understood: %v", err)
	}
	version, err := choose(h, s.opt.Version)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(message(nil, kindHello, hello{Min: version, Max: version, Version: s.opt.Version})); err != nil {
		return nil, err
	}
	if payload, err = expect(f, kindRequest); err != nil {
		return nil, err
	}
	req := &request{}
	if err := decode(payload, req); err != nil {
		return nil, err
	}
	return req, req.check()
}

// expect reads a frame that must be of one kind.
func expect(f *frameReader, want execwire.Kind) ([]byte, error) {
	got, payload, err := f.next()
	if err != nil {
		return nil, err
	}
	if got != want {
		return nil, protocolError("a frame of type %d where one of type %d is due", got, want)
	}
	return payload, nil
}

// exec starts a command and connects its first client, which is attached before
// the command prints anything.
func (s *server) exec(ctx context.Context, conn *net.UnixConn, f *frameReader, wire *command) error {
	c, err := wire.command()
	if err != nil {
		return err
	}
	if err := s.reserve(); err != nil {
		return err
	}
	ses := newSession(c, s.opt)
	keyboard := api.Keyboard("")
	if c.Main {
		keyboard = api.KeyboardShare
	}
	a, err := ses.attach(func() { _ = conn.Close() }, keyboard, nil)
	if err != nil {
		s.unpromise()
		return err
	}
	a.size, ses.sized = c.Size, a // the command is not shared yet
	p, err := s.host.Exec(ctx, c, ses.streams(c))
	if err != nil {
		ses.end(Exit{}) // releases readers and writers of its streams
		s.unpromise()
		return err
	}
	if err := s.register(ses, p); err != nil {
		ses.leave(a)
		return err
	}
	s.converse(conn, f, ses, a)
	return nil
}

func (s *server) attach(conn *net.UnixConn, f *frameReader, req *attachRequest) error {
	ses, err := s.find(req.Session)
	if err != nil {
		return err
	}
	typed := func(bytes int) {
		if s.opt.Typed != nil {
			s.opt.Typed(ses.info.ID, bytes)
		}
	}
	a, err := ses.attach(func() { _ = conn.Close() }, req.Keyboard, typed)
	if err != nil {
		return err
	}
	if ses.info.TTY && req.Size != (api.WindowSize{}) {
		ses.resize(a, req.Size)
	}
	if s.opt.Attached != nil && req.Keyboard != api.KeyboardSend {
		s.opt.Attached(ses.info.ID)
	}
	s.converse(conn, f, ses, a)
	return nil
}

// converse connects a client and a session until one of them ends. This
// goroutine reads, another one writes, and neither waits for the other.
func (s *server) converse(conn *net.UnixConn, f *frameReader, ses *exec, a *attachment) {
	s.noDeadline(conn)
	written := make(chan struct{})
	go func() {
		defer close(written)
		first := message(nil, execwire.Started, startAnswer{Session: newSessionMessage(ses.describe()), Window: window})
		// A client that has received the end no longer counts as attached.
		ses.pump(a, conn, first, func() {
			ses.leave(a)
			s.releasePlace(conn)
		})
		// Nothing more is sent, so stop reading too.
		_ = conn.CloseRead()
	}()
	err := execwire.Listen(&frameConn{UnixConn: conn, in: f}, visitor{ses, a})
	if _, told := errors.AsType[*api.Error](err); told {
		s.deadline(conn.SetWriteDeadline)
		ses.fail(a, err)
		<-written
	} else {
		select {
		case <-written: // the pump has sent everything
		default:
			// The client has gone, and a write to it may be blocked.
			ses.leave(a)
			_ = conn.Close()
			<-written
		}
	}
	ses.leave(a)
}

// visitor is a client of a session.
type visitor struct {
	s *exec
	a *attachment
}

// Input implements execwire.Command.
func (v visitor) Input(p []byte) error { return v.s.feed(v.a, p) }

// HasRead implements execwire.Sender.
func (v visitor) HasRead(n int) { v.s.addCredit(v.a, n) }

// EndInput implements execwire.Command.
func (v visitor) EndInput() { v.s.closeInput(v.a) }

// EndOutput implements execwire.Command.
func (v visitor) EndOutput(stderr bool) {
	stream := execwire.Stdout
	if stderr {
		stream = execwire.Stderr
	}
	v.s.refuse(v.a, stream)
}

// Resize implements execwire.Command.
func (v visitor) Resize(size api.WindowSize) { v.s.resize(v.a, size) }

// Signal implements execwire.Command.
func (v visitor) Signal(name string) error {
	_ = v.s.proc.Signal(signalNumber(name)) // the command may have just ended
	return nil
}

// answer serves the requests that have one answer.
func (s *server) answer(ctx context.Context, conn *net.UnixConn, f *frameReader, req *request) error {
	s.noDeadline(conn)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The client sends nothing more; if the read ends, it has disconnected.
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		_, _, _ = f.next()
		cancel()
	}()
	result, err := s.result(ctx, req)
	var reply []byte
	if err == nil {
		reply, err = appendMessage(nil, execwire.Result, result)
	}
	if err != nil {
		reply = message(nil, execwire.Error, toWire(err))
	}
	// Send it even if the server is ending: it may answer the request to stop.
	_ = conn.SetWriteDeadline(time.Now().Add(s.opt.RequestTimeout))
	s.releasePlace(conn)
	_, gone := conn.Write(reply)
	_ = conn.CloseRead() // ends the goroutine above
	<-watched
	if gone != nil && err == nil && req.Call != nil && s.opt.Undelivered != nil {
		s.opt.Undelivered(req.Call.Method, req.Call.Request)
	}
	return nil
}

func (s *server) result(ctx context.Context, req *request) (any, error) {
	switch {
	case req.Sessions:
		out := sessionsResult{Sessions: []sessionMessage{}}
		for _, ses := range s.list() {
			out.Sessions = append(out.Sessions, newSessionMessage(ses))
		}
		return out, nil
	case req.Processes:
		list, err := s.host.Processes(ctx)
		if err != nil {
			return nil, err
		}
		out := processesResult{Processes: make([]processMessage, len(list))}
		for i, p := range list {
			out.Processes[i] = newProcessMessage(p)
		}
		return out, nil
	default:
		result, err := s.host.Call(ctx, req.Call.Method, req.Call.Request)
		if err != nil {
			return nil, err
		}
		if len(result) > maxMessage-maxSmall {
			return nil, &api.Error{Kind: api.Failed, Code: api.CodeTooLarge, Message: fmt.Sprintf("an answer of %d bytes is too large", len(result))}
		}
		if len(result) > 0 && !json.Valid(result) {
			return nil, fmt.Errorf("call %s: the answer is not JSON", req.Call.Method)
		}
		return callResult{Result: result}, nil
	}
}
