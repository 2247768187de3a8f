package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/api/op"
)

const (
	typeTar    = "application/x-tar"
	typeBinary = "application/octet-stream"
)

// addFiles adds the routes of the files of cells.
func (s *Server) addFiles() {
	s.addFileContents()
	route(s, op.ListFiles)
	route(s, op.StatFile)
	route(s, op.MakeDir)
	route(s, op.MoveFile)
	watched := map[string]*huma.Response{"200": {Description: "The changes, as they come.", Content: map[string]*huma.MediaType{
		eventsType: eventMedia("started", "created", "modified", "removed", "renamed", "overflow", "problem"),
	}}}
	handleExchange(s, op.WatchFiles, watched, s.watchFiles)
}

type watchInput struct {
	InCell
	Body api.WatchBody
}

// watchFiles streams changes until the caller goes. The first event says that the
// watch has begun; a failure before it is answered with a problem.
func (s *Server) watchFiles(ctx context.Context, x *exchange, in *watchInput) {
	x.stream(ctx, func(ctx context.Context) {
		var events *eventStream
		stop := func() {}
		defer func() { stop() }()
		err := x.engine.WatchFiles(ctx, in.Cell, in.Body.Path, in.Body.Recursive, func(v api.FileEvent) error {
			if events == nil {
				events = newEventStream(x.w)
				stop = events.beat()
			}
			return events.send(v.Event, v)
		})
		switch {
		case err == nil || ctx.Err() != nil && events != nil:
		case events == nil:
			x.fail(err)
		default:
			_ = events.send("problem", s.problemOf(x.call, err).Problem)
		}
	})
}

// FilePath is the file that a request is about.
type FilePath struct {
	InCell
	Path string `query:"path" required:"true" doc:"Relative to the workspace, which is \".\" itself, or absolute in the cell. Bytes that are not UTF-8 are percent-encoded."`
}

type readFileInput struct {
	FilePath
	Accept string `header:"Accept" doc:"application/x-tar answers with a directory, or a file, as an archive; application/vnd.forkcell.copy as the stream that cp uses."`
	Range  string `header:"Range" doc:"Parts of the file."`
}

type writeFileInput struct {
	FilePath
	Mode string `query:"mode" pattern:"^(0?[0-7]{3})?$" doc:"Permission bits, in octal. Without it they stay; those of a new file are 0644."`
}

type removeFileInput struct {
	FilePath
	Recursive bool `query:"recursive" doc:"Remove a directory with everything in it."`
}

// addFileContents adds the routes that read, write and remove a file.
func (s *Server) addFileContents() {
	bytes := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
	handleExchange(s, op.ReadFile, map[string]*huma.Response{
		"200": {Description: "The file.", Content: map[string]*huma.MediaType{typeBinary: bytes, typeTar: bytes, typeCopy: bytes}},
		"206": {Description: "Parts of the file.", Content: map[string]*huma.MediaType{typeBinary: bytes, "multipart/byteranges": bytes}},
		"304": {Description: "The file has not changed."},
	}, s.readFile)
	write := operationOf(op.WriteFile)
	write.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{typeBinary: bytes}}
	write.Responses = map[string]*huma.Response{"200": {Description: "The file.", Content: map[string]*huma.MediaType{
		"application/json": {Schema: schemaOf[api.FileInfo](s.api.OpenAPI().Components.Schemas)},
	}}}
	registerExchange(s, write, s.writeFile)
	s.addCopies()
	handleRaw(s, op.RemoveFile, func(ctx context.Context, c *call, in *removeFileInput) (*empty, error) {
		return &empty{}, c.engine.RemoveFile(ctx, in.Cell, in.Path, in.Recursive)
	})
}

// guardContent makes a browser treat an answer from a cell as bytes.
func guardContent(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "sandbox")
	h.Set("Cache-Control", "no-store")
}

func (s *Server) readFile(ctx context.Context, x *exchange, in *readFileInput) {
	guardContent(x.w.Header())
	if strings.Contains(in.Accept, typeCopy) {
		x.sendCopy(ctx, in.Cell, in.Path)
		return
	}
	if strings.Contains(in.Accept, typeTar) {
		x.archive(typeTar, func(begin func() io.Writer) error { return x.engine.TarFiles(ctx, in.Cell, in.Path, begin) })
		return
	}
	f, err := x.engine.OpenFile(ctx, in.Cell, in.Path)
	if err != nil {
		x.fail(hintArchive(err))
		return
	}
	defer func() { _ = f.Close() }()
	x.w.Header().Set("Content-Type", typeBinary)
	http.ServeContent(&rangeProblems{ResponseWriter: timedWriter{x.w}, x: x}, x.r, "", f.Info.MTime, f.Content)
}

// hintArchive says how a directory is read.
func hintArchive(err error) error {
	told, ok := errors.AsType[*api.Error](err)
	if !ok || told.Code != api.CodeNotFile || told.Hint != "" {
		return err
	}
	hinted := *told
	hinted.Hint = "a directory is read with Accept: application/x-tar"
	return &hinted
}

// timedWriter gives the reader of an answer a limited time for each part.
type timedWriter struct{ http.ResponseWriter }

func (t timedWriter) Write(p []byte) (int, error) {
	_ = http.NewResponseController(t.ResponseWriter).SetWriteDeadline(time.Now().Add(bodyTimeout))
	return t.ResponseWriter.Write(p)
}

// rangeProblems answers a range outside of the file with a problem document.
type rangeProblems struct {
	http.ResponseWriter
	x      *exchange
	failed bool
}

func (p *rangeProblems) WriteHeader(status int) {
	if status != http.StatusRequestedRangeNotSatisfiable {
		p.ResponseWriter.WriteHeader(status)
		return
	}
	p.failed = true
	p.x.fail(&api.Error{Kind: api.Usage, Code: api.CodeRange, Message: "the range is outside of the file", Hint: "Content-Range has the size"})
}

func (p *rangeProblems) Write(b []byte) (int, error) {
	if p.failed {
		return len(b), nil
	}
	return p.ResponseWriter.Write(b)
}

func (s *Server) writeFile(ctx context.Context, x *exchange, in *writeFileInput) {
	if kind := x.r.Header.Get("Content-Type"); kind != "" && kind != typeBinary {
		x.fail(&api.Error{Kind: api.Usage, Code: api.CodeMediaType, Message: "the body has the wrong type", Hint: "send " + typeBinary})
		return
	}
	var info *api.FileInfo
	err := x.withinQuota(ctx, func(body io.Reader) (err error) {
		info, err = x.engine.WriteFile(ctx, in.Cell, in.Path, in.Mode, body)
		return err
	})
	if err != nil {
		x.fail(err)
		return
	}
	writeDocument(x.w, http.StatusOK, info)
}
