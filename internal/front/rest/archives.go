package rest

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/api/op"
)

// archivist keeps uploads, and writes states as archives.
type archivist interface {
	Upload(ctx context.Context, r io.Reader) (*api.Upload, error)
	UploadedBytes() (int64, error)
	AnswerBytes() (int64, error)
	ExpireUploads(age time.Duration) error
	ExportTo(ctx context.Context, r api.ExportRequest, begin func() io.Writer) error
	Checkpoints(ctx context.Context, cell string) ([]api.CheckpointInfo, error)
}

const (
	uploadLife  = time.Hour
	uploadSweep = 10 * time.Minute
)

// addArchives adds the routes of uploads, exports and the list of states.
func (s *Server) addArchives() {
	archive := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
	up := operationOf(op.Upload)
	up.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{typeTar: archive, "application/zstd": archive, typeBinary: archive}}
	up.Responses = map[string]*huma.Response{"201": {Description: "The upload.", Content: map[string]*huma.MediaType{
		"application/json": {Schema: schemaOf[api.Upload](s.api.OpenAPI().Components.Schemas)},
	}}}
	registerExchange(s, up, func(ctx context.Context, x *exchange, _ *struct{}) {
		err := s.roomOnDisk(ctx, x.call)
		var res *api.Upload
		if err == nil {
			room := func() error { return s.roomOnDisk(ctx, x.call) }
			res, err = x.engine.Upload(ctx, &meteredReader{r: newUpload(x), check: room})
		}
		if err != nil {
			x.fail(err)
			return
		}
		writeDocument(x.w, http.StatusCreated, res)
	})
	handleExchange(s, op.Export, map[string]*huma.Response{"200": {Description: "The archive.", Content: map[string]*huma.MediaType{typeTar: archive}}}, s.export)
	handle(s, op.ListCheckpoints, func(ctx context.Context, c *call, in *listCheckpointsInput) (*api.List[api.CheckpointInfo], error) {
		all, err := c.engine.Checkpoints(ctx, in.Cell)
		if err != nil {
			return nil, err
		}
		return cut(in.Page, all, func(i api.CheckpointInfo) string { return timeKey(i.CreatedAt, i.CheckpointID) })
	})
}

type listCheckpointsInput struct {
	InCell
	Page
}

type exportInput struct {
	InCell
	Checkpoint string `query:"checkpoint" doc:"The state; without it, the present one."`
	Changes    bool   `query:"changes" doc:"Only what differs from the last applied state."`
	Since      string `query:"since" doc:"With changes: only what differs from this state."`
}

func (s *Server) export(ctx context.Context, x *exchange, in *exportInput) {
	guardContent(x.w.Header())
	x.archive(typeTar, func(begin func() io.Writer) error {
		return x.engine.ExportTo(ctx, api.ExportRequest{Cell: in.Cell, Checkpoint: in.Checkpoint, Changes: in.Changes, Since: in.Since}, begin)
	})
}

// archive answers with an archive of a type that write makes. A failure after its beginning
// breaks the connection off, so that the archive cannot pass for whole.
func (x *exchange) archive(kind string, write func(begin func() io.Writer) error) {
	begun := false
	err := write(func() io.Writer {
		begun = true
		x.w.Header().Set("Content-Type", kind)
		x.w.WriteHeader(http.StatusOK)
		return timedWriter{x.w}
	})
	switch {
	case err == nil:
	case !begun:
		x.fail(err)
	default:
		x.server.logger.Warn("an archive was cut off", "request", x.id, "error", err)
		panic(http.ErrAbortHandler)
	}
}

// expireUploads removes unused uploads from time to time, until the daemon stops.
func (s *Server) expireUploads() {
	engine := s.actFor(&call{}, nil, nil)
	ticker := time.NewTicker(uploadSweep)
	defer ticker.Stop()
	for {
		select {
		case <-s.open.Done():
			return
		case <-ticker.C:
			if err := engine.ExpireUploads(uploadLife); err != nil {
				s.logger.Error("remove unused uploads", "error", err)
			}
		}
	}
}
