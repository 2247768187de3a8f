package rest

import (
	"bytes"
	"context"
	_ "embed"
	"html/template"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/forkcell/forkcell/internal/api/op"
)

//go:embed docs.html
var docsText string

// docsPolicy lets the page have its own style, and nothing else.
const docsPolicy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// docsPage is the page about the API for people.
type docsPage struct {
	Info    *huma.Info
	Version string // of this program
	Tags    []docsTag
	Schemas []docsSchema
}

// docsTag is a group of operations.
type docsTag struct {
	Name       string
	Operations []docsOperation
}

// docsOperation is an operation as the page shows it.
type docsOperation struct {
	*huma.Operation
	Needs   []Scope
	Body    []docsMedia
	Answers []docsAnswer
}

// docsMedia is a body: its media type and its schema.
type docsMedia struct {
	Kind string
	Type docsType
}

// docsAnswer is an answer of success.
type docsAnswer struct {
	Status, Text string
	Bodies       []docsMedia
}

// docsType is a type: text and names of schemas, in their order.
type docsType []docsPart

// docsPart is text, or the name of a schema.
type docsPart struct{ Text, Schema string }

// docsSchema is a document of the API.
type docsSchema struct {
	Name, Text string
	Fields     []docsField
}

// docsField is a field of a document.
type docsField struct {
	Name, Text string
	Type       docsType
	Required   bool
}

// addDocs adds the route of the page. It is made when it is asked for first.
func (s *Server) addDocs() {
	page := sync.OnceValues(s.docs)
	handleExchange(s, op.Docs, streamResponse(map[string]string{"text/html": "The page. It loads nothing."}), func(_ context.Context, x *exchange, _ *struct{}) {
		text, err := page()
		if err != nil {
			x.fail(err)
			return
		}
		h := x.w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", docsPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		_, _ = x.w.Write(text)
	})
}

// docs makes the page from the description of the API.
func (s *Server) docs() ([]byte, error) {
	t, err := template.New("docs").Parse(docsText)
	if err != nil {
		return nil, err
	}
	doc := s.api.OpenAPI()
	var page bytes.Buffer
	err = t.Execute(&page, docsPage{
		Info: doc.Info, Version: s.config.Version, Tags: docsTags(doc.Paths), Schemas: docsSchemas(doc.Components.Schemas.Map()),
	})
	return page.Bytes(), err
}

// docsTags returns the operations by tag.
func docsTags(paths map[string]*huma.PathItem) (tags []docsTag) {
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		for _, op := range operationsAt(paths[path]) {
			at := slices.IndexFunc(tags, func(t docsTag) bool { return t.Name == op.Tags[0] })
			if at < 0 {
				at = len(tags)
				tags = append(tags, docsTag{Name: op.Tags[0]})
			}
			tags[at].Operations = append(tags[at].Operations, docsOperationOf(op))
		}
	}
	slices.SortFunc(tags, func(a, b docsTag) int { return strings.Compare(a.Name, b.Name) })
	return tags
}

// ID returns the anchor of a tag.
func (t docsTag) ID() string { return "tag-" + strings.ReplaceAll(t.Name, " ", "-") }

func docsOperationOf(op *huma.Operation) docsOperation {
	shown := docsOperation{Operation: op}
	shown.Needs, _ = op.Metadata[needsKey].([]Scope)
	if op.RequestBody != nil {
		shown.Body = docsBodies(op.RequestBody.Content)
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		if response := op.Responses[status]; status < "4" {
			shown.Answers = append(shown.Answers, docsAnswer{status, response.Description, docsBodies(response.Content)})
		}
	}
	return shown
}

func docsBodies(content map[string]*huma.MediaType) (list []docsMedia) {
	for _, kind := range slices.Sorted(maps.Keys(content)) {
		list = append(list, docsMedia{kind, docsTypeOf(content[kind].Schema)})
	}
	return list
}

func docsSchemas(schemas map[string]*huma.Schema) (list []docsSchema) {
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		schema := schemas[name]
		shown := docsSchema{Name: name, Text: schema.Description}
		for _, field := range slices.Sorted(maps.Keys(schema.Properties)) {
			p := schema.Properties[field]
			shown.Fields = append(shown.Fields, docsField{field, p.Description, docsTypeOf(p), slices.Contains(schema.Required, field)})
		}
		list = append(list, shown)
	}
	return list
}

// docsTypeOf describes the type of a value.
func docsTypeOf(s *huma.Schema) (t docsType) {
	if s == nil {
		return t
	}
	values, isMap := s.AdditionalProperties.(*huma.Schema)
	switch {
	case s.Ref != "":
		return docsType{{Schema: s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]}}
	case s.Items != nil:
		return append(docsType{{Text: "list of "}}, docsTypeOf(s.Items)...)
	case isMap:
		return append(docsType{{Text: "object of "}}, docsTypeOf(values)...)
	case len(s.OneOf) > 0:
		for i, one := range s.OneOf {
			if i > 0 {
				t = append(t, docsPart{Text: " or "})
			}
			t = append(t, docsTypeOf(one)...)
		}
		return t
	case s.Format != "":
		return docsType{{Text: s.Type + " (" + s.Format + ")"}}
	}
	return docsType{{Text: s.Type}}
}
