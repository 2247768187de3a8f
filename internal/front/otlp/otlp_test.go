package otlp_test

import (
	"bytes"
	"encoding/pem"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/forkcell/forkcell/internal/front/otlp"
	"github.com/forkcell/forkcell/internal/testkit/otlptest"
)

// environment returns a reader of variables.
func environment(list ...string) func(string) string {
	return func(name string) string {
		for _, v := range list {
			if n, value, _ := strings.Cut(v, "="); n == name {
				return value
			}
		}
		return ""
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	const all, own = "OTEL_EXPORTER_OTLP_ENDPOINT=http://a:1/x", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://b:2"
	for _, tc := range []struct {
		name     string
		env      []string
		endpoint string // "" for none
		fails    string
	}{
		{"nothing", nil, "", ""},
		{"no endpoint", []string{"OTEL_EXPORTER_OTLP_HEADERS=a=b", "OTEL_TRACES_EXPORTER=otlp"}, "", ""},
		{"all signals", []string{all}, "http://a:1/x/v1/traces", ""},
		{"traces", []string{own, all}, "https://b:2", ""},
		{"disabled", []string{all, "OTEL_SDK_DISABLED=true"}, "", ""},
		{"none", []string{all, "OTEL_TRACES_EXPORTER=none"}, "", ""},
		{"another exporter", []string{all, "OTEL_TRACES_EXPORTER=zipkin"}, "", "OTEL_TRACES_EXPORTER"},
		{"another protocol", []string{all, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, "", "OTEL_EXPORTER_OTLP_PROTOCOL"},
		{"the protocol", []string{all, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf"}, "http://a:1/x/v1/traces", ""},
		{"no scheme", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=localhost:4318"}, "", "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{"no host", []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http:///v1"}, "", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
		{"a query", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://a?k=hunter2"}, "", "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{"headers", []string{all, "OTEL_EXPORTER_OTLP_HEADERS=hunter2"}, "", "OTEL_EXPORTER_OTLP_HEADERS"},
		{"time", []string{all, "OTEL_EXPORTER_OTLP_TIMEOUT=1s"}, "", "OTEL_EXPORTER_OTLP_TIMEOUT"},
		{"certificate", []string{all, "OTEL_EXPORTER_OTLP_CERTIFICATE=/dev/null"}, "", "OTEL_EXPORTER_OTLP_CERTIFICATE"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c, on, err := otlp.FromEnvironment(environment(tc.env...))
			if tc.fails != "" {
				if err == nil || on || !strings.Contains(err.Error(), tc.fails) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("%v, %v", on, err)
				}
				return
			}
			if err != nil || on != (tc.endpoint != "") || on && c.Endpoint.String() != tc.endpoint {
				t.Errorf("%+v, %v, %v", c, on, err)
			}
		})
	}
}

func TestHeadersAndTimeout(t *testing.T) {
	t.Parallel()
	c, _, err := otlp.FromEnvironment(environment("OTEL_EXPORTER_OTLP_ENDPOINT=http://a", "OTEL_EXPORTER_OTLP_TIMEOUT=1500",
		"OTEL_EXPORTER_OTLP_HEADERS=other=1", "OTEL_EXPORTER_OTLP_TRACES_HEADERS= api-key = a%2Cb ,x=y=z,"))
	if err != nil || len(c.Header) != 2 || c.Header.Get("Api-Key") != "a,b" || c.Header.Get("X") != "y=z" || c.Timeout != 1500*time.Millisecond {
		t.Errorf("%+v, %v", c, err)
	}
}

// export sends one span, and returns what was logged.
func export(t *testing.T, env ...string) string {
	t.Helper()
	var log bytes.Buffer
	e := start(t, &log, env...)
	span(t, e)
	e.Close()
	return log.String()
}

func start(t *testing.T, log *bytes.Buffer, env ...string) *otlp.Exporter {
	t.Helper()
	c, on, err := otlp.FromEnvironment(environment(env...))
	if err != nil || !on {
		t.Fatal(on, err)
	}
	e, err := otlp.Start(t.Context(), c, "service", "v1", slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func span(t *testing.T, e *otlp.Exporter) {
	_, s := e.Provider().Tracer("test").Start(t.Context(), "work")
	s.End()
}

func TestExport(t *testing.T) {
	t.Parallel()
	c := otlptest.New(t)
	c.StartTLS()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	endpoint := "OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL
	if log := export(t, endpoint); len(c.Spans()) != 0 || !strings.Contains(log, "spans are dropped") {
		t.Errorf("an unknown certificate: %v %s", c.Spans(), log)
	}
	log := export(t, endpoint, "OTEL_EXPORTER_OTLP_CERTIFICATE="+file, "OTEL_EXPORTER_OTLP_HEADERS=api-key=secret")
	spans := c.Spans()
	if len(spans) != 1 || spans[0].Name != "work" || log != "" {
		t.Fatalf("%v %s", spans, log)
	}
	if about := c.Service(); about["service.name"] != "service" || about["service.version"] != "v1" {
		t.Error(about)
	}
	if r := c.Requests()[0]; r.URL.Path != "/v1/traces" || r.Header.Get("Api-Key") != "secret" {
		t.Error(r.URL, r.Header)
	}
}

// TestRefusingCollector has answers that are no success. None is followed or read
// without a bound, and the log says once that spans are dropped.
func TestRefusingCollector(t *testing.T) {
	t.Parallel()
	elsewhere := otlptest.Start(t)
	for name, answer := range map[string]http.HandlerFunc{
		"error": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			for err := error(nil); err == nil; {
				_, err = w.Write(make([]byte, 1<<16))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := otlptest.New(t)
			c.Answer = answer
			c.Server.Start()
			if log := export(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL); strings.Count(log, "spans are dropped") != 1 {
				t.Errorf("%q", log)
			}
		})
	}
	t.Cleanup(func() {
		if elsewhere.Opened() != 0 {
			t.Error("a redirection was followed")
		}
	})
}

// TestCollectorComesBack drops the spans of the time in which the collector fails, and
// says when that is over.
func TestCollectorComesBack(t *testing.T) {
	t.Parallel()
	c := otlptest.New(t)
	var fails atomic.Bool
	fails.Store(true)
	c.Answer = func(w http.ResponseWriter, _ *http.Request) {
		if fails.Load() {
			w.WriteHeader(http.StatusBadGateway)
		}
	}
	c.Server.Start()
	var log bytes.Buffer
	e := start(t, &log, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL)
	for range 2 {
		span(t, e)
		if err := e.Provider().(*trace.TracerProvider).ForceFlush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	fails.Store(false)
	span(t, e)
	e.Close()
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "spans are dropped") || !strings.Contains(lines[1], "spans are sent again") {
		t.Errorf("%q", lines)
	}
}
