package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
)

// maxDocument bounds the document of an answer.
const maxDocument = 32 << 20

const eventStreamType = "text/event-stream"

// Client sends requests to the REST API for one caller. It sees the path and the
// query of a request; the host is not used.
type Client interface {
	Do(r *http.Request) (*http.Response, error)
}

// request is one request of the API.
type request struct {
	method string
	path   string
	query  url.Values
	// rawQuery is the query instead.
	rawQuery string
	body     any // marshalled, unless it is nil or raw bytes
	accept   string
	bytes    string // the Range header
}

// path returns a path of the API from its parts, which are escaped.
func path(parts ...string) string {
	text := "/v1"
	for _, p := range parts {
		text += "/" + url.PathEscape(p)
	}
	return text
}

// send sends a request, and returns the error that a problem document stands for.
func (c *call) send(ctx context.Context, r request) (*http.Response, error) {
	req, err := r.http(ctx)
	if err != nil {
		return nil, err
	}
	req.Header.Set(api.HintsHeader, api.CommandHints) // the words of tools are made of them
	if c.authorization != "" {
		req.Header.Set("Authorization", c.authorization)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		defer resp.Body.Close()
		return nil, problemOf(resp)
	}
	return resp, nil
}

func (r request) http(ctx context.Context) (*http.Request, error) {
	var body io.Reader
	kind := ""
	switch b := r.body.(type) {
	case nil:
	case []byte:
		body, kind = bytes.NewReader(b), "application/octet-stream"
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		body, kind = bytes.NewReader(text), "application/json"
	}
	target := "http://localhost" + r.path
	if query := cmp.Or(r.rawQuery, r.query.Encode()); query != "" {
		target += "?" + query
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{"Content-Type": kind, "Accept": r.accept, "Range": r.bytes} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	return req, nil
}

// problemOf returns the error of an answer that is a problem document.
func problemOf(resp *http.Response) error {
	var p api.Problem
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxDocument)).Decode(&p); err != nil || p.Code == "" {
		return fmt.Errorf("the API answered with the status %s", resp.Status)
	}
	return errorOf(p)
}

func errorOf(p api.Problem) error {
	return &api.Error{Kind: p.Kind, Code: p.Code, Message: p.Detail, Hint: p.Hint, Details: p.Details}
}

// fetch sends a request, and returns the document of the answer: decoded, and as it
// is.
func fetch[T any](ctx context.Context, c *call, r request) (*T, json.RawMessage, error) {
	resp, err := c.send(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	raw, err := readAll(resp.Body)
	if err != nil {
		return nil, nil, err
	}
	doc := new(T)
	if err := json.Unmarshal(raw, doc); err != nil {
		return nil, nil, fmt.Errorf("the answer to %s %s: %w", r.method, r.path, err)
	}
	return doc, raw, nil
}

// carryOut carries out an operation, and returns the document of the answer: decoded, and as it
// is.
func carryOut[In, Out any](ctx context.Context, c *call, o op.Op[In, Out], in In) (*Out, json.RawMessage, error) {
	target, err := o.Target(&in)
	if err != nil {
		return nil, nil, err
	}
	r := request{method: o.Method}
	r.path, r.rawQuery, _ = strings.Cut(target, "?")
	if has, _ := op.Body[In](); has {
		r.body = in
	}
	return fetch[Out](ctx, c, r)
}

// readAll reads a document, which has a bound.
func readAll(r io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err == nil && len(raw) > maxDocument {
		err = &api.Error{Code: api.CodeTooLarge, Message: "the document is too large for a tool", Hint: "use the command line or the REST API"}
	}
	return raw, err
}
