package remote

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/archive"
	"github.com/forkcell/forkcell/internal/cell"
)

// Export writes a state to an archive or a directory of this machine.
func (e *Engine) Export(ctx context.Context, r api.ExportRequest) (*api.ExportResult, error) {
	if r.WithMemory {
		return nil, homeOnly("export --with-memory")
	}
	at, err := e.output(r.Output)
	if err == nil {
		err = e.refuseOwnHome("-o", at)
	}
	if err != nil {
		return nil, err
	}
	res, err := e.exported(ctx, r)
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(r.Output, ".tar") && !archive.IsZstd(r.Output) {
		return res, e.exportDir(ctx, r, at, res)
	}
	body, err := e.openState(ctx, r.Cell, res.CheckpointID, r.Changes)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return res, cell.WriteOutput(at, func(w io.Writer) error { return writeArchive(w, body, res) })
}

// exported describes the state to export: that which is named, or the present one.
func (e *Engine) exported(ctx context.Context, r api.ExportRequest) (*api.ExportResult, error) {
	// The daemon knows what a name of a state means. A state equals itself.
	ref := r.Checkpoint
	if ref == "" {
		ref = "HEAD"
	}
	same, err := get[api.DiffResult](ctx, e, query(inCell(r.Cell, "/diff"), map[string]string{"from": ref, "to": ref}))
	if err != nil {
		return nil, err
	}
	res := &api.ExportResult{Cell: r.Cell, CheckpointID: same.To, Output: r.Output, Deleted: []string{}, Notes: []string{}}
	states, err := pages[api.CheckpointInfo](ctx, e, inCell(r.Cell, "/checkpoints"))
	if err != nil {
		return nil, err
	}
	for _, s := range states {
		if s.CheckpointID == res.CheckpointID {
			res.Root = s.Root
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

// received is the name of a cell in a temporary home.
const received = "state"

// exportDir writes a state to a directory by the rules of any other export, through a
// home that exists for it. What the directory of the cell had is not known here: every
// control file counts as changed by the cell.
func (e *Engine) exportDir(ctx context.Context, r api.ExportRequest, at string, res *api.ExportResult) (err error) {
	if r.Changes {
		return unsupported("-o FILE.tar writes an archive", "export: changes of a daemon's cell cannot be written to a directory")
	}
	h, release, err := e.homes.Temporary()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if _, err := h.Init(ctx, api.InitRequest{Name: received, Empty: true, Backend: "clone", Runtime: "native"}); err != nil {
		return err
	}
	err = h.Receive(ctx, received, api.ReceiveRequest{Root: res.Root}, func() (io.ReadCloser, error) {
		return e.openState(ctx, r.Cell, res.CheckpointID, false)
	})
	if err != nil {
		return err
	}
	written, err := h.Export(ctx, api.ExportRequest{Cell: received, Output: at, AllowControl: r.AllowControl, AllowSetuid: r.AllowSetuid})
	if err != nil {
		return err
	}
	res.Files, res.Bytes, res.Notes = written.Files, written.Bytes, append(res.Notes, written.Notes...)
	return nil
}

// writeArchive writes an archive, compressed if its name says so.
func writeArchive(w io.Writer, r io.Reader, res *api.ExportResult) error {
	if !archive.IsZstd(res.Output) {
		return copyArchive(w, r, res)
	}
	packed, err := archive.Compress(w)
	if err != nil {
		return err
	}
	return errors.Join(copyArchive(packed, r, res), packed.Close())
}

// copyArchive copies an archive, and counts what is in it. An archive that does not
// end as one does is refused.
func copyArchive(w io.Writer, r io.Reader, res *api.ExportResult) error {
	entries := tar.NewReader(io.TeeReader(r, w))
	for {
		h, err := entries.Next()
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
