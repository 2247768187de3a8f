package remote

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/cell"
	"github.com/forkcell/forkcell/internal/quote"
)

// Export writes a state to an archive of this machine.
func (e *Engine) Export(ctx context.Context, r api.ExportRequest) (*api.ExportResult, error) {
	if !strings.HasSuffix(r.Output, ".tar") {
		return nil, unsupported("-o FILE.tar writes an archive", "export: a daemon sends archives without compression; %s is none", quote.Path(r.Output))
	}
	if len(r.AllowControl) > 0 || r.AllowSetuid {
		return nil, unsupported("leave them out", "export: --allow-control and --allow-setuid are for directories; an archive has everything")
	}
	at, err := e.output(r.Output)
	if err != nil {
		return nil, err
	}
	res, err := e.exported(ctx, r)
	if err != nil {
		return nil, err
	}
	params := map[string]string{"checkpoint": res.CheckpointID}
	if r.Changes {
		params["changes"] = "true"
	}
	resp, err := e.send(ctx, http.MethodGet, query(inCell(r.Cell, "/export"), params), "application/x-tar", nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return res, cell.WriteOutput(at, func(w io.Writer) error { return copyArchive(w, resp.Body, res) })
}

// exported describes the state to export: that which is named, or the present one.
func (e *Engine) exported(ctx context.Context, r api.ExportRequest) (*api.ExportResult, error) {
	status, err := e.Status(ctx, r.Cell)
	if err != nil {
		return nil, err
	}
	res := &api.ExportResult{
		Cell: status.Name, CheckpointID: status.Head, Root: status.Root, Output: r.Output, Deleted: []string{}, Notes: []string{},
	}
	if r.Checkpoint != "" {
		res.CheckpointID, res.Root = r.Checkpoint, ""
		states, err := pages[api.CheckpointInfo](ctx, e, inCell(r.Cell, "/checkpoints"))
		if err != nil {
			return nil, err
		}
		for _, s := range states {
			if s.CheckpointID == r.Checkpoint || strings.HasPrefix(s.CheckpointID, r.Checkpoint) || slices.Contains(s.Names, r.Checkpoint) {
				res.CheckpointID, res.Root = s.CheckpointID, s.Root
			}
		}
	}
	if r.Changes {
		diff, err := e.Diff(ctx, api.DiffRequest{Cell: r.Cell, From: "applied", To: res.CheckpointID})
		if err != nil {
			return nil, err
		}
		for _, ch := range diff.Raw {
			if ch.New == nil {
				res.Deleted = append(res.Deleted, ch.Path)
			}
		}
	}
	return res, nil
}

// copyArchive copies an archive, and counts what is in it. An archive that does not
// end as one does is refused.
func copyArchive(w io.Writer, r io.Reader, res *api.ExportResult) error {
	archive := tar.NewReader(io.TeeReader(r, w))
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return malformed(err)
		}
		if h.Typeflag == tar.TypeReg || h.Typeflag == tar.TypeLink {
			res.Files++
			res.Bytes += h.Size
		}
	}
	_, err := io.Copy(w, r) // the padding
	return failure(err)
}
