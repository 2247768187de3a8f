package rest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.opentelemetry.io/otel/trace"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/token"
	"github.com/forkcell/forkcell/receipt"
)

// addRuns adds the routes of runs.
func (s *Server) addRuns() {
	s.addRunCommand()
	s.addRunSocket()
	s.addPlan()
	handle(s, op.ListRuns, func(ctx context.Context, c *call, in *Page) (*api.List[api.RunInfo], error) {
		return s.listRuns(ctx, c, "", *in)
	})
	handle(s, op.ListCellRuns, func(ctx context.Context, c *call, in *listCellRunsInput) (*api.List[api.RunInfo], error) {
		return s.listRuns(ctx, c, in.Cell, in.Page)
	})
	addRun[InRun](s, op.GetRun, op.CancelRun)
	addRun[InCellRun](s, op.GetCellRun, op.CancelCellRun)
}

// addRun adds the routes of one run.
func addRun[I runNamer](s *Server, get, cancel op.Verb) {
	handle(s, get, func(ctx context.Context, c *call, in *I) (*api.RunInfo, error) { return s.getRun(ctx, c, (*in).name()) })
	handle(s, cancel, func(ctx context.Context, c *call, in *I) (*api.RunInfo, error) {
		return s.cancelRun(ctx, c, (*in).name())
	})
}

type listCellRunsInput struct {
	InCell
	Page
}

func (s *Server) listRuns(ctx context.Context, c *call, cell string, page Page) (*api.List[api.RunInfo], error) {
	after, err := page.number()
	if err != nil {
		return nil, err
	}
	runs, next, err := c.engine.Runs(ctx, cell, after, page.Limit)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		c.hideSources(r.Session)
		if err := s.waitUntilFree(ctx, r); err != nil {
			return nil, err
		}
	}
	list := &api.List[api.RunInfo]{Items: runs}
	if next != 0 {
		list.Next = cursor(strconv.FormatInt(next, 10))
	}
	return list, nil
}

// runName names a run. cell is set if the path names one; the run must be of it.
type runName struct{ run, cell string }

// runNamer is the input of a route about one run.
type runNamer interface{ name() runName }

// InRun is the input of a route about one run.
type InRun struct {
	Run string `path:"run" doc:"Id of the run."`
}

func (i InRun) name() runName { return runName{run: i.Run} }

// InCellRun is the input of a route about one run, by the path of its cell.
type InCellRun struct {
	InCell
	InRun
}

func (i InCellRun) name() runName { return runName{run: i.Run, cell: i.Cell} }

// waitUntilFree waits until the cell of a run that has ended is free.
func (s *Server) waitUntilFree(ctx context.Context, r api.RunInfo) error {
	if r.State != "ended" {
		return nil
	}
	return s.jobs.settle(ctx, r.RunID)
}

func (s *Server) getRun(ctx context.Context, c *call, name runName) (*api.RunInfo, error) {
	info, err := c.engine.RunInfo(ctx, name.run)
	if err != nil {
		return nil, err
	}
	if name.cell != "" && name.cell != info.Cell {
		return nil, api.Missing("run", name.run, "")
	}
	c.hideSources(info.Session)
	return info, s.waitUntilFree(ctx, *info)
}

func (s *Server) cancelRun(ctx context.Context, c *call, name runName) (*api.RunInfo, error) {
	info, err := s.getRun(ctx, c, name)
	if err != nil {
		return nil, err
	}
	if info.State == "ended" {
		return info, nil
	}
	if s.jobs.cancel(info.RunID) {
		return info, nil
	}
	// It may have ended meanwhile.
	if info, err = s.getRun(ctx, c, name); err == nil && info.State != "ended" {
		err = &api.Error{Kind: api.Busy, Code: api.CodeBusy, Message: "another process carries out " + info.RunID, Hint: "end it there"}
	}
	return info, err
}

type startRunInput struct {
	InCell
	IfMatch
	Prefer string `header:"Prefer" doc:"respond-async answers when the run has begun."`
	Accept string `header:"Accept" doc:"text/event-stream streams the output and the result."`
	Body   api.RunBody
}

// addRunCommand adds the route that runs a command. Its answer has three forms: the
// result at the end, the id at the beginning, or a stream of events.
func (s *Server) addRunCommand() {
	def := operationOf(op.Run)
	registry := s.api.OpenAPI().Components.Schemas
	def.Responses = map[string]*huma.Response{
		"200": {Description: "The run has ended.", Content: map[string]*huma.MediaType{
			"application/json": {Schema: schemaOf[api.RunAnswer](registry)},
			eventsType:         eventMedia("started", "stdout", "stderr", "event", "result", "problem"),
		}},
		"202": {
			Description: "The run has begun.",
			Headers:     map[string]*huma.Param{"Location": {Schema: &huma.Schema{Type: huma.TypeString}, Description: "Where the run is."}},
			Content:     map[string]*huma.MediaType{"application/json": {Schema: schemaOf[api.RunStarted](registry)}},
		},
	}
	register(s, def, func(ctx context.Context, c *call, in *startRunInput) (*huma.StreamResponse, error) {
		job, err := s.newRun(ctx, c, in)
		if err != nil {
			return nil, err
		}
		return &huma.StreamResponse{Body: func(hctx huma.Context) {
			_, w := humago.Unwrap(hctx)
			switch {
			case strings.Contains(in.Prefer, "respond-async"):
				job.begin(w)
			case strings.Contains(in.Accept, eventsType):
				if !s.streaming(c, w, func() { job.stream(ctx, w) }) {
					job.release()
				}
			default:
				job.finish(ctx, w)
			}
		}}, nil
	})
}

// schemaOf returns the schema of a type, by reference.
func schemaOf[T any](r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[T](), true, "")
}

// runJob is one run that a request asked for.
type runJob struct {
	server  *Server
	call    *call
	engine  Engine
	request api.RunRequest
	stdin   io.Reader
	input   bool              // the command reads the caller's input, in a socket
	release func()            // gives the quota back
	parent  trace.SpanContext // that of the request
}

func (s *Server) newRun(ctx context.Context, c *call, in *startRunInput) (*runJob, error) {
	set, err := s.runSettings(ctx, c, in.Body.RunSettings)
	if err != nil {
		return nil, err
	}
	stdin, err := input(in.Body.Stdin, in.Body.StdinBase64)
	if err != nil {
		return nil, err
	}
	expect, err := expectation(in.Match)
	if err != nil {
		return nil, err
	}
	release, err := s.acquire(ctx, c, token.Amount{Runs: 1, Memory: set.options.Memory, CPUs: set.options.CPUs})
	if err != nil {
		return nil, err
	}
	return &runJob{
		server: s, call: c, stdin: stdin, engine: s.actFor(c, expect, set.env), release: release, parent: trace.SpanContextFromContext(ctx),
		request: api.RunRequest{
			Cell: in.Cell, Args: in.Body.Command, RunOptions: set.options, RunID: c.request.RunID,
			CheckpointBefore: in.Body.CheckpointName != "", CheckpointName: in.Body.CheckpointName,
			RestoreOnFail: in.Body.RestoreOnFail, AcceptOnSuccess: in.Body.AcceptOnSuccess,
		},
	}, nil
}

// input returns the input of a command, or nil.
func input(text string, data []byte) (stdin io.Reader, err error) {
	switch {
	case text != "" && len(data) > 0:
		err = api.Usagef("send one of them", "stdin and stdin_base64 exclude each other")
	case text != "":
		stdin = strings.NewReader(text)
	case len(data) > 0:
		stdin = bytes.NewReader(data)
	}
	return stdin, err
}

// do runs the command. begun is called when the run has its id.
func (j *runJob) do(ctx context.Context, stdout, stderr io.Writer, begun func(id string)) (*api.RunResult, error) {
	return j.run(ctx, engine.Stdio{}, stdout, stderr, begun)
}

// run is do with the other streams of the command.
func (j *runJob) run(ctx context.Context, stdio engine.Stdio, stdout, stderr io.Writer, begun func(id string)) (*api.RunResult, error) {
	defer j.release()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	remove := func() {}
	defer func() { remove() }()
	stdio.In, stdio.Out, stdio.Err = j.stdin, stdout, stderr
	stdio.Begun = func(id string) {
		remove = j.server.jobs.add(id, cancel)
		begun(id)
	}
	return measuredEngine{Engine: j.engine, server: j.server, call: j.call}.Run(trace.ContextWithSpanContext(ctx, j.parent), j.request, stdio)
}

// finish answers with the result when the run has ended.
func (j *runJob) finish(ctx context.Context, w http.ResponseWriter) {
	var out output
	res, err := j.do(ctx, &out.stdout, &out.stderr, func(string) {})
	if p := j.problem(res, err); p != nil {
		writeProblem(w, p)
		return
	}
	writeDocument(w, http.StatusOK, api.RunAnswer{RunResult: *res, Output: out.document()})
}

// problem returns the problem of a run that was not recorded, or of one whose cell could
// not be started because a control or a limit cannot be had. That run has a receipt.
func (j *runJob) problem(res *api.RunResult, err error) *problem {
	if err == nil {
		return nil
	}
	p := j.server.problemOf(j.call, err)
	switch {
	case !res.IsRecorded():
		return p
	case res.Outcome == string(receipt.Errored) && p.Status == http.StatusUnprocessableEntity:
		p.Details = append(p.Details, "run "+res.RunID, "receipt "+res.ReceiptID)
		return p
	}
	return nil
}

// begin answers when the run has begun, which then goes on without the caller.
func (j *runJob) begin(w http.ResponseWriter) {
	begun, failed := make(chan string, 1), make(chan error, 1)
	release := j.server.drain.extend()
	j.server.jobs.all.Go(func() {
		defer release()
		if _, err := j.do(j.server.work, io.Discard, io.Discard, func(id string) { begun <- id }); err != nil {
			failed <- err
		}
	})
	select {
	case id := <-begun:
		w.Header().Set("Location", "/v1/runs/"+id)
		writeDocument(w, http.StatusAccepted, api.RunStarted{RunID: id, State: "running"})
	case err := <-failed:
		writeProblem(w, j.server.problemOf(j.call, err))
	}
}

// stream answers with the output as it comes, and the result at the end. A run that
// is refused before it begins is answered with a problem.
func (j *runJob) stream(ctx context.Context, w http.ResponseWriter) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var events *eventStream
	var run *runEvents
	stop := func() {}
	defer func() { stop() }()
	out := lateWriter{part: func(name string) streamPart { return streamPart{events, name, cancel} }}
	res, err := j.do(ctx, out.writerTo("stdout"), out.writerTo("stderr"), func(id string) {
		events = newEventStream(w)
		stop = events.beat()
		_ = events.send("started", api.RunStarted{RunID: id, State: "running"})
		run = followRun(ctx, j.engine, events, id)
	})
	if run != nil {
		if failed := run.finish(context.WithoutCancel(ctx)); failed != nil {
			_ = events.send("problem", j.server.problemOf(j.call, failed).Problem)
		}
	}
	if events == nil {
		writeProblem(w, j.server.problemOf(j.call, err))
		return
	}
	if p := j.problem(res, err); p != nil {
		_ = events.send("problem", p.Problem)
	}
	if res.IsRecorded() {
		_ = events.send("result", res)
	}
}

// lateWriter makes the writers of a run's streams before the answer has begun. The
// run writes only after that.
type lateWriter struct {
	part func(name string) streamPart
}

func (l lateWriter) writerTo(name string) io.Writer {
	return writerFunc(func(p []byte) (int, error) { return l.part(name).Write(p) })
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
