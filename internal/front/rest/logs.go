package rest

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/forkcell/forkcell/internal/api/op"
)

const rawType = "application/octet-stream"

// LogFilter selects the output of a run.
type LogFilter struct {
	Stream string `query:"stream" enum:"stdout,stderr" default:"stdout" doc:"Which stream."`
	Follow bool   `query:"follow" doc:"Go on until the run has ended."`
}

type runLogsInput struct {
	InRun
	LogFilter
}

type cellRunLogsInput struct {
	InCellRun
	LogFilter
}

// logReader reads the output of runs.
type logReader interface {
	RunLog(ctx context.Context, run string, stderr, follow bool, w io.Writer) error
}

// addLogs adds the routes that show the output of runs.
func (s *Server) addLogs() {
	responses := streamResponse(map[string]string{rawType: "The bytes of the stream."})
	handleExchange(s, op.GetRunLogs, responses, func(ctx context.Context, x *exchange, in *runLogsInput) {
		s.runLogs(ctx, x, in.LogFilter, in.name())
	})
	handleExchange(s, op.GetCellRunLogs, responses, func(ctx context.Context, x *exchange, in *cellRunLogsInput) {
		s.runLogs(ctx, x, in.LogFilter, in.name())
	})
}

func (s *Server) runLogs(ctx context.Context, x *exchange, f LogFilter, run runName) {
	if _, err := s.getRun(ctx, x.call, run); err != nil {
		x.fail(err)
		return
	}
	if f.Follow {
		x.stream(ctx, func(ctx context.Context) {
			x.log(ctx, run.run, f)
			_ = s.jobs.settle(ctx, run.run) // or the caller is gone
		})
		return
	}
	x.log(ctx, run.run, f)
}

// log answers with the bytes of one stream.
func (x *exchange) log(ctx context.Context, run string, f LogFilter) {
	out := newRawStream(x.w, rawType)
	err := x.engine.RunLog(ctx, run, f.Stream == "stderr", f.Follow, out)
	switch {
	case out.fail != nil: // the reader is gone
	case err == nil:
		out.begin()
	case !out.begun:
		x.fail(err)
	default:
		if ctx.Err() == nil {
			x.server.logger.Error("logs", "request", x.id, "error", err)
		}
		panic(http.ErrAbortHandler) // the reader must not take a part for the whole
	}
}

// rawStream writes an answer as it comes.
type rawStream struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	kind  string
	begun bool
	fail  error
}

func newRawStream(w http.ResponseWriter, kind string) *rawStream {
	return &rawStream{w: w, rc: http.NewResponseController(w), kind: kind}
}

// begin sends the header.
func (r *rawStream) begin() {
	if r.begun {
		return
	}
	r.begun = true
	r.w.Header().Set("Content-Type", r.kind)
	r.w.Header().Set("X-Content-Type-Options", "nosniff")
	r.w.Header().Set("Cache-Control", "no-store")
	r.w.WriteHeader(http.StatusOK)
	r.fail = r.rc.Flush()
}

func (r *rawStream) Write(p []byte) (int, error) {
	r.begin()
	if r.fail != nil {
		return 0, r.fail
	}
	// A writer without deadlines is a test's.
	_ = r.rc.SetWriteDeadline(time.Now().Add(bodyTimeout))
	n, err := r.w.Write(p)
	if r.fail = err; err == nil {
		r.fail = r.rc.Flush()
	}
	return n, r.fail
}
