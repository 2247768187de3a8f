package remote

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"

	"github.com/forkcell/forkcell/client"
	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/quote"
)

// Stage is an engine on a home that exists for one upload. It reads a directory as it
// would for a cell of this machine: what the secret rules leave out is never sent.
type Stage interface {
	Init(ctx context.Context, r api.InitRequest) (*api.InitResult, error)
	ExportTo(ctx context.Context, r api.ExportRequest, begin func() io.Writer) error
}

// staged is the name of the cell in a stage.
const staged = "upload"

// initByUpload makes a cell from files of this machine. Either the daemon has exactly
// what was read here, or there is no cell.
func (e *Engine) initByUpload(ctx context.Context, r api.InitRequest, body api.CreateCell) (*api.InitResult, error) {
	if r.Name == "" {
		return nil, unsupported("forkcell init NAME --from DIR, then forkcell run NAME -- COMMAND", "try: %s cannot read the directory, so it cannot be refreshed", quote.Line(e.url))
	}
	from := e.path(r.From)
	info, err := os.Stat(from)
	if err != nil {
		return nil, api.Usagef("", "--from %s: %v", quote.Path(r.From), errors.Unwrap(err))
	}
	if info.Mode().IsRegular() {
		return e.initByFile(ctx, from, body)
	}
	stage, release, err := e.stage(e.caller)
	if err != nil {
		return nil, err
	}
	defer func() { _ = release() }()
	read, err := stage.Init(ctx, api.InitRequest{Name: staged, From: from, Backend: "clone", Runtime: r.Runtime, Exclude: r.Exclude, MountAt: r.MountAt})
	if err != nil {
		return nil, err
	}
	upload, err := e.upload(ctx, func(w io.Writer) error {
		return stage.ExportTo(ctx, api.ExportRequest{Cell: staged}, func() io.Writer { return w })
	})
	if err != nil {
		return nil, err
	}
	body.Source, body.Exclude, body.MountAt = &api.Source{Upload: upload.Upload}, nil, read.MountAt
	made, err := e.create(ctx, body)
	if err != nil {
		return nil, err
	}
	if made.Root != read.Root {
		return nil, e.notTheSame(ctx, made)
	}
	made.Source, made.LeftOut, made.KeptByGit = read.Source, read.LeftOut, read.KeptByGit
	made.UnmappedIDs, made.Notes = read.UnmappedIDs, append(read.Notes, made.Notes...)
	return made, nil
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

// notTheSame removes a cell whose files are not those that were sent: the daemon leaves
// out other ones.
func (e *Engine) notTheSame(ctx context.Context, made *api.InitResult) error {
	refused := api.Refusef(api.CodeImport, "leave them out with --exclude", "the daemon does not take all files; the cell was not made")
	for _, l := range made.LeftOut {
		refused.Details = append(refused.Details, quote.Path(l.Path)+": "+l.Rule)
	}
	return errors.Join(refused, failure(e.client.Cells.Named(made.Cell).Remove(context.WithoutCancel(ctx), true)))
}

func (e *Engine) create(ctx context.Context, body client.CreateCell) (*api.InitResult, error) {
	res := new(api.InitResult)
	if err := e.ask(ctx, http.MethodPost, "/v1/cells", body, res); err != nil {
		return nil, err
	}
	return res, nil
}

// upload sends an archive that write makes. One that is cut off is not kept.
func (e *Engine) upload(ctx context.Context, write func(io.Writer) error) (*api.Upload, error) {
	r, w := io.Pipe()
	defer func() { _ = r.Close() }()
	written := make(chan error, 1)
	go func() {
		err := write(w)
		_ = w.CloseWithError(err)
		written <- err
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "/v1/uploads", r)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	req.Header.Set("Accept", "application/json")
	resp, err := e.client.Do(req)
	_ = r.Close()
	if own := <-written; own != nil && !errors.Is(own, io.ErrClosedPipe) {
		err = own // why the body was cut off
	}
	if err != nil {
		return nil, failure(err)
	}
	defer resp.Body.Close()
	up := new(api.Upload)
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxDocument)).Decode(up); err != nil {
		return nil, malformed(err)
	}
	return up, nil
}
