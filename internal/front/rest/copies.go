package rest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/api/op"
)

// typeCopy is the type of a copy stream, which has holes and what is dropped.
const typeCopy = "application/vnd.forkcell.copy"

// maxNotes bounds the notes of a copy. They are in a trailer of the answer.
const maxNotes = 100

// addCopies adds the route that copies into a live cell. Copies out of a cell are a form
// of reading a file.
func (s *Server) addCopies() {
	def := operationOf(op.CopyFiles)
	def.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		typeCopy: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
	}}
	def.Responses = map[string]*huma.Response{"200": {Description: "It was copied.", Content: map[string]*huma.MediaType{
		"application/json": {Schema: schemaOf[api.Copied](s.api.OpenAPI().Components.Schemas)},
	}}}
	registerExchange(s, def, func(ctx context.Context, x *exchange, in *copyFilesInput) {
		if kind := x.r.Header.Get("Content-Type"); kind != typeCopy {
			x.fail(&api.Error{Kind: api.Usage, Code: api.CodeMediaType, Message: "the body has the wrong type", Hint: "send " + typeCopy})
			return
		}
		var notes []string
		err := x.withinQuota(ctx, func(body io.Reader) (err error) {
			notes, err = x.engine.TakeCopy(ctx, in.Cell, in.Path, in.Name, body)
			return err
		})
		if err != nil {
			x.fail(err)
			return
		}
		writeDocument(x.w, http.StatusOK, api.Copied{Notes: notes})
	})
}

type copyFilesInput struct {
	FilePath
	Name string `query:"name" required:"true" minLength:"1" maxLength:"255" doc:"Name of the copy if path is a directory."`
}

// sendCopy answers with a copy stream. The notes about it come after it.
func (x *exchange) sendCopy(ctx context.Context, cell, path string) {
	x.archive(typeCopy, func(begin func() io.Writer) error {
		notes, err := x.engine.SendCopy(ctx, cell, path, func() io.Writer {
			x.w.Header().Set("Trailer", api.NotesTrailer)
			return begin()
		})
		if err != nil {
			return err
		}
		text, err := json.Marshal(notes[:min(len(notes), maxNotes)])
		x.w.Header().Set(api.NotesTrailer, string(text))
		return err
	})
}
