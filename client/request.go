package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	apicall "github.com/forkcell/forkcell/internal/api/call"
	"github.com/forkcell/forkcell/internal/api/op"
)

// CallOption is an option of one call.
type CallOption func(*call)

// call is one request.
type call struct {
	method, path string
	body         []byte
	// header is set on the request besides the usual ones.
	header http.Header
	// repeatable reports that the call can be sent again.
	repeatable bool

	// stream is the body instead. It can be sent once only.
	stream io.Reader

	stdout, stderr  io.Writer
	started         func(id string)
	attempt, judged func(RaceAttempt)
	keyboard        string
}

// IdempotencyKey has the daemon do a POST with this key once, however often it is
// sent. The same key with another request is an error with the code key_reused.
func IdempotencyKey(key string) CallOption {
	return func(c *call) { c.header.Set("Idempotency-Key", key); c.repeatable = true }
}

// IfMatch makes a change conditional: it fails with the code changed unless the cell
// has this revision.
func IfMatch(revision int64) CallOption {
	return func(c *call) { c.header.Set("If-Match", fmt.Sprintf("%q", fmt.Sprint(revision))) }
}

// newCall makes a call with a JSON body, or none if body is nil.
func newCall(method, path string, body any, opts []CallOption) (*call, error) {
	c := &call{method: method, path: path, header: http.Header{}, repeatable: method == http.MethodGet}
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", method, path, err)
		}
		c.body = text
		c.header.Set("Content-Type", "application/json")
	}
	for _, o := range opts {
		o(c)
	}
	return c, nil
}

// send sends a call, again where that is allowed, and returns the answer if it
// reports success. The caller closes its body.
func (c *Client) send(ctx context.Context, in *call) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		resp, err := apicall.Send(ctx, sender{c}, in.request(c.address.base))
		wait, again := retryAfter(resp, err, attempt)
		if ctx.Err() == nil && in.repeatable && again {
			if resp != nil {
				_ = resp.Body.Close()
			}
			if err := pause(ctx, wait); err != nil {
				return nil, err
			}
			continue
		}
		switch {
		case ctx.Err() != nil && err != nil:
			return nil, fmt.Errorf("%s %s: %w", in.method, in.path, errors.Join(context.Cause(ctx), ctx.Err()))
		case err != nil:
			return nil, err
		}
		return requireSuccess(resp)
	}
}

// request returns the request of a call.
func (c *call) request(base string) apicall.Request {
	r := apicall.Request{Method: c.method, URL: base + c.path, Header: c.header}
	switch {
	case c.stream != nil:
		r.Body = c.stream
	case c.body != nil:
		r.Body = c.body
	}
	if r.Header.Get("Accept") == "" {
		r.Header.Set("Accept", "application/json")
	}
	return r
}

// sender sends requests to the daemon, with the headers that every one has.
type sender struct{ c *Client }

func (s sender) Do(req *http.Request) (*http.Response, error) {
	s.c.identify(req.Header)
	resp, err := s.c.http.Do(req) //nolint:gosec // the address is the daemon's, whatever the request says
	if err != nil {
		return nil, s.c.failed(err)
	}
	return resp, nil
}

// identify adds the headers that every request has.
func (c *Client) identify(h http.Header) {
	if c.token != "" {
		h.Set("Authorization", "Bearer "+c.token)
	}
	if c.commands {
		h.Set(api.HintsHeader, api.CommandHints)
	}
}

// failed returns the error of a request that got no answer.
func (c *Client) failed(err error) error { return fmt.Errorf("the daemon at %s: %w", c.where(), err) }

// where names the daemon in messages.
func (c *Client) where() string {
	if c.Local() {
		return unixScheme + c.address.socket
	}
	return c.address.base
}

// receive sends a call and reads the document of its answer.
func receive[T any](ctx context.Context, c *Client, in *call) (*T, error) {
	resp, err := c.send(ctx, in)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	doc := new(T)
	if resp.StatusCode == http.StatusNoContent {
		return doc, nil
	}
	text, err := readAll(resp.Body)
	if err == nil {
		err = readDocument(text, doc)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: the answer: %w", in.method, in.path, err)
	}
	return doc, nil
}

func get[T any](ctx context.Context, c *Client, path string) (*T, error) {
	in, err := newCall(http.MethodGet, path, nil, nil)
	if err != nil {
		return nil, err
	}
	return receive[T](ctx, c, in)
}

// post sends a POST that is done once, also if it has to be sent again.
func post[T any](ctx context.Context, c *Client, path string, body any, opts []CallOption) (*T, error) {
	in, err := newCall(http.MethodPost, path, body, append([]CallOption{IdempotencyKey(newKey())}, opts...))
	if err != nil {
		return nil, err
	}
	return receive[T](ctx, c, in)
}

// ask carries out an operation: once, also if its request has to be sent again.
func ask[In, Out any](ctx context.Context, c *Client, o op.Op[In, Out], in In, opts []CallOption) (*Out, error) {
	path, err := o.Target(&in)
	if err != nil {
		return nil, err
	}
	if o.Method == http.MethodGet {
		return get[Out](ctx, c, path)
	}
	var body any
	if has, _ := op.Body[In](); has {
		body = in
	}
	return post[Out](ctx, c, path, body, opts)
}

func newKey() string { return strings.ToLower(rand.Text()) }
