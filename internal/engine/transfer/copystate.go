package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/sandbox/incell/carry"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// copyState copies out of a cell's head.
func (e *Exchange) copyState(ctx context.Context, c store.Cell, req api.CopyRequest, to *CopyTarget) (*api.CopyResult, error) {
	var head store.Checkpoint
	err := e.View(func(tx *store.Tx) (err error) {
		head, err = tx.Checkpoint(c.Head)
		return err
	})
	if err != nil {
		return nil, err
	}
	s := &stateSource{e: e, ctx: ctx, cell: c, at: head, lost: newHostExport(false)}
	if err := s.find(req.Path); err != nil {
		return nil, err
	}
	from, into := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := s.send(into)
		_ = into.CloseWithError(err)
		sent <- err
	}()
	t, err := receiveCopy(ctx, from, req, to, nil)
	_ = from.CloseWithError(io.ErrClosedPipe)
	if sendErr := <-sent; sendErr != nil && !errors.Is(sendErr, io.ErrClosedPipe) {
		return nil, api.Failf(api.CodeCopy, sendErr, "read %s", quote.Path(req.Path))
	}
	if err != nil {
		return nil, err
	}
	t.Skipped = s.out.Skipped
	t.Notes = append(t.Notes, s.lost.notes()...)
	return copiedOut(req, t), nil
}

// stateSource sends a part of a sealed state.
type stateSource struct {
	e    *Exchange
	ctx  context.Context //nolint:containedctx // lives as long as the one call
	cell store.Cell
	at   store.Checkpoint
	area string
	tree *tree.Tree
	root string
	top  tree.Entry
	out  *carry.Writer
	lost *hostExport
}

// find finds the area that a path is in, and its entry there.
func (s *stateSource) find(p string) error {
	abs := p
	if !path.IsAbs(p) {
		abs = path.Join(s.cell.MountAt, p)
	}
	abs = path.Clean(abs)
	below := s.cell.MountAt
	s.area = workspace.AreaWorkspace
	if !fsx.Within(abs, below) {
		s.area, below = workspace.AreaHome, home.CellHome
	}
	if !fsx.Within(abs, below) {
		return api.Refusef(api.CodeNotStarted, "`forkcell start "+s.cell.Name+"` shows the rest",
			"cell %s is not started, and %s is not part of its state", s.cell.Name, quote.Path(abs))
	}
	var err error
	if s.tree, err = s.e.Tree(s.at, s.area); err != nil {
		return s.e.ReadError(err, s.at)
	}
	s.root = strings.TrimPrefix(strings.TrimPrefix(abs, below), "/")
	if s.root == "" {
		s.root = "."
	}
	var ok bool
	if s.top, ok, err = s.tree.Lookup(s.root); err != nil || !ok {
		err = s.e.ReadError(err, s.at)
		if err == nil {
			err = &api.Error{Kind: api.NotFound, Code: api.CodeNotFound, Message: fmt.Sprintf("%s:%s: %v", s.cell.Name, quote.Path(p), fs.ErrNotExist)}
		}
		return err
	}
	return nil
}

func (s *stateSource) send(w io.Writer) error {
	s.out = carry.NewWriter(w)
	if err := s.tree.WalkFrom(s.top, s.entry); err != nil {
		return err
	}
	return s.out.Close()
}

// entry sends one thing, whose path is relative to the copied path.
func (s *stateSource) entry(rel string, e tree.Entry) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	at := path.Join(s.root, rel)
	s.lost.note(at, e)
	e = s.lost.hostEntry(at, e)
	if rel == "." {
		rel = ""
	}
	x := carry.Entry{Path: rel, Mode: e.Mode, Mtime: e.MTime.Time(), Size: e.Size, Target: e.Target}
	switch e.Kind {
	case tree.KindDir:
		return s.out.Dir(x)
	case tree.KindSymlink:
		return s.out.Link(x)
	case tree.KindFile:
		f, err := s.e.Workspace.OpenFile(workspace.Backend(s.cell.Backend), s.at.Layer, s.area, at, e)
		if err != nil {
			return home.LayerError(s.at, err)
		}
		defer f.Close()
		return s.out.File(s.ctx, x, f)
	default:
		if rel == "" {
			return fmt.Errorf("%s is a %s", quote.Path(at), e.Kind)
		}
		s.out.Skipped = append(s.out.Skipped, rel)
		return nil
	}
}
