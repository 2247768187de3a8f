package rest

import (
	"context"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/forkcell/forkcell/internal/api/op"
)

// maxBody bounds the JSON body of a request.
const maxBody = 8 << 20

// needsKey is the key of the scopes that a route needs, in its metadata.
const needsKey = "needs"

// commandKey is the key of the command that does the same, in the description of a route.
const commandKey = "x-command"

// operationOf returns the library's description of an operation.
func operationOf(o op.Verb) huma.Operation {
	errors := []int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusNotAcceptable, http.StatusConflict,
		http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable,
	}
	if o.Method != http.MethodGet {
		errors = append(errors, http.StatusRequestTimeout, http.StatusPreconditionFailed, http.StatusRequestEntityTooLarge,
			http.StatusUnsupportedMediaType, http.StatusInsufficientStorage)
	}
	def := huma.Operation{
		Method: o.Method, Path: o.Path, OperationID: o.ID, Summary: o.Summary, Tags: []string{o.Tag},
		DefaultStatus: o.Status, MaxBodyBytes: maxBody, BodyReadTimeout: -1, // the body has its own
		Errors: append(errors, o.Also...), Metadata: map[string]any{needsKey: o.Needs},
		Extensions: map[string]any{"x-scopes": o.Needs},
	}
	if len(o.Needs) == 0 {
		def.Extensions, def.Security = map[string]any{}, []map[string][]string{}
	}
	if o.Command != "" {
		def.Extensions[commandKey] = o.Command
	}
	return def
}

// route adds the route of an operation that the engine of the caller carries out.
func route[In, Out any](s *Server, o op.Op[In, Out]) {
	routeBy(s, o, func(ctx context.Context, c *call, in *In) (*Out, error) { return o.Do(c.engine, ctx, *in) })
}

// routeBy adds the route of an operation that do carries out.
func routeBy[In, Out any](s *Server, o op.Op[In, Out], do func(context.Context, *call, *In) (*Out, error)) {
	def, inCell, inSession := operationOf(o.Verb), strings.Contains(o.Path, "{cell}"), strings.Contains(o.Path, "{session}")
	hasBody, needed := op.Body[In]()
	if needed {
		def.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{}}
	}
	admitted := func(ctx context.Context, c *call, in *In) (*Out, error) {
		if o.Takes {
			if err := s.roomOnDisk(ctx, c); err != nil {
				return nil, err
			}
		}
		return do(ctx, c, in)
	}
	switch {
	case !hasBody:
		register(s, def, inDocument(admitted))
	case inCell && o.Moment:
		post[cellAtMoment[In]](s, def, admitted)
	case inCell:
		post[documentInCell[In]](s, def, admitted)
	case inSession && o.Moment:
		post[sessionAtMoment[In]](s, def, admitted)
	case inSession:
		post[documentInSession[In]](s, def, admitted)
	default:
		post[Document[In]](s, def, admitted)
	}
}

// Document is a request whose body may be left out, unless the document of the API says
// that it may not. The type is exported because its fields are found by reflection.
type Document[In any] struct {
	Body *In
}

func (d *Document[In]) document() *In {
	if d.Body == nil {
		return new(In)
	}
	return d.Body
}

// Requests about one cell, or one session.
type (
	documentInCell[In any] struct {
		InCell
		Document[In]
	}
	cellAtMoment[In any] struct {
		InCell
		IfMatch
		Document[In]
	}
	documentInSession[In any] struct {
		InSession
		Document[In]
	}
	sessionAtMoment[In any] struct {
		InSession
		IfMatch
		Document[In]
	}
)

// post adds a route of an operation whose document comes in the body, and with what the
// path says.
func post[I, In, Out any, P interface {
	*I
	document() *In
}](s *Server, def huma.Operation, do func(context.Context, *call, *In) (*Out, error)) {
	register(s, def, func(ctx context.Context, c *call, sent *I) (*answer[Out], error) {
		in := P(sent).document()
		for _, name := range op.PathNames(reflect.TypeFor[In]()) {
			op.SetPath(in, name, op.PathValue(sent, name))
		}
		return inDocument(do)(ctx, c, in)
	})
}

// inDocument makes the result of do an answer.
func inDocument[In, Out any](do func(context.Context, *call, *In) (*Out, error)) func(context.Context, *call, *In) (*answer[Out], error) {
	return func(ctx context.Context, c *call, in *In) (*answer[Out], error) {
		doc, err := do(ctx, c, in)
		return &answer[Out]{Body: doc}, err
	}
}

// answer is an answer whose body is one document.
type answer[T any] struct {
	Body *T
}

// empty is an answer without a body.
type empty struct{}

// handle adds a route that answers with one document.
func handle[I, T any](s *Server, o op.Verb, do func(context.Context, *call, *I) (*T, error)) {
	handleRaw(s, o, inDocument(do))
}

// handleRaw adds a route that sets the whole answer, headers included.
func handleRaw[I, O any](s *Server, o op.Verb, do func(context.Context, *call, *I) (*O, error)) {
	register(s, operationOf(o), do)
}

// register adds an operation. Every route is added by it.
func register[I, O any](s *Server, def huma.Operation, do func(context.Context, *call, *I) (*O, error)) {
	huma.Register(s.api, def, func(ctx context.Context, in *I) (*O, error) {
		c := callOf(ctx)
		if err := c.allowFields(ctx, in); err != nil {
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
