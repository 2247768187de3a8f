package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	apicall "github.com/forkcell/forkcell/internal/api/call"
	"github.com/forkcell/forkcell/internal/api/op"
)

// maxDocument bounds the document of an answer.
const maxDocument = 32 << 20

const eventStreamType = "text/event-stream"

// Client sends requests to the REST API for one caller. It sees the path and the
// query of a request; the host is not used.
type Client = apicall.Doer

// request is one request of the API.
type request struct {
	method string
	path   string
	query  url.Values
	body   any // marshalled, unless it is nil or raw bytes
	accept string
	bytes  string // the Range header
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
	header := http.Header{}
	// The words of tools are made of the hints of commands.
	for name, value := range map[string]string{api.HintsHeader: api.CommandHints, "Authorization": c.authorization, "Accept": r.accept, "Range": r.bytes} {
		if value != "" {
			header.Set(name, value)
		}
	}
	resp, err := apicall.Send(ctx, c.client, apicall.Request{Method: r.method, URL: "http://localhost" + r.path, Query: r.query, Body: r.body, Header: header})
	if err != nil {
		return nil, err
	}
	p, failed := apicall.Problem(resp)
	switch {
	case !failed:
		return resp, nil
	case p.Code == "":
		return nil, fmt.Errorf("the API answered with the status %s", resp.Status)
	default:
		return nil, errorOf(p)
	}
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

// carryOut has the API carry out an operation. It returns the document of the answer:
// decoded, and as it is.
func carryOut[In, Out any](ctx context.Context, c *call, o op.Op[In, Out], in In) (*Out, json.RawMessage, error) {
	target, err := o.Target(&in)
	if err != nil {
		return nil, nil, err
	}
	r := request{method: o.Method}
	var query string
	r.path, query, _ = strings.Cut(target, "?")
	if r.query, err = url.ParseQuery(query); err != nil {
		return nil, nil, err
	}
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
