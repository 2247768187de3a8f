package rest

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/execsocket"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine"
)

type execInput struct {
	InCell
	Accept string `header:"Accept" doc:"text/event-stream streams the output and the result."`
	Body   api.ExecBody
}

// addExec adds the route that executes one command in a live cell. Its answer is the
// result at the end, or a stream of events.
func (s *Server) addExec() {
	responses := map[string]*huma.Response{
		"200": {Description: "The command has ended.", Content: map[string]*huma.MediaType{
			"application/json": {Schema: schemaOf[api.ExecAnswer](s.api.OpenAPI().Components.Schemas)},
			eventsType:         eventMedia("started", "stdout", "stderr", "result", "problem"),
		}},
	}
	handleExchange(s, op.Exec, responses, func(ctx context.Context, x *exchange, in *execInput) {
		job, err := s.newExec(x.call, in)
		switch {
		case err != nil:
			x.fail(err)
		case strings.Contains(in.Accept, eventsType):
			s.streaming(x.call, x.w, func() { job.stream(ctx, x.w) })
		default:
			job.finish(ctx, x.w)
		}
	})
}

type execSocketInput struct {
	InCell
	Command  []string `query:"command,explode" required:"true" minItems:"1" doc:"The command and its arguments: one parameter for each."`
	Env      []string `query:"env,explode" doc:"Variables of the command, as NAME=VALUE."`
	Workdir  string   `query:"workdir" doc:"Where the command starts."`
	Timeout  string   `query:"timeout" doc:"Time limit, such as 30s."`
	Attached bool     `query:"attached" doc:"End the command when the socket is closed, instead of leaving it."`
	Terminal
}

// Terminal is the terminal of a command.
type Terminal struct {
	TTY  bool `query:"tty" doc:"Give the command a terminal."`
	Cols int  `query:"cols" minimum:"0" maximum:"65535" doc:"Columns of the terminal."`
	Rows int  `query:"rows" minimum:"0" maximum:"65535" doc:"Rows of the terminal."`
}

func (t Terminal) size() api.WindowSize {
	return api.WindowSize{Rows: uint16(t.Rows), Cols: uint16(t.Cols)} // within the range, by the schema
}

type attachInput struct {
	InCell
	Exec string `path:"exec" doc:"Id of the command."`
	Cols int    `query:"cols" minimum:"0" maximum:"65535" doc:"Columns of the terminal; without it, they stay."`
	Rows int    `query:"rows" minimum:"0" maximum:"65535" doc:"Rows of the terminal; without it, they stay."`

	Keyboard string `query:"keyboard" enum:"share,take" doc:"Of the clients that share the keyboard the first one types, and one that takes it becomes the first; without it, the client always types."`
}

// addExecSockets adds the routes of WebSockets to commands, and to ports.
func (s *Server) addExecSockets() {
	s.addForward()
	responses := func() map[string]*huma.Response {
		return map[string]*huma.Response{"101": {Description: "A WebSocket with the subprotocol " + execsocket.Protocol + "."}}
	}
	handleExchange(s, op.ExecSocket, responses(), s.execSocket)
	handleExchange(s, op.Attach, responses(), func(ctx context.Context, x *exchange, in *attachInput) {
		req := api.ExecRequest{Cell: in.Cell, Size: Terminal{Cols: in.Cols, Rows: in.Rows}.size(), RawInput: true, Keyboard: api.Keyboard(in.Keyboard)}
		x.stream(ctx, func(ctx context.Context) {
			serveExecSocket(ctx, x, false, func(ctx context.Context, io engine.Stdio) (*api.ExecResult, error) {
				return x.engine.Attach(ctx, req, in.Exec, io)
			})
		})
	})
}

func (s *Server) execSocket(ctx context.Context, x *exchange, in *execSocketInput) {
	req := api.ExecRequest{
		Cell: in.Cell, Args: in.Command, Env: in.Env, Workdir: api.Text(in.Workdir), TTY: in.TTY, Size: in.size(), Detachable: !in.Attached, RawInput: true,
	}
	err := checkArgs(append(in.Command, in.Env...))
	if err == nil {
		req.Timeout, err = duration("timeout", in.Timeout)
	}
	if err != nil {
		x.fail(err)
		return
	}
	x.stream(ctx, func(ctx context.Context) {
		serveExecSocket(ctx, x, in.Attached, func(ctx context.Context, io engine.Stdio) (*api.ExecResult, error) {
			return x.engine.Exec(ctx, req, io)
		})
	})
}

// execJob is one command in a live cell that a request asked for.
type execJob struct {
	server  *Server
	call    *call
	request api.ExecRequest
	stdin   io.Reader
}

func (s *Server) newExec(c *call, in *execInput) (*execJob, error) {
	b := in.Body
	stdin, err := input(b.Stdin, b.StdinBase64)
	if err != nil {
		return nil, err
	}
	req := api.ExecRequest{Cell: in.Cell, Args: b.Command, Workdir: api.Text(b.Workdir), TTY: b.TTY}
	if req.Env, err = environment(b.Env); err != nil {
		return nil, err
	}
	if req.Timeout, err = duration("timeout", b.Timeout); err != nil {
		return nil, err
	}
	return &execJob{server: s, call: c, request: req, stdin: stdin}, checkArgs(b.Command)
}

// checkArgs refuses arguments that no program can get.
func checkArgs(args []string) error {
	if slices.ContainsFunc(args, func(a string) bool { return strings.ContainsRune(a, 0) }) {
		return api.Usagef("", "command: an argument has a zero byte")
	}
	return nil
}

// do executes the command. A caller that goes away ends it.
func (j *execJob) do(ctx context.Context, stdout, stderr io.Writer, started func(id string)) (*api.ExecEnd, error) {
	begin := time.Now()
	res, err := j.call.engine.Exec(ctx, j.request, engine.Stdio{In: j.stdin, Out: stdout, Err: stderr, Started: started})
	if err != nil {
		return nil, err
	}
	return &api.ExecEnd{
		ExecID: res.ExecID, ExitCode: res.ExitCode, Signal: res.Signal, TimedOut: res.TimedOut, DurationUS: time.Since(begin).Microseconds(),
	}, nil
}

// finish answers with the result when the command has ended.
func (j *execJob) finish(ctx context.Context, w http.ResponseWriter) {
	var out output
	end, err := j.do(ctx, &out.stdout, &out.stderr, nil)
	if err != nil {
		writeProblem(w, j.server.problemOf(j.call, err))
		return
	}
	writeDocument(w, http.StatusOK, api.ExecAnswer{ExecEnd: *end, Output: out.document()})
}

// stream answers with the output as it comes, and the result at the end. A command
// that is refused before it begins is answered with a problem.
func (j *execJob) stream(ctx context.Context, w http.ResponseWriter) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var events *eventStream
	stop := func() {}
	defer func() { stop() }()
	out := lateWriter{part: func(name string) streamPart { return streamPart{events, name, cancel} }}
	end, err := j.do(ctx, out.writerTo("stdout"), out.writerTo("stderr"), func(id string) {
		events = newEventStream(w)
		stop = events.beat()
		_ = events.send("started", api.ExecStarted{ExecID: id})
	})
	switch {
	case events == nil:
		writeProblem(w, j.server.problemOf(j.call, err))
	case err != nil:
		_ = events.send("problem", j.server.problemOf(j.call, err).Problem)
	default:
		_ = events.send("result", end)
	}
}
