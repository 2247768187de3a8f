package rest

import (
	"context"
	"io"

	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/execsocket"
	"github.com/forkcell/forkcell/internal/api/execwire"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine"
)

// addRunSocket adds the route of a WebSocket in which a command is run with its
// streams. The frames are those of commands in live cells.
func (s *Server) addRunSocket() {
	handleExchange(s, op.RunSocket, map[string]*huma.Response{"101": {
		Description: "A WebSocket with the subprotocol " + execsocket.Protocol + ". The first message of the caller is the run, as for POST .../runs, with tty, cols, rows and term; " +
			"the last one of the daemon has the type result or problem.",
	}}, func(ctx context.Context, x *exchange, in *InCell) {
		release, err := s.streams.admit(x.caller.name)
		if err != nil {
			x.fail(err)
			return
		}
		defer release()
		s.jobs.all.Add(1) // a daemon that stops waits for the run
		defer s.jobs.all.Done()
		s.serveRunSocket(ctx, x, in.Cell)
	})
}

// serveRunSocket runs a command for the caller of a socket. A caller that goes away
// ends the run.
func (s *Server) serveRunSocket(ctx context.Context, x *exchange, name string) {
	if err := checkUpgrade(x.r); err != nil {
		x.fail(err)
		return
	}
	ws, err := websocket.Accept(x.w, x.r, &websocket.AcceptOptions{Subprotocols: execsocket.Protocols()})
	if err != nil {
		return // the library has answered
	}
	defer func() { _ = ws.CloseNow() }()
	ws.SetReadLimit(maxBody)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sock := newExecSocket(ctx, x)
	job, err := s.awaitRun(ctx, x, ws, name)
	sock.use(ctx, ws)
	if err != nil {
		sock.tell(execsocket.Message{Type: "problem", Problem: &s.problemOf(x.call, err).Problem})
		_ = ws.Close(websocket.StatusNormalClosure, "")
		return
	}
	go func() {
		defer close(sock.heard)
		sock.conn.Refuse(execwire.Listen(sock.conn, sock)) // until the socket is closed
		sock.input.Close(io.EOF)
		cancel()
	}()
	job.inSocket(ctx, sock)
	sock.input.Discard()
	_ = ws.Close(websocket.StatusNormalClosure, "")
	cancel()
	<-sock.heard
}

// awaitRun reads the run that the caller asks for.
func (s *Server) awaitRun(ctx context.Context, x *exchange, ws *websocket.Conn, name string) (*runJob, error) {
	wait, cancel := context.WithTimeout(ctx, bodyTimeout)
	defer cancel()
	kind, text, err := ws.Read(wait)
	if err != nil || kind != websocket.MessageText {
		return nil, api.Usagef("send the run first, as text", "the socket has no run")
	}
	body, err := readRun(text)
	if err != nil {
		return nil, err
	}
	if err := x.allowFields(ctx, body); err != nil {
		return nil, err
	}
	if err := checkArgs(body.Command); err != nil {
		return nil, err
	}
	job, err := s.newRun(ctx, x.call, &startRunInput{InCell: InCell{Cell: name}, Body: body.RunBody})
	if err != nil {
		return nil, err
	}
	job.request.TTY, job.request.Term = body.TTY, body.Term
	job.request.Size = api.WindowSize{Rows: body.Rows, Cols: body.Cols}
	job.input = body.Input
	return job, nil
}

// readRun reads the message that is a run.
func readRun(text []byte) (body api.RunSocketBody, err error) {
	if err := runMessages().read(text, &body); err != nil {
		return body, err
	}
	if body.Stdin != "" || body.StdinBase64 != nil {
		return body, api.Usagef("send the input in frames", "malformed run")
	}
	return body, checkTerm(body.Term)
}

// inSocket runs the command with its streams in a socket, and reports the result.
func (j *runJob) inSocket(ctx context.Context, sock *execSocket) {
	stdio := engine.Stdio{Resize: sock.resize, Signals: sock.signal}
	if j.input {
		j.stdin = sock.input
	}
	res, err := j.run(ctx, stdio, sock.stream(execwire.Stdout), sock.stream(execwire.Stderr), func(id string) {
		sock.tell(execsocket.Message{Type: "started", RunID: id})
	})
	last := execsocket.Message{Type: "result", Result: res}
	if err != nil {
		// A run that has a result can still have failed: the caller gets both.
		last.Type, last.Problem = "problem", &j.server.problemOf(j.call, err).Problem
	}
	sock.tell(last)
}
