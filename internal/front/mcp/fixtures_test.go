package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// fixtures are the tools, resources and prompts that the conformance suite calls. Its
// descriptions of the scenarios say what each of them returns.
type fixtures struct {
	picture []byte // in PNG
	sound   []byte // in WAV
}

func newFixtures(t *testing.T) *fixtures {
	t.Helper()
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
		t.Fatal(err)
	}
	return &fixtures{picture.Bytes(), silence()}
}

// silence returns a sound without samples: one channel of 8 bits, 8000 times a second.
func silence() []byte {
	return []byte("RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data\x00\x00\x00\x00")
}

// server returns the server of a session, with the fixtures besides.
func (f *fixtures) server(c *Catalog, session Session, o *sdk.ServerOptions) *sdk.Server {
	if o == nil {
		o = &sdk.ServerOptions{}
	}
	o.Capabilities = &sdk.ServerCapabilities{Logging: &sdk.LoggingCapabilities{}} //nolint:staticcheck // the suite tests it
	o.SubscribeHandler = func(context.Context, *sdk.SubscribeRequest) error { return nil }
	o.UnsubscribeHandler = func(context.Context, *sdk.UnsubscribeRequest) error { return nil }
	o.CompletionHandler = func(_ context.Context, req *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
		return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{req.Params.Argument.Value + "is"}, Total: 1}}, nil
	}
	s := c.Server(session, o)
	f.addContents(s)
	addTalk(s)
	addQuestions(s)
	f.addDocuments(s)
	f.addPrompts(s)
	return s
}

type nothing struct{}

// fixture adds a tool.
func fixture[In any](s *sdk.Server, name string, do func(context.Context, *sdk.CallToolRequest, In) ([]sdk.Content, error)) {
	sdk.AddTool(s, &sdk.Tool{Name: name, Description: "A tool of the conformance suite."}, func(ctx context.Context, req *sdk.CallToolRequest, in In) (*sdk.CallToolResult, any, error) {
		content, err := do(ctx, req, in)
		return &sdk.CallToolResult{Content: content}, nil, err
	})
}

func say(format string, args ...any) []sdk.Content {
	return []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, args...)}}
}

// addContents adds tools that return each kind of content, and one that fails.
func (f *fixtures) addContents(s *sdk.Server) {
	embedded := func(uri, kind, text string) sdk.Content {
		return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: uri, MIMEType: kind, Text: text}}
	}
	picture := &sdk.ImageContent{Data: f.picture, MIMEType: "image/png"}
	for name, content := range map[string][]sdk.Content{
		"test_simple_text":       say("This is a simple text response for testing."),
		"test_image_content":     {picture},
		"test_audio_content":     {&sdk.AudioContent{Data: f.sound, MIMEType: "audio/wav"}},
		"test_embedded_resource": {embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")},
		"test_multiple_content_types": append(say("Multiple content types test:"), picture,
			embedded("test://mixed-content-resource", jsonType, `{"test":"data","value":123}`)),
	} {
		fixture(s, name, func(context.Context, *sdk.CallToolRequest, nothing) ([]sdk.Content, error) { return content, nil })
	}
	fixture(s, "test_error_handling", func(context.Context, *sdk.CallToolRequest, nothing) ([]sdk.Content, error) {
		return nil, errors.New("This tool intentionally returns an error for testing")
	})
	s.AddTool(&sdk.Tool{Name: "json_schema_2020_12_tool", Description: "Tool with JSON Schema 2020-12 features", InputSchema: json.RawMessage(`{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": false,
		"$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
		"properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}}
	}`)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{}, nil
	})
}

// addTalk adds tools that send something before they return.
func addTalk(s *sdk.Server) {
	fixture(s, "test_tool_with_logging", func(ctx context.Context, req *sdk.CallToolRequest, _ nothing) ([]sdk.Content, error) {
		for _, text := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
			//nolint:staticcheck // the suite tests it
			if err := req.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: text}); err != nil {
				return nil, err
			}
		}
		return say("logged"), nil
	})
	fixture(s, "test_tool_with_progress", func(ctx context.Context, req *sdk.CallToolRequest, _ nothing) ([]sdk.Content, error) {
		for _, done := range []float64{0, 50, 100} {
			token := req.Params.GetProgressToken()
			if err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: done, Total: 100}); err != nil {
				return nil, err
			}
		}
		return say("done"), nil
	})
	fixture(s, "test_reconnection", func(_ context.Context, req *sdk.CallToolRequest, _ nothing) ([]sdk.Content, error) {
		req.Extra.CloseSSEStream(sdk.CloseSSEStreamArgs{RetryAfter: 100 * time.Millisecond})
		return say("reconnected"), nil
	})
}

// addQuestions adds tools that ask the client.
func addQuestions(s *sdk.Server) {
	type promptArgs struct {
		Prompt string `json:"prompt"`
	}
	fixture(s, "test_sampling", func(ctx context.Context, req *sdk.CallToolRequest, in promptArgs) ([]sdk.Content, error) {
		//nolint:staticcheck // the suite tests it
		res, err := req.Session.CreateMessage(ctx, &sdk.CreateMessageParams{MaxTokens: 100, Messages: []*sdk.SamplingMessage{
			{Role: "user", Content: &sdk.TextContent{Text: in.Prompt}},
		}})
		if err != nil {
			return nil, err
		}
		answer, ok := res.Content.(*sdk.TextContent)
		if !ok {
			return nil, fmt.Errorf("the answer is a %T", res.Content)
		}
		return say("LLM response: %s", answer.Text), nil
	})
	type messageArgs struct {
		Message string `json:"message"`
	}
	fixture(s, "test_elicitation", func(ctx context.Context, req *sdk.CallToolRequest, in messageArgs) ([]sdk.Content, error) {
		return ask(ctx, req, in.Message, `{"type": "object", "required": ["username", "email"], "properties": {
			"username": {"type": "string", "description": "User's response"}, "email": {"type": "string", "description": "User's email address"}
		}}`)
	})
	for name, schema := range map[string]string{
		"test_elicitation_sep1034_defaults": `{"type": "object", "properties": {
			"name": {"type": "string", "default": "John Doe"}, "age": {"type": "integer", "default": 30}, "score": {"type": "number", "default": 95.5},
			"status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"}, "verified": {"type": "boolean", "default": true}
		}}`,
		"test_elicitation_sep1330_enums": `{"type": "object", "properties": {
			"untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
			"titledSingle": {"type": "string", "oneOf": [{"const": "value1", "title": "First Option"}, {"const": "value2", "title": "Second Option"}, {"const": "value3", "title": "Third Option"}]},
			"legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]},
			"untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
			"titledMulti": {"type": "array", "items": {"anyOf": [{"const": "value1", "title": "First Choice"}, {"const": "value2", "title": "Second Choice"}, {"const": "value3", "title": "Third Choice"}]}}
		}}`,
	} {
		fixture(s, name, func(ctx context.Context, req *sdk.CallToolRequest, _ nothing) ([]sdk.Content, error) {
			return ask(ctx, req, "Please fill in the form.", schema)
		})
	}
}

// ask asks the user of the client to fill in a form.
func ask(ctx context.Context, req *sdk.CallToolRequest, message, schema string) ([]sdk.Content, error) {
	res, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: message, RequestedSchema: json.RawMessage(schema)})
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(res.Content)
	return say("Elicitation completed: action=%s, content=%s", res.Action, content), err
}

// addDocuments adds the resources.
func (f *fixtures) addDocuments(s *sdk.Server) {
	add := func(uri, kind string, contents sdk.ResourceContents) {
		contents.URI, contents.MIMEType = uri, kind
		s.AddResource(&sdk.Resource{URI: uri, Name: strings.TrimPrefix(uri, "test://"), Description: "A resource of the conformance suite.", MIMEType: kind},
			func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
				return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{&contents}}, nil
			})
	}
	add("test://static-text", "text/plain", sdk.ResourceContents{Text: "This is the content of the static text resource."})
	add("test://static-binary", "image/png", sdk.ResourceContents{Blob: f.picture})
	add("test://watched-resource", "text/plain", sdk.ResourceContents{Text: "watched"})
	s.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "test://template/{id}/data", Name: "template", MIMEType: jsonType},
		func(_ context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			id := strings.TrimSuffix(strings.TrimPrefix(req.Params.URI, "test://template/"), "/data")
			text := fmt.Sprintf(`{"id":%q,"templateTest":true,"data":"Data for ID: %s"}`, id, id)
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: req.Params.URI, MIMEType: jsonType, Text: text}}}, nil
		})
}

// addPrompts adds the prompts.
func (f *fixtures) addPrompts(s *sdk.Server) {
	add := func(name string, args []string, contents func(map[string]string) []sdk.Content) {
		p := &sdk.Prompt{Name: name, Description: "A prompt of the conformance suite."}
		for _, arg := range args {
			p.Arguments = append(p.Arguments, &sdk.PromptArgument{Name: arg, Description: "An argument.", Required: true})
		}
		s.AddPrompt(p, func(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			res := &sdk.GetPromptResult{}
			for _, c := range contents(req.Params.Arguments) {
				res.Messages = append(res.Messages, &sdk.PromptMessage{Role: "user", Content: c})
			}
			return res, nil
		})
	}
	add("test_simple_prompt", nil, func(map[string]string) []sdk.Content { return say("This is a simple prompt for testing.") })
	add("test_prompt_with_arguments", []string{"arg1", "arg2"}, func(args map[string]string) []sdk.Content {
		return say("Prompt with arguments: arg1='%s', arg2='%s'", args["arg1"], args["arg2"])
	})
	add("test_prompt_with_embedded_resource", []string{"resourceUri"}, func(args map[string]string) []sdk.Content {
		r := &sdk.ResourceContents{URI: args["resourceUri"], MIMEType: "text/plain", Text: "Embedded resource content for testing."}
		return append([]sdk.Content{&sdk.EmbeddedResource{Resource: r}}, say("Please process the embedded resource above.")...)
	})
	add("test_prompt_with_image", nil, func(map[string]string) []sdk.Content {
		return append([]sdk.Content{&sdk.ImageContent{Data: f.picture, MIMEType: "image/png"}}, say("Please analyze the image above.")...)
	})
}
