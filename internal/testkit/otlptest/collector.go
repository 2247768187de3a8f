// Package otlptest is a collector of spans, for tests.
package otlptest

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector keeps the spans that it gets.
type Collector struct {
	*httptest.Server
	// Answer, if set before the first request, answers instead of 200. The spans are
	// kept all the same.
	Answer http.HandlerFunc

	mu       sync.Mutex
	batches  []*tracepb.ResourceSpans
	requests []*http.Request
	opened   int
	bad      error
}

// Start makes a collector on loopback that ends with the test.
func Start(t testing.TB) *Collector {
	c := New(t)
	c.Server.Start()
	return c
}

// New makes a collector that the test starts, with or without TLS.
func New(t testing.TB) *Collector {
	c := &Collector{}
	c.Server = httptest.NewUnstartedServer(c)
	c.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if state == http.StateNew {
			c.opened++
		}
	}
	t.Cleanup(func() {
		c.CloseClientConnections()
		c.Close()
		if c.bad != nil {
			t.Error(c.bad)
		}
	})
	return c
}

// ServeHTTP takes a batch of spans.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var data tracepb.TracesData
	if err == nil {
		err = proto.Unmarshal(body, &data)
	}
	if err == nil && (r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-protobuf") {
		err = fmt.Errorf("a batch came as %s %s", r.Method, r.Header.Get("Content-Type"))
	}
	c.mu.Lock()
	c.requests = append(c.requests, r)
	c.batches = append(c.batches, data.ResourceSpans...)
	if err != nil {
		c.bad = err
	}
	c.mu.Unlock()
	if c.Answer != nil {
		c.Answer(w, r)
	}
}

// Opened returns the number of connections to the collector.
func (c *Collector) Opened() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opened
}

// Requests returns the requests that came.
func (c *Collector) Requests() []*http.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

// Service returns the attributes of the service that sent spans.
func (c *Collector) Service() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	about := map[string]string{}
	for _, b := range c.batches {
		for name, value := range attributes(b.GetResource().GetAttributes()) {
			about[name] = value
		}
	}
	return about
}

// Spans returns the spans that came.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []Span
	for _, b := range c.batches {
		for _, scope := range b.ScopeSpans {
			for _, s := range scope.Spans {
				list = append(list, Span{Span: s, Attributes: attributes(s.Attributes)})
			}
		}
	}
	return list
}

// Span is a span with its attributes as text.
type Span struct {
	*tracepb.Span
	Attributes map[string]string
}

// attributes returns texts and numbers as text.
func attributes(list []*commonpb.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range list {
		switch v := a.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			out[a.Key] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			out[a.Key] = fmt.Sprint(v.IntValue)
		default:
			out[a.Key] = fmt.Sprintf("%T", v)
		}
	}
	return out
}
