package remote

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine/transfer"
	"github.com/forkcell/forkcell/internal/storage/archive"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// Export writes a state to an archive or a directory of this machine.
func (e *Engine) Export(ctx context.Context, r api.ExportRequest) (*api.ExportResult, error) {
	if r.WithMemory {
		return nil, refuse("export --with-memory")
	}
	at, err := e.output(r.Output)
	if err == nil {
		err = e.refuseOwnHome("-o", at)
	}
	if err != nil {
		return nil, err
	}
	dir := !strings.HasSuffix(r.Output, ".tar") && !archive.IsZstd(r.Output)
	if r.Changes && r.Since == "" {
		if r.Since, err = e.appliedHere(ctx, r.Cell); err != nil {
			return nil, err
		}
		r.Since = cmp.Or(r.Since, "applied")
	}
	res, err := e.exported(ctx, r)
	if err == nil && (r.Changes || dir && e.client.Local()) {
		r.Changed, err = e.changedPaths(ctx, r, res)
	}
	if err != nil {
		return nil, err
	}
	if dir {
		return res, e.exportDir(ctx, r, at, res)
	}
	body, err := e.openState(ctx, r.Cell, res.CheckpointID, r.Since)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return res, transfer.WriteOutput(at, func(w io.Writer) error { return writeArchive(w, body, res) })
}

// exported describes the state to export: that which is named, or the present one.
func (e *Engine) exported(ctx context.Context, r api.ExportRequest) (*api.ExportResult, error) {
	// The daemon knows what a name of a state means. A state equals itself.
	ref := r.Checkpoint
	if ref == "" {
		ref = "HEAD"
	}
	same, err := get[api.DiffResult](ctx, e, query(op.Diff.At(r.Cell), map[string]string{"from": ref, "to": ref}))
	if err != nil {
		return nil, err
	}
	res := &api.ExportResult{Cell: r.Cell, CheckpointID: same.To, Output: r.Output, Deleted: []string{}, Notes: []string{}}
	states, err := pages[api.CheckpointInfo](ctx, e, op.ListCheckpoints.At(r.Cell))
	if err != nil {
		return nil, err
	}
	for _, s := range states {
		if s.CheckpointID == res.CheckpointID {
			res.Root = s.Root
		}
	}
	return res, nil
}

// changedPaths returns the paths that the state to export changed, and is never nil. Of an
// export of changes it lists the deleted ones in the result.
func (e *Engine) changedPaths(ctx context.Context, r api.ExportRequest, res *api.ExportResult) ([]string, error) {
	diff, err := e.Diff(ctx, api.DiffRequest{Cell: r.Cell, From: cmp.Or(r.Since, "applied"), To: res.CheckpointID})
	if err != nil {
		return nil, err
	}
	changed, deleted := splitChanges(append(diff.Raw, diff.RawAside...))
	if r.Changes {
		res.Deleted = deleted
	}
	return changed, nil
}

// splitChanges returns the paths that changes leave, and those that they take away. Neither
// is nil.
func splitChanges(changes []tree.Change) (changed, deleted []string) {
	changed, deleted = []string{}, []string{}
	for _, ch := range changes {
		switch {
		case ch.New == nil:
			deleted = append(deleted, ch.Path)
			continue
		case ch.OldPath != "":
			deleted = append(deleted, ch.OldPath)
		}
		changed = append(changed, ch.Path)
	}
	slices.Sort(deleted)
	return changed, deleted
}

// received is the name of a cell in a temporary home.
const received = "state"

// exportDir writes a state to a directory by the rules of any other export, through a
// home that exists for it. A daemon on another machine cannot prove what the cell left as
// it was: its cell may have changed every control file.
func (e *Engine) exportDir(ctx context.Context, r api.ExportRequest, at string, res *api.ExportResult) (err error) {
	h, release, err := e.homes.Temporary()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if _, err := h.Init(ctx, api.InitRequest{Name: received, Empty: true, Backend: "clone", Runtime: api.RuntimeNative}); err != nil {
		return err
	}
	err = h.Receive(ctx, received, api.ReceiveRequest{Root: res.Root}, func() (io.ReadCloser, error) {
		return e.openState(ctx, r.Cell, res.CheckpointID, "")
	})
	if err != nil {
		return err
	}
	written, err := h.Export(ctx, api.ExportRequest{
		Cell: received, Output: at, Changes: r.Changes, Foreign: true, Changed: r.Changed, AllowControl: r.AllowControl, AllowSetuid: r.AllowSetuid,
	})
	if err != nil {
		return err
	}
	res.Files, res.Bytes, res.Notes = written.Files, written.Bytes, append(res.Notes, written.Notes...)
	res.LeftBehind = written.LeftBehind
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
