// Package inspect reads requests of GraphQL, JSON-RPC, MCP and gRPC, and
// describes them in the terms of policy rules.
//
// All input comes from a cell and is hostile. A server reads the same bytes
// with another parser, and an attack is a request that the two read
// differently. So the parsers are strict: they refuse, with a reason, what the
// specifications do not allow and what common servers read in different ways.
// The bytes that were read must be sent: they are returned unchanged.
//
// The package knows protocols. It must not know endpoints, rules, connections
// or credentials, and it decides nothing. Its reasons contain names of keys,
// never values.
package inspect

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Request holds the parts of an HTTP request that are read.
type Request struct {
	Method string
	// Path is in canonical form, without the query.
	Path string
	// RawQuery is the query as it will be forwarded.
	RawQuery string
	// Header has canonical keys, as net/http makes them.
	Header http.Header
	// ProtoMajor is the version of HTTP, 1 or 2.
	ProtoMajor int
	// Body may be nil. At most MaxBody bytes and one more are read of it.
	Body    io.Reader
	MaxBody int64
}

// Result holds the facts of a request.
type Result struct {
	Facts policy.Facts
	// Body has the bytes that were read, and must be sent in place of Request.Body. It is
	// nil for gRPC, where nothing is read, and for requests without a body.
	Body []byte
}

// Refusal is the error for an invalid request, or for one that could be read in
// two ways. Every other error comes from reading the body.
type Refusal struct{ Reason string }

// Error returns the reason.
func (r *Refusal) Error() string { return r.Reason }

func refuse(format string, args ...any) error {
	return &Refusal{fmt.Sprintf(format, args...)}
}

// HTTP reads a request as the protocol that policy.Inspection asked for.
func HTTP(p policy.Protocol, r Request) (Result, error) {
	if err := plain(r.Header); err != nil {
		return Result{}, err
	}
	switch p {
	case policy.GraphQL:
		return graphQL(r)
	case policy.JSONRPC:
		return jsonRPC(r)
	case policy.ModelContext:
		return modelContext(r)
	case policy.GRPC:
		return gRPC(r)
	case policy.TCP, policy.REST, policy.Websocket:
	}
	return Result{}, refuse("requests of protocol %s are not read", p)
}

// plain refuses headers that change the meaning of the request: some frameworks
// take a method from a header, and after an upgrade the connection is not HTTP.
func plain(h http.Header) error {
	for _, name := range []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "Upgrade"} {
		if len(h.Values(name)) > 0 {
			return refuse("the header %s could make another request of this one", name)
		}
	}
	return nil
}

// single returns the value of a header that must not be repeated; "" if it is
// absent.
func single(h http.Header, name string) (string, error) {
	values := h.Values(name)
	if len(values) > 1 {
		return "", refuse("the header %s is there %d times", name, len(values))
	}
	if len(values) == 0 {
		return "", nil
	}
	return values[0], nil
}

// jsonBody reads a body whose content and content type are JSON.
func jsonBody(r Request) ([]byte, value, error) {
	if err := jsonType(r.Header); err != nil {
		return nil, value{}, err
	}
	body, err := read(r)
	if err != nil {
		return nil, value{}, err
	}
	v, err := parse(body)
	return body, v, err
}

func jsonType(h http.Header) error {
	if len(h.Values("Content-Encoding")) > 0 {
		return refuse("the body has a Content-Encoding; only bodies without one are read")
	}
	text, err := single(h, "Content-Type")
	if err != nil {
		return err
	}
	kind, params, err := mime.ParseMediaType(text)
	// A star introduces RFC 2231's way to split one parameter.
	if err != nil || kind != "application/json" || strings.Contains(text, "*") {
		return refuse("the Content-Type is not application/json")
	}
	for name, v := range params {
		if name != "charset" || !strings.EqualFold(v, "utf-8") {
			return refuse("the Content-Type has a parameter other than charset=utf-8")
		}
	}
	return nil
}

func read(r Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, r.MaxBody+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the request's body: %w", err)
	case int64(len(body)) > r.MaxBody:
		return nil, refuse("the body is longer than %d bytes", r.MaxBody)
	}
	return body, nil
}

// noBody checks that a request has no body, because servers differ on the
// meaning of an unexpected one.
func noBody(r Request) error {
	if r.Body == nil {
		return nil
	}
	var b [1]byte
	switch n, err := io.ReadFull(r.Body, b[:]); {
	case n > 0:
		return refuse("a %s request with a body", r.Method)
	case errors.Is(err, io.EOF):
		return nil
	default:
		return fmt.Errorf("read the request's body: %w", err)
	}
}

// show quotes a name of the request for a reason.
func show(s string) string {
	const most = 40
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "..."
	}
	return `"` + quote.Line(s) + `"`
}
