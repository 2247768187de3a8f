package remote

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Home is an engine on a home of this machine. It reads directories by the rules of
// init, and writes to them by those of apply.
type Home interface {
	reader
	writer
	ListMatching(ctx context.Context, f api.CellFilter) ([]api.CellInfo, error)
	Rename(ctx context.Context, cell, to string) error
	RemoveAll(ctx context.Context, cells []string, force bool) error
	Undelete(ctx context.Context, cell string) (*api.CellInfo, error)
	GC(ctx context.Context, r api.GCRequest) (*api.GCResult, error)
}

type reader interface {
	Init(ctx context.Context, r api.InitRequest) (*api.InitResult, error)
	Refresh(ctx context.Context, r api.RefreshRequest) (*api.RefreshResult, error)
	SourceRoots(ctx context.Context, cell string) ([]string, error)
	ForkMirror(ctx context.Context, from, name string, roots []string) error
	CommitInstructions(ctx context.Context, cell string, sources []string) error
	ExportTo(ctx context.Context, r api.ExportRequest, begin func() io.Writer) error
}

type writer interface {
	Receive(ctx context.Context, cell string, state api.ReceiveRequest, open func() (io.ReadCloser, error)) error
	ApplyReceived(ctx context.Context, state api.ReceiveRequest, r api.ApplyRequest, open func() (io.ReadCloser, error)) (*api.ApplyResult, error)
	PublishReceived(ctx context.Context, work engine.ReceivedWork, r api.PublishRequest, open func() (io.ReadCloser, error)) (*api.PublishResult, error)
	Undo(ctx context.Context, r api.UndoRequest) (*api.ApplyResult, error)
	Export(ctx context.Context, r api.ExportRequest) (*api.ExportResult, error)
}

// Homes opens homes of this machine. The functions that they return close them.
type Homes struct {
	// Path is the caller's own home.
	Path string
	// Mirrors opens the home of the mirrors of the daemon's cells. With create it is
	// made if it is missing; else a missing one is empty.
	Mirrors func(create bool) (Home, func() error, error)
	// Lock locks the home of the mirrors, which must exist. Several callers have it at
	// once, or one alone; alone it does not wait, and ok is false if others have it.
	Lock func(alone bool) (unlock func(), ok bool, err error)
	// Temporary makes a home that is removed when it is closed.
	Temporary func() (Home, func() error, error)
}

// maxArchive bounds the archive of a state.
const maxArchive = 16 << 30

// withMirror calls do with the mirror of a cell, whose name in its home is the id of
// the cell. That of a fork is made from the mirror of the cell that was forked, and gets
// the instruction files that a session of it was given. It refuses a cell that was not
// made from a directory of this machine.
func (e *Engine) withMirror(ctx context.Context, verb, name, id string, do func(h Home) error) error {
	h, mirrors, release, err := e.finishedMirrors(ctx, false)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(mirrors, func(c api.CellInfo) bool { return c.Name == id })
	if at < 0 {
		err = e.forkMirror(ctx, h, mirrors, verb, name, id)
	}
	if err == nil && (at < 0 || mirrors[at].ForkedFrom != "") {
		err = e.commitMirror(ctx, h, name, id)
	}
	if err == nil {
		err = do(h)
	}
	return errors.Join(withCellName(err, name, id), release())
}

func has(mirrors []api.CellInfo, id string) bool {
	return slices.ContainsFunc(mirrors, func(c api.CellInfo) bool { return c.Name == id })
}

// forkMirror makes the mirror of a fork.
func (e *Engine) forkMirror(ctx context.Context, h Home, mirrors []api.CellInfo, verb, name, id string) error {
	at, err := get[api.AcceptedState](ctx, e, op.GetAccepted.At(name))
	if err != nil {
		return err
	}
	from := slices.IndexFunc(at.Origins, func(origin string) bool { return has(mirrors, origin) })
	if from < 0 || at.CellID != id {
		return api.Refusef(api.CodeNoSource, "`forkcell export "+name+" -o DIR` writes its files to a new directory",
			"%s: cell %s was not made from a directory of this machine through %s", verb, name, quote.Line(e.url))
	}
	origin := at.Origins[from]
	roots, err := h.SourceRoots(ctx, origin)
	if err != nil {
		return err
	}
	q := url.Values{"root": roots}
	if at, err = get[api.AcceptedState](ctx, e, op.GetAccepted.At(name)+"?"+q.Encode()); err != nil {
		return err
	}
	return h.ForkMirror(ctx, origin, id, at.Contains)
}

// commitMirror gives the mirror of a fork the instruction files of the last commit, if
// the fork has them.
func (e *Engine) commitMirror(ctx context.Context, h Home, name, id string) error {
	at, err := get[api.AcceptedState](ctx, e, op.GetAccepted.At(name))
	if err != nil {
		return err
	}
	return h.CommitInstructions(ctx, id, at.Sources)
}

// withCellName replaces the name of a mirror in an error by that of the daemon's cell.
func withCellName(err error, name, id string) error {
	told, ok := errors.AsType[*api.Error](err)
	if !ok {
		return err
	}
	renamed := *told
	renamed.Err = err
	renamed.Message, renamed.Hint = strings.ReplaceAll(told.Message, id, name), strings.ReplaceAll(told.Hint, id, name)
	return &renamed
}

// applyHere writes what a cell of the daemon has accepted to a directory of this
// machine.
func (e *Engine) applyHere(ctx context.Context, r api.ApplyRequest) (res *api.ApplyResult, err error) {
	at, err := get[api.AcceptedState](ctx, e, op.GetAccepted.At(r.Cell))
	if err != nil {
		return nil, err
	}
	err = e.withMirror(ctx, "apply", r.Cell, at.CellID, func(h Home) error {
		roots, err := h.SourceRoots(ctx, at.CellID)
		if err != nil {
			return err
		}
		if at.Undecided != "" && roots[0] == at.Root {
			return api.Refusef(api.CodePending, "`forkcell accept "+r.Cell+" --apply` accepts and applies it", "%s: only accepted changes are applied", quote.Line(at.Undecided))
		}
		r.To = e.path(r.To)
		here := r
		here.Cell = at.CellID
		res, err = h.ApplyReceived(ctx, api.ReceiveRequest{Root: at.Root, Sources: at.Sources}, here, func() (io.ReadCloser, error) {
			return e.openState(ctx, r.Cell, at.CheckpointID, "")
		})
		return err
	})
	if res != nil {
		res.Cell, res.Checkpoint = r.Cell, at.CheckpointID
	}
	return res, err
}

// openState returns a state of the daemon, or its changes, as an archive with a bound.
// since is the state that changes are compared with; "" is of a whole state.
func (e *Engine) openState(ctx context.Context, cell, checkpoint, since string) (io.ReadCloser, error) {
	params := map[string]string{"checkpoint": checkpoint}
	if since != "" {
		params["changes"], params["since"] = "true", since
	}
	resp, err := e.send(ctx, http.MethodGet, query(op.Export.At(cell), params), typeTar, nil)
	if err != nil {
		return nil, err
	}
	body := bufio.NewReader(&io.LimitedReader{R: resp.Body, N: maxArchive})
	// What is packed could become any size.
	if head, _ := body.Peek(len(zstdMagic)); bytes.Equal(head, zstdMagic) {
		return nil, errors.Join(malformed(errors.New("a compressed archive")), resp.Body.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{body, resp.Body}, nil
}

var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// undoHere takes back the last apply to the directory of a cell.
func (e *Engine) undoHere(ctx context.Context, r api.UndoRequest) (res *api.ApplyResult, err error) {
	status, err := e.Status(ctx, r.Cell)
	if err != nil {
		return nil, err
	}
	err = e.withMirror(ctx, "apply --undo", r.Cell, status.CellID, func(h Home) error {
		here := r
		here.Cell = status.CellID
		res, err = h.Undo(ctx, here)
		return err
	})
	if res != nil {
		res.Cell = r.Cell
	}
	return res, err
}

// acceptHere accepts a run, and writes it to a directory of this machine. A refused
// apply does not change the decision.
func (e *Engine) acceptHere(ctx context.Context, r api.AcceptRequest) (*api.AcceptResult, error) {
	apply := r.Applier
	r.Apply, r.Applier = false, api.ApplyRequest{}
	res, err := asEngineError(e.client.Cells.Named(r.Cell).Accept(ctx, r))
	if err != nil {
		return res, err
	}
	apply.Cell = r.Cell
	if res.Applied, err = e.applyHere(ctx, apply); err != nil {
		return res, engine.AfterAccept(err, r.Cell)
	}
	return res, nil
}

// refreshFromHere brings the present files of a directory of this machine into the
// cell that was made from it.
func (e *Engine) refreshFromHere(ctx context.Context, r api.RefreshRequest) (res *api.RefreshResult, err error) {
	status, err := e.Status(ctx, r.Cell)
	if err != nil {
		return nil, err
	}
	id := status.CellID
	err = e.withMirror(ctx, "refresh", r.Cell, id, func(h Home) error {
		had, err := h.SourceRoots(ctx, id)
		if err != nil {
			return err
		}
		// The mirror only reads: the daemon's cell is the one to merge with.
		read, err := h.Refresh(ctx, api.RefreshRequest{Cell: id, OnConflict: "ours"})
		if err != nil {
			return err
		}
		upload, err := e.upload(ctx, func(w io.Writer) error {
			return h.ExportTo(ctx, api.ExportRequest{Cell: id, Checkpoint: "applied"}, func() io.Writer { return w })
		})
		if err != nil {
			return err
		}
		res, err = asEngineError(e.client.Cells.Named(r.Cell).Refresh(ctx, api.RefreshRequest{OnConflict: r.OnConflict, Upload: upload.Upload, BasedOn: had, Wait: r.Wait}))
		if err == nil {
			res.LeftOut = read.LeftOut
		}
		return err
	})
	return res, err
}

// appliedHere returns the state of a cell that its directory on this machine has, or "" if
// only the daemon may know it.
func (e *Engine) appliedHere(ctx context.Context, name string) (state string, err error) {
	if e.client.Local() {
		return "", nil
	}
	status, err := e.Status(ctx, name)
	if err != nil {
		return "", err
	}
	h, release, err := e.homes.Mirrors(false)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, release()) }()
	mirrors, err := h.ListMatching(ctx, api.CellFilter{})
	if err != nil || !has(mirrors, status.CellID) {
		return "", err
	}
	roots, err := h.SourceRoots(ctx, status.CellID)
	if err != nil {
		return "", err
	}
	states, err := pages[api.CheckpointInfo](ctx, e, op.ListCheckpoints.At(name))
	for _, s := range states { // the oldest first
		if s.Root == roots[0] && !s.Freed {
			state = s.CheckpointID
		}
	}
	return state, err
}

// mirrorsAt returns the directories that cells of the daemon were made from through
// this client, by the names that the cells have there now.
func (e *Engine) mirrorsAt(ctx context.Context) (sources map[string]string, err error) {
	h, release, err := e.homes.Mirrors(false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	mirrors, err := h.ListMatching(ctx, api.CellFilter{})
	if err != nil || len(mirrors) == 0 {
		return nil, err
	}
	cells, err := e.ListMatching(ctx, api.CellFilter{})
	sources = map[string]string{}
	for _, m := range mirrors {
		if m.ForkedFrom != "" {
			continue // the cell of a directory is the one that was made from it
		}
		if at := slices.IndexFunc(cells, func(c api.CellInfo) bool { return c.CellID == m.Name }); at >= 0 {
			sources[cells[at].Name] = m.Source
		}
	}
	return sources, err
}

// removeMirrors removes the mirrors of cells that were removed, by their ids.
func (e *Engine) removeMirrors(ctx context.Context, ids []string) (err error) {
	h, mirrors, release, err := e.finishedMirrors(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	gone := slices.DeleteFunc(ids, func(id string) bool { return !has(mirrors, id) })
	if len(gone) == 0 {
		return nil
	}
	return h.RemoveAll(ctx, gone, true)
}
