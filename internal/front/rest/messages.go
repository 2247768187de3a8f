package rest

import (
	"net/http"
	"reflect"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/forkcell/forkcell/internal/api"
)

// messageReader reads text messages of WebSockets as bodies of requests are read: by
// their schema, with names of fields as they are written, none twice and none null.
type messageReader struct {
	registry huma.Registry
	schema   *huma.Schema
}

// runMessages reads the first message of the caller of a run.
var runMessages = sync.OnceValue(func() messageReader { return newMessageReader(reflect.TypeFor[api.RunSocketBody]()) })

func newMessageReader(t reflect.Type) messageReader {
	configureHuma()
	registry := newRegistry()
	return messageReader{registry, huma.SchemaFromType(registry, t)}
}

// read reads a message into v, which is of the reader's type. Its error is the problem of
// a body with the same fault.
func (m messageReader) read(text []byte, v any) error {
	var given any
	if err := readBody(text, &given); err != nil {
		return libraryProblem(nil, http.StatusBadRequest, "malformed message", err)
	}
	res := &huma.ValidateResult{}
	huma.Validate(m.registry, m.schema, huma.NewPathBuffer([]byte{}, 0), huma.ModeWriteToServer, given, res)
	if len(res.Errors) > 0 {
		return libraryProblem(nil, http.StatusUnprocessableEntity, "validation failed", res.Errors...)
	}
	if err := readBody(text, v); err != nil {
		return libraryProblem(nil, http.StatusBadRequest, "malformed message", err)
	}
	return nil
}
