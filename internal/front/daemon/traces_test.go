package daemon_test

import (
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/testkit/otlptest"
)

// newTraced starts a daemon in a process of its own, with variables.
func newTraced(t *testing.T, env ...string) *daemonProcess {
	t.Helper()
	d := &daemonProcess{testDaemon: newDaemon(t), env: env}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	d.launch()
	return d
}

// named returns the spans with a name.
func named(spans []otlptest.Span, name string) (list []otlptest.Span) {
	for _, s := range spans {
		if s.Name == name {
			list = append(list, s)
		}
	}
	return list
}

// below returns the spans that a span is the parent of, in the order of their time.
func below(spans []otlptest.Span, parent otlptest.Span) (list []otlptest.Span) {
	for _, s := range spans {
		if string(s.ParentSpanId) == string(parent.SpanId) && string(s.TraceId) == string(parent.TraceId) {
			list = append(list, s)
		}
	}
	slices.SortStableFunc(list, func(a, b otlptest.Span) int { return int(a.StartTimeUnixNano) - int(b.StartTimeUnixNano) })
	return list
}

func TestTraces(t *testing.T) {
	t.Parallel()
	c := otlptest.Start(t)
	d := newTraced(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, "OTEL_TRACES_SAMPLER=parentbased_always_on")
	const trace, caller = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	d.cell("demo")
	var plain api.RunAnswer
	id := d.want(200, &plain, "POST", "/v1/cells/demo/runs",
		api.RunBody{Command: []string{"sh", "-c", "exit 3", "hunter2"}, RunSettings: api.RunSettings{Env: map[string]string{"SECRET": "hunter3"}}},
		"Traceparent", "00-"+trace+"-"+caller+"-01").Get("X-Request-Id")
	var async api.RunStarted
	d.want(202, &async, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"true"}}, "Prefer", "respond-async")
	d.problem(404, api.CodeNotFound, "GET", "/v1/cells/hunter4/files?path=hunter5", nil)
	d.idle("demo")
	d.want(200, nil, "POST", "/v1/race", api.RaceBody{Cell: "demo", Command: []string{"true"}, N: 2})
	d.want(200, nil, "GET", "/v1/cells/demo", nil, "Traceparent", "00-"+strings.ReplaceAll(trace, "4", "5")+"-"+caller+"-00")
	d.terminate()

	spans := c.Spans()
	if about := c.Service(); about["service.name"] != "forkcell" || about["service.version"] == "" {
		t.Error(about)
	}
	runs := named(spans, "POST /v1/cells/{cell}/runs")
	at := slices.IndexFunc(runs, func(s otlptest.Span) bool { return hex.EncodeToString(s.TraceId) == trace })
	if len(runs) != 2 || at < 0 {
		t.Fatalf("%v", spans)
	}
	continued, own := runs[at], runs[1-at]
	if hex.EncodeToString(continued.ParentSpanId) != caller || len(own.ParentSpanId) != 0 {
		t.Errorf("parents: %x %x", continued.ParentSpanId, own.ParentSpanId)
	}
	for name, want := range map[string]string{
		"http.request.method": "POST", "http.route": "/v1/cells/{cell}/runs", "http.response.status_code": "200",
		"forkcell.request_id": id, "forkcell.cell": "demo",
	} {
		if continued.Attributes[name] != want {
			t.Errorf("%s is %q", name, continued.Attributes[name])
		}
	}
	checkRun(t, spans, continued, plain.RunID, "failed")
	checkRun(t, spans, own, async.RunID, "succeeded")
	if race := named(spans, "POST /v1/race"); len(race) != 1 || len(below(spans, race[0])) != 2 {
		t.Errorf("%v", race)
	}
	if missing := named(spans, "GET /v1/cells/{cell}/files"); len(missing) != 1 || missing[0].Attributes["http.response.status_code"] != "404" {
		t.Errorf("%v", missing)
	}
	if seen := named(spans, "GET /v1/cells/{cell}"); slices.ContainsFunc(seen, func(s otlptest.Span) bool { return len(s.ParentSpanId) != 0 }) {
		t.Error("a trace that its caller does not record was recorded")
	}
	for _, s := range spans {
		if text := s.String(); strings.Contains(text, "hunter2") || strings.Contains(text, "hunter3") || strings.Contains(text, "hunter5") || strings.Contains(text, d.source) {
			t.Errorf("a span has what a caller sent: %s", text)
		}
	}
}

// checkRun checks the span of a run and those of its steps.
func checkRun(t *testing.T, spans []otlptest.Span, request otlptest.Span, id, outcome string) {
	t.Helper()
	runs := below(spans, request)
	if len(runs) != 1 || runs[0].Name != "run" {
		t.Fatalf("%v", runs)
	}
	run := runs[0]
	if a := run.Attributes; len(a) != 3 || a["forkcell.cell"] != "demo" || a["forkcell.run_id"] != id || a["forkcell.outcome"] != outcome {
		t.Errorf("%v", a)
	}
	var names []string
	at := run.StartTimeUnixNano
	for _, s := range below(spans, run) {
		names = append(names, s.Name)
		if s.StartTimeUnixNano != at || s.EndTimeUnixNano < at || s.EndTimeUnixNano > run.EndTimeUnixNano || len(s.Attributes) != 0 {
			t.Errorf("the step %s does not follow the one before: %v", s.Name, s)
		}
		at = s.EndTimeUnixNano
	}
	if !slices.Equal(names, []string{"prepare", "start", "command", "seal", "decide"}) {
		t.Error(names)
	}
}

// TestHangingCollector never answers. Requests are answered all the same, more of them
// than the queue of spans has room for, and the daemon ends.
func TestHangingCollector(t *testing.T) {
	t.Parallel()
	c, asked := otlptest.New(t), make(chan struct{}, 1)
	c.Answer = func(_ http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		<-r.Context().Done()
	}
	c.Server.Start()
	d := newTraced(t, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+c.URL+"/own", "OTEL_EXPORTER_OTLP_TIMEOUT=2000000000",
		"OTEL_BSP_EXPORT_TIMEOUT=2000000000", "OTEL_BSP_SCHEDULE_DELAY=1", "OTEL_BSP_MAX_QUEUE_SIZE=4", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=1")
	d.cell("demo")
	<-asked
	for range 50 {
		d.want(200, nil, "GET", "/v1/cells/demo", nil)
	}
	d.want(200, nil, "POST", "/v1/cells/demo/runs", api.RunBody{Command: []string{"true"}})
	d.terminate()
	if r := c.Requests(); len(r) == 0 || r[0].URL.Path != "/own" {
		t.Errorf("%d requests", len(r))
	}
}

// TestNoTraces switches traces off, so that the collector is not connected to.
func TestNoTraces(t *testing.T) {
	t.Parallel()
	for _, off := range []string{"OTEL_SDK_DISABLED=true", "OTEL_TRACES_EXPORTER=none", "OTEL_EXPORTER_OTLP_ENDPOINT="} {
		t.Run(off, func(t *testing.T) {
			t.Parallel()
			c := otlptest.Start(t)
			d := newTraced(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, off)
			d.cell("demo")
			d.terminate()
			if n := c.Opened(); n != 0 {
				t.Errorf("%d connections", n)
			}
		})
	}
}
