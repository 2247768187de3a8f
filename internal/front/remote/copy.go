package remote

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path"
	"path/filepath"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine/transfer"
	"github.com/forkcell/forkcell/internal/sandbox/incell/carry"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// The types of archives and of copy streams.
const (
	typeTar  = "application/x-tar"
	typeCopy = "application/vnd.forkcell.copy"
)

// CopyOut copies from a cell to this machine. What comes is written as from a live
// cell: beneath the destination, without owners and set-id bits.
func (e *Engine) CopyOut(ctx context.Context, r api.CopyRequest) (*api.CopyResult, error) {
	host, err := e.output(r.Host)
	if err != nil {
		return nil, err
	}
	if in, err := fsx.Inside(host, e.homes.Path); err != nil || in {
		if err != nil {
			return nil, api.Usagef("", "%s: %v", quote.Path(r.Host), err)
		}
		return nil, api.Refusef(api.CodeOverlap, "choose another directory", "%s is in the state directory", quote.Path(r.Host))
	}
	to, err := transfer.OpenCopyTarget(r, host)
	if err != nil {
		return nil, err
	}
	defer to.Close()
	r.Path = path.Clean(r.Path)
	resp, err := e.send(ctx, http.MethodGet, op.ReadFile.At(r.Cell)+"?"+url.Values{"path": {r.Path}}.Encode(), typeCopy, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body := io.LimitReader(resp.Body, maxArchive)
	t, err := transfer.ReceiveCopy(ctx, body, r, to)
	if err != nil {
		return nil, err
	}
	notes, err := notesAfter(resp, body)
	return &api.CopyResult{
		Cell: r.Cell, From: r.Cell + ":" + quote.UTF8(r.Path), To: quote.UTF8(r.Host), Files: t.Files, Dirs: t.Dirs, Links: t.Links, Bytes: t.Bytes,
		Notes: append(notes, t.Notes...), LeftBehind: t.LeftBehind,
	}, err
}

// notesAfter returns the notes that come after a stream.
func notesAfter(resp *http.Response, body io.Reader) ([]string, error) {
	notes := []string{}
	if _, err := io.Copy(io.Discard, body); err != nil { // the padding
		return notes, failure(err)
	}
	if text := resp.Trailer.Get(api.NotesTrailer); text != "" {
		return notes, decode([]byte(text), &notes)
	}
	return notes, nil
}

// CopyIn copies from this machine into a live cell.
func (e *Engine) CopyIn(ctx context.Context, r api.CopyRequest) (*api.CopyResult, error) {
	host, err := e.output(r.Host)
	if err == nil {
		err = e.refuseOwnHome("cp from", host)
	}
	if err != nil {
		return nil, err
	}
	dir, name, err := carry.Source(host)
	if err != nil {
		return nil, api.Usagef("", "%s: %v", quote.Path(r.Host), err)
	}
	defer dir.Close()
	var totals carry.Totals
	at := op.CopyFiles.At(r.Cell) + "?" + url.Values{"path": {r.Path}, "name": {filepath.Base(filepath.Clean(host))}}.Encode()
	resp, err := e.sendStream(ctx, at, typeCopy, func(w io.Writer) (err error) {
		totals, err = carry.Send(ctx, w, dir, name, nil)
		if err != nil && !errors.Is(err, io.ErrClosedPipe) {
			return api.Failf(api.CodeCopy, err, "read %s", quote.Path(r.Host))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var copied api.Copied
	if err := readDocument(resp.Body, &copied); err != nil {
		return nil, err
	}
	res := &api.CopyResult{
		Cell: r.Cell, From: quote.UTF8(r.Host), To: r.Cell + ":" + quote.UTF8(r.Path), Files: totals.Files, Dirs: totals.Dirs, Links: totals.Links, Bytes: totals.Bytes,
		Notes: append([]string{}, copied.Notes...),
	}
	for _, left := range totals.Skipped {
		res.Notes = append(res.Notes, quote.Path(left)+" is not a file, directory or symbolic link: left out")
	}
	return res, nil
}
