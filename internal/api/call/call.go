// Package call sends requests of the API: it makes an HTTP request of a method, a path and
// a document, and reads the problem of an answer that reports a failure.
//
// It knows no operation and no address, and sends a request once.
package call

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/answer"
)

// Doer sends an HTTP request, or serves it.
type Doer interface {
	Do(r *http.Request) (*http.Response, error)
}

// Request is one request.
type Request struct {
	Method string
	// URL is the path, and before it the address if the Doer needs one.
	URL   string
	Query url.Values
	// Body is marshalled, unless it is nil, bytes or an io.Reader.
	Body any
	// Header counts before the type that the body has by itself.
	Header http.Header
}

// Send sends a request. The caller closes the body of the answer.
func Send(ctx context.Context, to Doer, r Request) (*http.Response, error) {
	req, err := r.request(ctx)
	if err != nil {
		return nil, err
	}
	return to.Do(req)
}

func (r Request) request(ctx context.Context) (*http.Request, error) {
	var body io.Reader
	kind := ""
	switch b := r.Body.(type) {
	case nil:
	case io.Reader:
		body = b
	case []byte:
		body, kind = bytes.NewReader(b), "application/octet-stream"
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL, err)
		}
		body, kind = bytes.NewReader(text), "application/json"
	}
	target := r.URL
	if len(r.Query) > 0 {
		target += "?" + r.Query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, target, body)
	if err != nil {
		return nil, err
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	for name, values := range r.Header {
		req.Header[name] = values
	}
	return req, nil
}

// maxProblem bounds the document of a failure, which may name many paths.
const maxProblem = 32 << 20

// Problem returns the failure that an answer reports, and closes its body. failed is false
// if it reports success. A problem without a code is the answer of something else than a
// daemon.
func Problem(resp *http.Response) (p api.Problem, failed bool) {
	if resp.StatusCode < http.StatusMultipleChoices {
		return p, false
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if err != nil || answer.Decode(text, &p) != nil {
		p = api.Problem{}
	}
	return p, true
}
