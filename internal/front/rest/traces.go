package rest

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/evidence/event"
)

// Attributes of spans besides those of HTTP. No span has a path, an argument, a
// variable or a message of an error: they can have what is secret.
const (
	attrRequest = "forkcell.request_id"
	attrCell    = "forkcell.cell"
	attrRun     = "forkcell.run_id"
	attrOutcome = "forkcell.outcome"
)

// traces makes the spans of requests and runs.
type traces struct {
	tracer trace.Tracer
}

// newTraces makes spans by p; nil makes none.
func newTraces(p trace.TracerProvider) traces {
	if p == nil {
		p = noop.NewTracerProvider()
	}
	return traces{p.Tracer("github.com/forkcell/forkcell/internal/front/rest")}
}

// begin starts the span of a request, which the returned request has in its context.
// It continues the trace that the field traceparent names.
func (t traces) begin(r *http.Request) *http.Request {
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, _ = t.tracer.Start(ctx, methodOf(r), trace.WithSpanKind(trace.SpanKindServer))
	return r.WithContext(ctx)
}

// end ends the span of a request that was answered.
func (t traces) end(ctx context.Context, c *call, seen event.Call) {
	span := trace.SpanFromContext(ctx)
	defer span.End()
	if !span.IsRecording() {
		return
	}
	span.SetName(seen.Method + " " + seen.Route)
	span.SetAttributes(
		attribute.String("http.request.method", seen.Method), attribute.String("http.route", seen.Route),
		attribute.Int("http.response.status_code", seen.Status), attribute.String(attrRequest, c.id),
	)
	if seen.Cell != "" && c.engine != nil { // the caller may know of it
		span.SetAttributes(attribute.String(attrCell, seen.Cell))
	}
	if seen.Status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}
}

// run makes the span of a run that has ended, with one for each step. The engine has
// measured the steps, which follow each other. res may be nil.
func (t traces) run(ctx context.Context, began time.Time, name string, res *api.RunResult, failed error) {
	ctx, span := t.tracer.Start(ctx, "run", trace.WithTimestamp(began), trace.WithAttributes(attribute.String(attrCell, name)))
	defer span.End()
	if !span.IsRecording() {
		return
	}
	if failed != nil {
		span.SetStatus(codes.Error, codeOf(failed))
	}
	if res == nil {
		return
	}
	span.SetAttributes(attribute.String(attrRun, res.RunID), attribute.String(attrOutcome, res.Outcome))
	at := began
	for _, s := range runSteps(res.Timings) {
		_, step := t.tracer.Start(ctx, s.name, trace.WithTimestamp(at))
		at = at.Add(s.took)
		step.End(trace.WithTimestamp(at))
	}
}

// codeOf returns the code of an error, or nothing.
func codeOf(err error) string {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return string(e.Code)
	}
	return ""
}

// runStep is a part of a run.
type runStep struct {
	name string
	took time.Duration
}

// runSteps returns the parts of a run, in their order.
func runSteps(t api.RunTimings) []runStep {
	us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	return []runStep{
		{"prepare", us(t.PrepareUS)}, {"start", us(t.StartUS)}, {"command", us(t.CommandUS)}, {"seal", us(t.SealUS)}, {"decide", us(t.DecideUS)},
	}
}

// measuredEngine is an engine whose runs are measured and traced.
type measuredEngine struct {
	Engine
	server *Server
	call   *call
	expect *int64 // the revision of the cell of a race
}

// BeginRace makes the cells of attempts. Branches are taken out of the quotas of live
// cells first, and count as such when they are made.
func (m measuredEngine) BeginRace(ctx context.Context, o engine.RaceOptions) (*engine.Race, error) {
	end, err := m.server.roomToCapture(ctx, m.call)
	if err != nil {
		return nil, err
	}
	defer end()
	if o.Warm != nil {
		req := *o.Warm
		req.Cell, req.N = o.Cell, o.Attempts
		release, err := m.server.acquireBranch(ctx, m.call, req, nil)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	o.Expect = m.expect
	return m.Engine.BeginRace(ctx, o)
}

// Run runs a command.
func (m measuredEngine) Run(ctx context.Context, r api.RunRequest, io engine.Stdio) (*api.RunResult, error) {
	began := time.Now()
	res, err := m.Engine.Run(ctx, r, io)
	m.server.metrics.run(res)
	m.server.traces.run(ctx, began, r.Cell, res, err)
	return res, err
}
