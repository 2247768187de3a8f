package otlp

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// maxAnswer bounds what is read of a collector's answer.
const maxAnswer = 64 << 10

// client sends batches of spans. It implements otlptrace.Client.
type client struct {
	config Config
	http   *http.Client
	// stopped ends the requests that are under way.
	stopped context.Context
	stop    context.CancelFunc
}

func newClient(c Config) *client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxResponseHeaderBytes = 1, maxAnswer
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.Roots}
	out := &client{config: c, http: &http.Client{
		Transport: transport,
		// The fields of the header are for the collector only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	out.stopped, out.stop = context.WithCancel(context.Background())
	return out
}

// Start has nothing to do: the first batch connects.
func (c *client) Start(context.Context) error { return nil }

// Stop ends requests that are under way, and refuses new ones.
func (c *client) Stop(context.Context) error {
	c.stop()
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces sends one batch. It is not repeated if it fails: while the collector is
// away, newer spans are worth more than old ones.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	defer context.AfterFunc(c.stopped, cancel)()
	// The request of the protocol has the same form as this message.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encode the spans: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.config.Endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, values := range c.config.Header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	// The connection is used again if the answer is read to its end.
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	if closed := resp.Body.Close(); err == nil {
		err = closed
	}
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("the collector answered %s", resp.Status)
	}
	return err
}
