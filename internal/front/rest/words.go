package rest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/hint"
)

// rephrase returns an error with requests and fields of the API in place of commands and
// flags. Names and commands of the caller stay as they are.
func (s *Server) rephrase(e *api.Error) *api.Error {
	own := *e
	own.Hint = s.words.Hint(e.Hint)
	if e.Code != api.CodeExec && e.Code != api.CodeNotFound {
		own.Message = s.words.Flags(e.Message)
	}
	return &own
}

// routeWords returns the words of the API: for each command the request that does the
// same.
func routeWords(doc *huma.OpenAPI) (words hint.Words) {
	for path, item := range doc.Paths {
		for _, op := range operationsAt(item) {
			if op.Extensions[commandKey] == nil {
				continue
			}
			command, _ := op.Extensions[commandKey].(string)
			words = append(words, hint.Operation{
				Command: command, Fields: requestFields(doc, op),
				Text: func(values map[string]any) string { return requestText(op.Method, path, values) },
			})
		}
	}
	slices.SortFunc(words, func(a, b hint.Operation) int { return strings.Compare(a.Command, b.Command) })
	return words
}

// requestFields returns the fields of the body and the query of a request, and whether
// each is true or false.
func requestFields(doc *huma.OpenAPI, op *huma.Operation) map[string]bool {
	fields := map[string]bool{}
	for _, p := range op.Parameters {
		if p.In == "query" {
			fields[p.Name] = p.Schema.Type == huma.TypeBoolean
		}
	}
	if op.RequestBody == nil || op.RequestBody.Content["application/json"] == nil {
		return fields
	}
	body := op.RequestBody.Content["application/json"].Schema
	if body.Ref != "" {
		body = doc.Components.Schemas.SchemaFromRef(body.Ref)
	}
	for name, p := range body.Properties {
		fields[name] = p.Type == huma.TypeBoolean
	}
	return fields
}

// requestText returns a request: its method, its path with the values that belong there,
// and the other values as query or body.
func requestText(method, path string, values map[string]any) string {
	rest, query := map[string]any{}, url.Values{}
	for name, value := range values {
		text, _ := value.(string)
		switch at := "{" + name + "}"; {
		case strings.Contains(path, at):
			path = strings.ReplaceAll(path, at, text)
		case value == true:
			query.Set(name, "true")
			rest[name] = true
		default:
			query.Set(name, text)
			rest[name] = text
		}
	}
	switch {
	case len(rest) == 0:
		return method + " " + path
	case method == http.MethodGet || method == http.MethodDelete:
		return method + " " + path + "?" + query.Encode()
	}
	body, err := json.Marshal(rest)
	if err != nil {
		return method + " " + path // strings and true can be marshalled
	}
	return method + " " + path + " " + string(body)
}
