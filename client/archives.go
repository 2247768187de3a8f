package client

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/forkcell/forkcell/internal/api/op"
)

const (
	typeTar   = "application/x-tar"
	typeBytes = "application/octet-stream"
)

// ExportState selects what Export reads.
type ExportState struct {
	Checkpoint string // without it, the present state
	Changes    bool   // only what differs from the last applied state
}

// Export returns a state as a tar archive. The caller closes it.
func (c *Cell) Export(ctx context.Context, s ExportState) (io.ReadCloser, error) {
	query := url.Values{}
	if s.Checkpoint != "" {
		query.Set("checkpoint", s.Checkpoint)
	}
	if s.Changes {
		query.Set("changes", "true")
	}
	return c.client.open(ctx, op.Export.At(c.Name)+"?"+query.Encode(), func(in *call) { in.header.Set("Accept", typeTar) })
}

// Upload sends a tar archive, which may be compressed by zstd, for the source of a new
// cell: Source{Upload: u.Upload}. One that is not used is removed after an hour.
func (c *Client) Upload(ctx context.Context, archive io.Reader) (*Upload, error) {
	in, err := newCall(http.MethodPost, op.Upload.Path, nil, nil)
	if err != nil {
		return nil, err
	}
	in.stream = archive
	in.header.Set("Content-Type", typeTar)
	return receive[Upload](ctx, c, in)
}

// open sends a GET and returns the body of its answer.
func (c *Client) open(ctx context.Context, path string, set CallOption) (io.ReadCloser, error) {
	in, err := newCall(http.MethodGet, path, nil, []CallOption{set})
	if err != nil {
		return nil, err
	}
	resp, err := c.send(ctx, in)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
