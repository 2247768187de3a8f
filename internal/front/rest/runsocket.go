package rest

import (
	"context"
	"encoding/json"
	"io"

	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine"
)

// addRunSocket adds the route of a WebSocket in which a command is run with its
// streams. The frames are those of commands in live cells.
func (s *Server) addRunSocket() {
	handleExchange(s, op.RunSocket, map[string]*huma.Response{"101": {
		Description: "A WebSocket with the subprotocol " + execProtocol + ". The first message of the caller is the run, as for POST .../runs, with tty, cols, rows and term; " +
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

// runMessage is a text message of the daemon about a run.
type runMessage struct {
	Type    string         `json:"type"` // started, result or problem
	RunID   string         `json:"run_id,omitempty"`
	Result  *api.RunResult `json:"result,omitempty"`
	Problem *api.Problem   `json:"problem,omitempty"`
}

// serveRunSocket runs a command for the caller of a socket. A caller that goes away
// ends the run.
func (s *Server) serveRunSocket(ctx context.Context, x *exchange, name string) {
	if err := checkUpgrade(x.r); err != nil {
		x.fail(err)
		return
	}
	conn, err := websocket.Accept(x.w, x.r, &websocket.AcceptOptions{Subprotocols: execProtocols()})
	if err != nil {
		return // the library has answered
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(maxBody)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sock := newExecSocket(ctx, x)
	sock.conn = conn
	job, err := s.awaitRun(ctx, x, conn, name)
	if err != nil {
		sock.report(ctx, runMessage{Type: "problem", Problem: &s.problemOf(x.call, err).Problem})
		_ = conn.Close(websocket.StatusNormalClosure, "")
		return
	}
	conn.SetReadLimit(maxFrame)
	go func() {
		defer close(sock.heard)
		sock.listen(context.WithoutCancel(ctx)) // until the socket is closed
		sock.input.close(io.EOF)
		cancel()
	}()
	job.inSocket(ctx, sock)
	sock.input.discard()
	_ = conn.Close(websocket.StatusNormalClosure, "")
	cancel()
	<-sock.heard
}

// awaitRun reads the run that the caller asks for.
func (s *Server) awaitRun(ctx context.Context, x *exchange, conn *websocket.Conn, name string) (*runJob, error) {
	wait, cancel := context.WithTimeout(ctx, bodyTimeout)
	defer cancel()
	kind, text, err := conn.Read(wait)
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
	res, err := j.run(ctx, stdio, sock.channel(ctx, channelStdout), sock.channel(ctx, channelStderr), func(id string) {
		sock.report(ctx, runMessage{Type: "started", RunID: id})
	})
	last := runMessage{Type: "result", Result: res}
	if err != nil {
		// A run that has a result can still have failed: the caller gets both.
		last.Type, last.Problem = "problem", &j.server.problemOf(j.call, err).Problem
	}
	sock.report(ctx, last)
}

func (s *execSocket) report(ctx context.Context, m runMessage) {
	text, err := json.Marshal(m)
	if err == nil {
		_ = s.write(ctx, websocket.MessageText, text)
	}
}
