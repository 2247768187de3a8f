package rest

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine/caller"
)

// TestOperations finds a route for each operation and an operation for each route, and
// compares the kinds of operations with the bodies that the description has.
func TestOperations(t *testing.T) {
	t.Parallel()
	s := New(Config{Engine: func(caller.Caller) Engine { return nil }})
	s.Mount(op.MCP, http.NotFoundHandler())
	s.MountSite(http.NotFoundHandler())
	described := map[string]*huma.Operation{}
	for _, item := range s.api.OpenAPI().Paths {
		for _, def := range operationsAt(item) {
			described[def.OperationID] = def
		}
	}
	for _, a := range op.All() {
		o := a.Head()
		def := described[o.ID]
		delete(described, o.ID)
		if def == nil != (o.Kind == op.KindMounted) {
			t.Errorf("%s: described %t", o.ID, def != nil)
			continue
		}
		if def != nil && kindOf(def) != o.Kind {
			t.Errorf("%s is of the kind %d, and is described as %d", o.ID, o.Kind, kindOf(def))
		}
		path := strings.NewReplacer("{", "", "}", "").Replace(o.Path)
		r := httptest.NewRequest(o.Method, path, nil)
		if got := s.patternOf(r); got != o.Path {
			t.Errorf("%s: %s %s is served by %s", o.ID, o.Method, o.Path, got)
		}
	}
	for id := range maps.Keys(described) {
		t.Errorf("the route of %s is no operation", id)
	}
}

// kindOf returns the kind of an operation that its bodies have.
func kindOf(def *huma.Operation) op.Kind {
	answers, good := map[string]bool{}, 0
	for status, r := range def.Responses {
		if status >= "4" {
			continue
		}
		good++
		for kind := range r.Content {
			answers[kind] = true
		}
	}
	sends := func(kind string) bool { return def.RequestBody == nil || def.RequestBody.Content[kind] != nil }
	switch {
	case def.Responses["101"] != nil:
		return op.KindSocket
	case good == 0:
		return op.KindProxy
	case answers[eventsType]:
		return op.KindEvents
	case !sends("application/json"):
		return op.KindUpload
	case len(answers) > 0 && !answers["application/json"]:
		return op.KindDownload
	}
	return op.KindPlain
}
