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

// route adds the route of an operation that the engine of the caller carries out, with what
// the body says.
func route[In, Out any](s *Server, o op.Op[In, Out]) { routeBy(s, o, byEngine(o)) }

// show adds the route of an operation without a body that the engine of the caller carries
// out.
func show[In, Out any](s *Server, o op.Op[In, Out]) { showBy(s, o, byEngine(o)) }

// byEngine returns the function of an operation.
func byEngine[In, Out any](o op.Op[In, Out]) func(context.Context, *call, *In) (*Out, error) {
	return func(ctx context.Context, c *call, in *In) (*Out, error) { return o.Do(c.engine, ctx, *in) }
}

// showBy adds the route of an operation without a body that do carries out. All of its
// request is in the path and the query. Such an operation takes no disk space.
func showBy[In, Out any](s *Server, o op.Op[In, Out], do func(context.Context, *call, *In) (*Out, error)) {
	register(s, operationOf(o.Verb), inDocument(do))
}

// routeBy adds the route of an operation that do carries out, with what the body says.
//
// The library makes much code for each type of a request: there is one for each operation,
// and what the path says is not part of it.
func routeBy[In, Out any](s *Server, o op.Op[In, Out], do func(context.Context, *call, *In) (*Out, error)) {
	def := operationOf(o.Verb)
	def.Parameters = s.parametersOf(reflect.TypeFor[In](), o.Verb)
	if _, needed := op.Body[In](); needed {
		def.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{}}
	}
	register(s, def, func(ctx context.Context, c *call, in *Document[In]) (*answer[Out], error) {
		if o.Takes {
			if err := s.roomOnDisk(ctx, c); err != nil {
				return nil, err
			}
		}
		return inDocument(do)(ctx, c, in.Body)
	})
}

// parametersOf returns the parameters of a request that are not in its body.
func (s *Server) parametersOf(request reflect.Type, o op.Verb) (list []*huma.Param) {
	add := func(f reflect.StructField, in, name string, required bool) {
		schema := huma.SchemaFromField(s.api.OpenAPI().Components.Schemas, f, "")
		schema.PrecomputeMessages()
		list = append(list, &huma.Param{Name: name, In: in, Description: schema.Description, Required: required, Schema: schema})
	}
	for _, f := range reflect.VisibleFields(request) {
		if name := f.Tag.Get("path"); strings.Contains(o.Path, "{"+name+"}") {
			add(f, "path", name, true)
		}
	}
	if o.Moment {
		f := reflect.TypeFor[IfMatch]().Field(0)
		add(f, "header", f.Tag.Get("header"), false)
	}
	return list
}

// Document is a request whose body may be left out, unless the document of the API says
// that it may not.
type Document[In any] struct {
	Body *In
}

// Resolve adds what the path says.
func (d *Document[In]) Resolve(ctx huma.Context) []error {
	if d.Body == nil {
		d.Body = new(In)
	}
	res := &huma.ValidateResult{}
	for _, p := range ctx.Operation().Parameters {
		if p.In == "path" {
			value := ctx.Param(p.Name)
			huma.Validate(nil, p.Schema, huma.NewPathBuffer([]byte("path."+p.Name), 0), huma.ModeWriteToServer, value, res)
			op.SetPath(d.Body, p.Name, value)
		}
	}
	return res.Errors
}

func (d *Document[In]) document() any { return d.Body }

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
