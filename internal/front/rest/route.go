package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// maxBody bounds the JSON body of a request.
const maxBody = 8 << 20

// needsKey is the key of the scopes that a route needs, in its metadata.
const needsKey = "needs"

// commandKey is the key of the command that does the same, in the description of a route.
const commandKey = "x-command"

// route describes one operation of the API.
type route struct {
	method, path string
	id           string // the name of the operation, as SDKs use it
	summary      string
	tag          string
	// command is the command of the command line that does the same, with its arguments as
	// the names of fields in braces. "" is none.
	command string
	// needs are the scopes that a caller must have, all of them. Without any the route
	// is for everybody.
	needs  []Scope
	status int   // of success; 0 = 200
	also   []int // statuses of errors besides the usual ones
}

// operation returns the library's description of a route.
func (r route) operation() huma.Operation {
	errors := []int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusNotAcceptable, http.StatusConflict,
		http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable,
	}
	if r.method != http.MethodGet {
		errors = append(errors, http.StatusRequestTimeout, http.StatusPreconditionFailed, http.StatusRequestEntityTooLarge,
			http.StatusUnsupportedMediaType, http.StatusInsufficientStorage)
	}
	op := huma.Operation{
		Method: r.method, Path: r.path, OperationID: r.id, Summary: r.summary, Tags: []string{r.tag},
		DefaultStatus: r.status, MaxBodyBytes: maxBody, BodyReadTimeout: -1, // the body has its own
		Errors: append(errors, r.also...), Metadata: map[string]any{needsKey: r.needs},
		Extensions: map[string]any{"x-scopes": r.needs},
	}
	if len(r.needs) == 0 {
		op.Extensions, op.Security = map[string]any{}, []map[string][]string{}
	}
	if r.command != "" {
		op.Extensions[commandKey] = r.command
	}
	return op
}

// answer is an answer whose body is one document.
type answer[T any] struct {
	Body *T
}

// empty is an answer without a body.
type empty struct{}

// handle adds a route that answers with one document.
func handle[I, T any](s *Server, r route, do func(context.Context, *call, *I) (*T, error)) {
	handleRaw(s, r, func(ctx context.Context, c *call, in *I) (*answer[T], error) {
		doc, err := do(ctx, c, in)
		return &answer[T]{Body: doc}, err
	})
}

// handleRaw adds a route that sets the whole answer, headers included.
func handleRaw[I, O any](s *Server, r route, do func(context.Context, *call, *I) (*O, error)) {
	register(s, r.operation(), do)
}

// register adds an operation. Every route is added by it.
func register[I, O any](s *Server, op huma.Operation, do func(context.Context, *call, *I) (*O, error)) {
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		c := callOf(ctx)
		if err := c.allowOperatorFields(ctx, in); err != nil {
			return nil, s.problemOf(c, err)
		}
		out, err := do(ctx, c, in)
		if err != nil {
			return nil, s.problemOf(c, err)
		}
		return out, nil
	})
}

// InCell is the input of a route about one cell.
type InCell struct {
	Cell string `path:"cell" doc:"Name of the cell." maxLength:"63"`
}

// IfMatch is the header of conditional moves. The middleware reads it.
type IfMatch struct {
	Match string `header:"If-Match" doc:"The ETag that the cell must have."`
}

// Page is the input of a list.
type Page struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"At most so many items."`
	Cursor string `query:"cursor" doc:"The cursor of the page before."`
}
