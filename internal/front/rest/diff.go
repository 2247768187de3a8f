package rest

import (
	"bufio"
	"context"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/patch"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// differ compares states.
type differ interface {
	CountChanges(ctx context.Context, r api.DiffRequest) (int, error)
	Diff(ctx context.Context, r api.DiffRequest) (*engine.DiffResult, error)
}

type diffInput struct {
	InCell
	Run        string   `query:"run" doc:"What this run changed. Without it, and without from and to: all undecided work, as accept takes it, else what the last run changed, or a live cell since its start."`
	From       string   `query:"from" doc:"A state of the cell, or another cell."`
	To         string   `query:"to" doc:"A state of the cell, or another cell. Without it, the present state."`
	Path       []string `query:"path,explode" doc:"Only this path and what is below it."`
	SinceApply bool     `query:"since_apply" doc:"What the source directory does not have yet."`
	All        bool     `query:"all" doc:"Also the cell's home."`
	Format     string   `query:"format" enum:"json,patch,stat" default:"json" doc:"A document, a unified diff, or changed lines of each file."`
}

// addDiff adds the route that compares states.
func (s *Server) addDiff() {
	text := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
	handleExchange(s, op.Diff, map[string]*huma.Response{"200": {Description: "The changes.", Content: map[string]*huma.MediaType{
		"application/json": {Schema: schemaOf[api.DiffResult](s.api.OpenAPI().Components.Schemas)}, "text/plain": text,
	}}}, s.diff)
}

func (s *Server) diff(ctx context.Context, x *exchange, in *diffInput) {
	res, err := x.engine.Diff(ctx, api.DiffRequest{
		Cell: in.Cell, Run: in.Run, From: in.From, To: in.To, Paths: in.Path, SinceApply: in.SinceApply, All: in.All, Stream: true,
	})
	if err != nil {
		x.fail(err)
		return
	}
	out := &diffWriter{w: x.w, kind: "text/plain; charset=utf-8"}
	if in.Format == "json" {
		out.kind = "application/json"
	}
	// A failure that comes early can still be answered with a problem.
	body := bufio.NewWriterSize(out, 64<<10)
	if in.Format == "json" {
		err = patch.WriteDocument(body, diffHead(res), res.Each, func(ch tree.Change) any { return home.NewChangeJSON(ch) })
	} else {
		err = writeDiff(body, res, patch.Options{Mode: map[string]patch.Mode{"stat": patch.Stat}[in.Format]})
	}
	switch {
	case err == nil:
		out.begin()      // an answer without changes may be empty
		_ = body.Flush() // the reader is gone if it fails
	case !out.begun:
		x.fail(err)
	default:
		panic(http.ErrAbortHandler) // the reader must not take a part for the whole
	}
}

// writeDiff writes the changes as text, those that are set aside under a heading.
func writeDiff(w io.Writer, res *engine.DiffResult, opt patch.Options) error {
	if err := patch.Write(w, res.Each, res.Open, opt); err != nil || len(res.SetAside) == 0 {
		return err
	}
	if err := patch.WriteHeading(w, engine.AsideHeading); err != nil {
		return err
	}
	return patch.Write(w, res.EachAside, res.Open, opt)
}

// diffHead returns the document of a diff without its changes.
func diffHead(res *engine.DiffResult) *engine.DiffResult {
	head := *res
	head.Changes = []api.ChangeJSON{}
	return &head
}

// diffWriter sends the header with the first bytes.
type diffWriter struct {
	w     http.ResponseWriter
	kind  string
	begun bool
}

func (d *diffWriter) begin() {
	if !d.begun {
		d.begun = true
		d.w.Header().Set("Content-Type", d.kind)
		d.w.Header().Set("X-Content-Type-Options", "nosniff")
	}
}

func (d *diffWriter) Write(p []byte) (int, error) {
	d.begin()
	return d.w.Write(p)
}
