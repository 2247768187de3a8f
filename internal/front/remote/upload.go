package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/client"
	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/call"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// initByUpload makes a cell from files of this machine. Either the daemon has exactly
// what was read here, or there is no cell. What was read becomes the mirror of the cell.
func (e *Engine) initByUpload(ctx context.Context, r api.InitRequest, body api.CreateCell) (_ *api.InitResult, err error) {
	from := e.path(r.From)
	info, err := os.Stat(from)
	if err != nil {
		return nil, api.Usagef("", "--from %s: %v", quote.Path(r.From), quote.Cause(err))
	}
	if info.Mode().IsRegular() {
		return e.initByFile(ctx, from, body)
	}
	if err := e.refuseOwnHome("--from", from); err != nil {
		return nil, err
	}
	h, _, release, err := e.finishedMirrors(ctx, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	unlock, _, err := e.homes.Lock(false)
	if err != nil {
		return nil, err
	}
	defer unlock()
	read, err := h.Init(ctx, api.InitRequest{
		Name: prefixRead + strings.ToLower(rand.Text()), From: from, Backend: "clone", Runtime: r.Runtime, Exclude: r.Exclude, MountAt: r.MountAt,
	})
	if err != nil {
		return nil, err
	}
	failpoint.Hit("mirror.read")
	made, err := e.sendMirror(ctx, h, read, body)
	if err == nil {
		err = h.Rename(ctx, read.Cell, made.CellID)
	}
	if made == nil && strings.HasPrefix(read.Cell, prefixSent) && api.CodeOf(err) == api.CodeUnreachable {
		return nil, err // the daemon may have made it: a later command finishes it
	}
	if err != nil {
		undo := context.WithoutCancel(ctx)
		if made != nil {
			err = errors.Join(err, failure(e.client.Cells.Named(made.Cell).Remove(undo, true)))
		}
		return nil, errors.Join(err, h.RemoveAll(undo, []string{read.Cell}, true))
	}
	return made, nil
}

// sendMirror makes a cell from what was read into a mirror, which it names by the upload.
// It returns a cell that is not the same together with the error.
func (e *Engine) sendMirror(ctx context.Context, h Home, read *api.InitResult, body api.CreateCell) (*api.InitResult, error) {
	upload, err := e.upload(ctx, func(w io.Writer) error {
		return h.ExportTo(ctx, api.ExportRequest{Cell: read.Cell}, func() io.Writer { return w })
	})
	if err != nil {
		return nil, err
	}
	if err := h.Rename(ctx, read.Cell, prefixSent+upload.Upload); err != nil {
		return nil, err
	}
	read.Cell = prefixSent + upload.Upload
	failpoint.Hit("mirror.sent")
	body.Source, body.Exclude, body.MountAt = &api.Source{Upload: upload.Upload}, nil, read.MountAt
	made, err := e.createNamed(ctx, body, home.NameAfter(read.Source))
	if err != nil {
		return nil, err
	}
	failpoint.Hit("mirror.created")
	if made.Root != read.Root {
		return made, notTheSame(made)
	}
	made.Source, made.LeftOut, made.KeptByGit = read.Source, read.LeftOut, read.KeptByGit
	made.UnmappedIDs, made.Notes = read.UnmappedIDs, append(read.Notes, made.Notes...)
	return made, nil
}

// maxTaken is how many names in use are passed over for a cell without a name.
const maxTaken = 100

// createNamed makes a cell. One without a name gets the given one, with a number if
// that is in use.
func (e *Engine) createNamed(ctx context.Context, body api.CreateCell, name string) (*api.InitResult, error) {
	if body.Name != "" {
		return e.create(ctx, body)
	}
	body.Name = name
	for n := 2; ; n++ {
		made, err := e.create(ctx, body)
		if taken, ok := errors.AsType[*api.Error](err); !ok || taken.Code != api.CodeNameTaken || n > maxTaken {
			return made, err
		}
		body.Name = name + "-" + strconv.Itoa(n)
	}
}

// initByFile makes a cell from an archive of this machine.
func (e *Engine) initByFile(ctx context.Context, from string, body api.CreateCell) (*api.InitResult, error) {
	upload, err := e.upload(ctx, func(w io.Writer) error {
		f, err := os.Open(from)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(w, f)
		return err
	})
	if err != nil {
		return nil, err
	}
	body.Source = &api.Source{Upload: upload.Upload}
	made, err := e.create(ctx, body)
	if err == nil {
		made.Source = from
	}
	return made, err
}

// notTheSame refuses a cell whose files are not those that were sent: the daemon
// leaves out other ones.
func notTheSame(made *api.InitResult) error {
	refused := api.Refusef(api.CodeImport, "leave them out with --exclude", "the daemon does not take all files; the cell was not made")
	for _, l := range made.LeftOut {
		refused.Details = append(refused.Details, quote.Path(l.Path)+": "+l.Rule)
	}
	return refused
}

func (e *Engine) create(ctx context.Context, body client.CreateCell) (*api.InitResult, error) {
	res := new(api.InitResult)
	if err := e.ask(ctx, http.MethodPost, op.CreateCell.Path, body, res); err != nil {
		return nil, err
	}
	return res, nil
}

// upload sends an archive that write makes. One that is cut off is not kept.
func (e *Engine) upload(ctx context.Context, write func(io.Writer) error) (*api.Upload, error) {
	resp, err := e.sendStream(ctx, op.Upload.Path, "application/octet-stream", write)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	up := new(api.Upload)
	if err := readDocument(resp.Body, up); err != nil {
		return nil, err
	}
	return up, nil
}

// sendStream posts a body that write makes.
func (e *Engine) sendStream(ctx context.Context, path, kind string, write func(io.Writer) error) (*http.Response, error) {
	r, w := io.Pipe()
	defer func() { _ = r.Close() }()
	written := make(chan error, 1)
	go func() {
		err := write(w)
		_ = w.CloseWithError(err)
		written <- err
	}()
	resp, err := call.Send(ctx, e.client, call.Request{
		Method: http.MethodPost, URL: path, Body: r, Header: http.Header{"Content-Type": {kind}, "Accept": {"application/json"}},
	})
	_ = r.Close()
	if own := <-written; own != nil && !errors.Is(own, io.ErrClosedPipe) {
		if err == nil {
			_ = resp.Body.Close()
		}
		return nil, failure(own) // why the body was cut off
	}
	return asEngineError(resp, err)
}
