package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/answer"
	"github.com/forkcell/forkcell/internal/api/call"
	"github.com/forkcell/forkcell/internal/api/op"
)

const (
	// maxDocument bounds a document of the daemon.
	maxDocument = 256 << 20
	// maxItems bounds a list.
	maxItems = 1 << 20
)

// send sends a request with a JSON body, or none if body is nil.
func (e *Engine) send(ctx context.Context, method, path, accept string, body any) (*http.Response, error) {
	return asEngineError(call.Send(ctx, e.client, call.Request{Method: method, URL: path, Body: body, Header: http.Header{"Accept": {accept}}}))
}

// ask sends a request and reads the document of its answer into doc, unless that is
// nil.
func (e *Engine) ask(ctx context.Context, method, path string, body, doc any) error {
	resp, err := e.send(ctx, method, path, "application/json", body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if doc == nil {
		return nil
	}
	return readDocument(resp.Body, doc)
}

// readDocument reads a document of the daemon, whose names and ids follow their grammars.
func readDocument(body io.Reader, doc any) error {
	text, err := io.ReadAll(io.LimitReader(body, maxDocument+1))
	if err != nil {
		return failure(err)
	}
	if len(text) > maxDocument {
		return malformed(fmt.Errorf("more than %d bytes", maxDocument))
	}
	return decode(text, doc)
}

// decode decodes a document, an event or a message of the daemon.
func decode(text []byte, doc any) error {
	if err := answer.Decode(text, doc); err != nil {
		return malformed(err)
	}
	return nil
}

// carryOut has the daemon carry out an operation.
func carryOut[In, Out any](ctx context.Context, e *Engine, o op.Op[In, Out], in In) (*Out, error) {
	path, err := o.Target(&in)
	if err != nil {
		return nil, err
	}
	var body any
	if has, _ := op.Body[In](); has {
		body = in
	}
	doc := new(Out)
	return doc, e.ask(ctx, o.Method, path, body, doc)
}

func get[T any](ctx context.Context, e *Engine, path string) (*T, error) {
	doc := new(T)
	if err := e.ask(ctx, http.MethodGet, path, nil, doc); err != nil {
		return nil, err
	}
	return doc, nil
}

func malformed(err error) error {
	return &api.Error{Kind: api.Failed, Code: api.CodeProtocol, Message: "the answer of the daemon: " + err.Error(), Err: err, Hint: "forkcell of another version may run there"}
}

// all returns the items of a list.
func all[T any](items iter.Seq2[T, error]) ([]T, error) {
	list := []T{}
	for item, err := range items {
		if err != nil {
			return nil, failure(err)
		}
		if list = append(list, item); len(list) > maxItems {
			return nil, malformed(fmt.Errorf("a list has more than %d items", maxItems))
		}
	}
	return list, nil
}

// pages returns the items of a list that the client has no method for.
func pages[T any](ctx context.Context, e *Engine, path string) ([]T, error) {
	return all(func(yield func(T, error) bool) {
		query := url.Values{"limit": {"1000"}}
		for {
			page, err := get[api.List[T]](ctx, e, path+"?"+query.Encode())
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
			}
			if page.Next == nil {
				return
			}
			if len(page.Items) == 0 || *page.Next == query.Get("cursor") {
				var none T
				yield(none, malformed(errors.New("a list without an end")))
				return
			}
			query.Set("cursor", *page.Next)
		}
	})
}
