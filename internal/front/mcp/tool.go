package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/hint"
	"github.com/forkcell/forkcell/internal/api/op"
)

// The arguments that name what a tool is about.
const (
	cellField    = "cell"
	sessionField = "session"
)

// InCell is the argument of a tool that is about one cell.
type InCell struct {
	Cell string `json:"cell,omitempty" doc:"Name of the cell." maxLength:"63"`
}

func (c *InCell) fallback(cell string) { c.Cell = cmp.Or(c.Cell, cell) }

// ofCell are arguments that name the one cell that a tool is about. fallback sets it
// if the caller left it out.
type ofCell interface{ fallback(cell string) }

// ofCellOrOther are arguments that name a cell or something else. fallbackUnlessGiven sets
// the cell if the caller left out both.
type ofCellOrOther interface{ fallbackUnlessGiven(cell string) }

// call is one call of a tool.
type call struct {
	client Client
	// authorization is the header of the request that the call came with.
	authorization string
	progress      *progress
}

// answer is the result of a tool: the document of the API, and a text for the model.
type answer struct {
	doc  any
	text string
}

// tool is a tool for callers with any rights.
type tool struct {
	op                 op.Verb // what it does, and what it needs
	name, title, about string
	needsCell          bool
	command            string // the command that it stands for, if its operation has none
	daemon             bool   // only a daemon has it
	schema             *jsonschema.Schema
	words              map[string]string // the arguments that have the operator's word
	add                func(s *sdk.Server, t *sdk.Tool, session Session, words hint.Words)
}

// pass makes a tool of an operation, whose request has the arguments. text describes the
// answer to the model.
func pass[In, Out any](o op.Op[In, Out], t tool, text func(*Out) string) tool {
	t.op = o.Verb
	return define(t, func(ctx context.Context, c *call, in In) (*answer, error) {
		doc, raw, err := carryOut(ctx, c, o, in)
		if err != nil {
			return nil, err
		}
		return &answer{raw, text(doc)}, nil
	})
}

// define gives a tool its arguments and what it does.
func define[In any](t tool, do func(context.Context, *call, In) (*answer, error)) tool {
	in := reflect.TypeFor[In]()
	t.words = wordsOf(in)
	t.schema = schemaOf(in, t.op.Path)
	t.needsCell = reflect.PointerTo(in).Implements(reflect.TypeFor[ofCell]()) || strings.Contains(t.op.Path, "{"+cellField+"}") && slices.Contains(op.PathNames(in), cellField)
	t.add = func(s *sdk.Server, def *sdk.Tool, session Session, words hint.Words) {
		sdk.AddTool(s, def, func(ctx context.Context, req *sdk.CallToolRequest, args In) (*sdk.CallToolResult, any, error) {
			if bound, ok := any(&args).(ofCell); ok {
				bound.fallback(session.Rights.Cell)
			} else if t.needsCell && op.PathValue(args, cellField) == "" {
				op.SetPath(&args, cellField, session.Rights.Cell)
			}
			if bound, ok := any(&args).(ofCellOrOther); ok {
				bound.fallbackUnlessGiven(session.Rights.Cell)
			}
			a, err := do(ctx, newCall(session, req), args)
			if err != nil {
				return failure(ctx, err, words), nil, nil
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: shorten(a.text)}}}, a.doc, nil
		})
	}
	return t
}

// definition returns the tool as a caller with some rights sees it.
func (t tool) definition(r Rights) *sdk.Tool {
	destructive, open := t.op.Effect == op.Destroys, t.op.Open
	return &sdk.Tool{
		Name: t.name, Title: t.title, Description: t.about, InputSchema: fit(t.schema, t.words, r, t.needsCell),
		Annotations: &sdk.ToolAnnotations{
			Title: t.title, ReadOnlyHint: t.op.Effect == op.Reads, DestructiveHint: &destructive,
			IdempotentHint: t.op.Idempotent || t.op.Effect == op.Reads, OpenWorldHint: &open,
		},
	}
}

func newCall(session Session, req *sdk.CallToolRequest) *call {
	c := &call{client: session.Client, progress: newProgress(req)}
	if req.Extra != nil && req.Extra.Header != nil {
		c.authorization = req.Extra.Header.Get("Authorization")
	}
	return c
}

// errorDocument is the document of an error.
type errorDocument struct {
	Code    api.Code `json:"code"`
	Message string   `json:"message"`
	Hint    string   `json:"hint"`
	Details []string `json:"details"`
}

// failure returns an error as the result of a tool, in the words of its caller, so that
// the model can act on it.
func failure(ctx context.Context, err error, words hint.Words) *sdk.CallToolResult {
	doc := errorDocument{Code: api.CodeFailed, Message: err.Error(), Details: []string{}}
	if e, ok := errors.AsType[*api.Error](err); ok {
		doc = errorDocument{Code: e.Code, Message: e.Message, Hint: words.Hint(e.Hint), Details: append(doc.Details, e.Details...)}
	} else if ctx.Err() != nil {
		doc.Code, doc.Message = api.CodeInterrupted, "the call was cancelled"
	}
	text := string(doc.Code) + ": " + doc.Message
	if len(doc.Details) > 0 {
		text += "\n" + strings.Join(doc.Details, "\n")
	}
	if doc.Hint != "" {
		text += "\nhint: " + doc.Hint
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		raw = nil // text only: the document has nothing that cannot be marshalled
	}
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: shorten(text)}}, StructuredContent: json.RawMessage(raw)}
}
