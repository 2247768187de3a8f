package otlp

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	// flushLimit bounds the time in which the last spans are sent.
	flushLimit = 5 * time.Second
	// maxAttribute bounds the text of an attribute.
	maxAttribute = 256
)

// Exporter has a queue of spans, which it sends to a collector.
type Exporter struct {
	provider *sdktrace.TracerProvider
	client   *client
}

// Start makes an exporter for a service. It connects when there are spans to send. A
// span that ends never waits: it is dropped if the queue is full. The sampler, the
// length of the queue and attributes of the service can be set by the variables that
// OpenTelemetry specifies.
func Start(ctx context.Context, c Config, service, version string, log *slog.Logger) (*Exporter, error) {
	client := newClient(c)
	sender, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, err
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", service), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = maxAttribute
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithRawSpanLimits(limits),
		sdktrace.WithBatcher(&reporter{SpanExporter: sender, log: log}))
	return &Exporter{provider, client}, nil
}

// Provider returns what makes spans for the exporter.
func (e *Exporter) Provider() trace.TracerProvider { return e.provider }

// Close sends the spans that are in the queue, for a few seconds at most.
func (e *Exporter) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), flushLimit)
	defer cancel()
	// The collector's failure was logged.
	_ = e.provider.Shutdown(ctx)
	e.client.stop()
}

// reporter logs that a collector begins to fail, and that it answers again.
type reporter struct {
	sdktrace.SpanExporter
	log     *slog.Logger
	failing bool
}

// ExportSpans is called by one goroutine at a time.
func (r *reporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := r.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil && !r.failing:
		r.log.Warn("spans are dropped", "error", err)
	case err == nil && r.failing:
		r.log.Warn("spans are sent again")
	}
	r.failing = err != nil
	return nil
}
