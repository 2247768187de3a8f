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
	"github.com/forkcell/forkcell/internal/sandbox/incell/files"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// maxLinks bounds the links that a path of a state may lead through.
const maxLinks = 40

// stateAt returns a source that reads the head of a cell.
func (e *Exchange) stateAt(ctx context.Context, c store.Cell) (*stateSource, error) {
	s := &stateSource{e: e, ctx: ctx, cell: c, lost: newHostExport(false)}
	err := e.View(func(tx *store.Tx) (err error) {
		s.at, err = tx.Checkpoint(c.Head)
		return err
	})
	return s, err
}

// follow finds the entry of a path and follows links, all inside of the state. The
// last component is followed only with last.
func (s *stateSource) follow(p string, last bool) error {
	abs := p
	if !path.IsAbs(p) {
		abs = path.Join(s.cell.MountAt, p)
	}
	for range maxLinks {
		next, err := s.step(path.Clean(abs), last)
		if err != nil || next == "" {
			return err
		}
		abs = next
	}
	return api.Refusef(api.CodeNotFile, "", "%s:%s: too many links", s.cell.Name, quote.Path(p))
}

// step finds the entry of a path, or returns where the first link in it leads.
func (s *stateSource) step(abs string, last bool) (next string, err error) {
	for at := 1; at <= len(abs); at++ {
		end := at == len(abs)
		inside := fsx.Within(abs[:at], s.cell.MountAt) || fsx.Within(abs[:at], home.CellHome)
		if !end && (abs[at] != '/' || !inside) {
			continue
		}
		if err := s.find(abs[:at]); err != nil {
			return "", err
		}
		if s.top.Kind == tree.KindSymlink && (!end || last) {
			target := s.top.Target
			if !path.IsAbs(target) {
				target = path.Join(path.Dir(abs[:at]), target)
			}
			return path.Join(target, strings.TrimPrefix(abs[at:], "/")), nil
		}
	}
	return "", nil
}

func (e *Exchange) openStateFile(c store.Cell, p string) (*File, error) {
	s, err := e.stateAt(context.Background(), c)
	if err == nil {
		err = s.follow(p, true)
	}
	if err != nil {
		return nil, err
	}
	if s.top.Kind != tree.KindFile {
		return nil, api.Refusef(api.CodeNotFile, "", "%s:%s: not a regular file", c.Name, quote.Path(p))
	}
	f, err := e.Workspace.OpenFile(workspace.Backend(c.Backend), s.at.Layer, s.area, s.root, s.top)
	if err != nil {
		return nil, e.ReadError(home.LayerError(s.at, err), s.at)
	}
	return &File{Info: stateInfo(p, s.top), Content: f, close: f.Close}, nil
}

func (e *Exchange) statStateFile(c store.Cell, p string) (*api.FileInfo, error) {
	s, err := e.stateAt(context.Background(), c)
	if err == nil {
		err = s.follow(p, false)
	}
	if err != nil {
		return nil, err
	}
	info := stateInfo(p, s.top)
	return &info, nil
}

// stateInfo describes an entry of a state.
func stateInfo(p string, e tree.Entry) api.FileInfo {
	i := api.FileInfo{Path: p, Type: "other", Size: e.Size, Mode: fmt.Sprintf("%04o", e.Mode), MTime: e.MTime.Time().UTC()}
	switch e.Kind {
	case tree.KindFile:
		i.Type = "file"
	case tree.KindDir:
		i.Type = "dir"
	case tree.KindSymlink:
		i.Type, i.Target = "symlink", &e.Target
	default:
	}
	return i
}

// listStateFiles lists a directory of the head of a cell. bounded is for
// a list that is held in memory.
func (e *Exchange) listStateFiles(ctx context.Context, c store.Cell, p string, depth int, bounded bool, each func(api.FileInfo) error) error {
	s, err := e.stateAt(ctx, c)
	if err == nil {
		err = s.follow(p, true)
	}
	if err != nil {
		return err
	}
	if s.top.Kind != tree.KindDir {
		return api.Refusef(api.CodeNotFile, "", "%s:%s: not a directory", c.Name, quote.Path(p))
	}
	l := &stateLister{tree: s.tree, each: each, bounded: bounded}
	return e.ReadError(l.list(s.top, p, max(depth, 1)), s.at)
}

// stateLister lists a directory of a state and what is below it.
type stateLister struct {
	tree    *tree.Tree
	each    func(api.FileInfo) error
	size    files.Size
	bounded bool
}

func (l *stateLister) list(dir tree.Entry, at string, depth int) error {
	children, err := l.tree.Children(dir.Sub)
	if err != nil {
		return err
	}
	for _, child := range children {
		name := path.Join(at, child.Name)
		info := stateInfo(name, child)
		if err := l.size.Add(info); l.bounded && err != nil {
			return &api.Error{Kind: api.Refused, Code: api.CodeTooLarge, Message: err.Error(), Hint: "ask for a part of it"}
		}
		if err := l.each(info); err != nil {
			return err
		}
		if child.Kind == tree.KindDir && depth > 1 {
			if err := l.list(child, name, depth-1); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendState sends a part of the head of a cell as a copy stream.
func (e *Exchange) sendState(ctx context.Context, c store.Cell, p string, receive func(io.Reader) error) (*stateSource, error) {
	s, err := e.stateAt(ctx, c)
	if err == nil {
		err = s.follow(p, false)
	}
	if err != nil {
		return nil, err
	}
	from, to := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := e.ReadError(s.send(to), s.at)
		_ = to.CloseWithError(err)
		sent <- err
	}()
	err = receive(from)
	_ = from.CloseWithError(io.ErrClosedPipe)
	if sendErr := <-sent; sendErr != nil && !errors.Is(sendErr, io.ErrClosedPipe) && !errors.Is(sendErr, fs.ErrClosed) {
		return s, api.Failf(api.CodeCopy, sendErr, "read %s", quote.Path(p))
	}
	return s, err
}

// OpenStateFile opens a file of a state of a cell for reading.
func (e *Exchange) OpenStateFile(_ context.Context, cell, checkpoint, p string) (*File, error) {
	c, p, err := e.atState(cell, checkpoint, p)
	if err != nil {
		return nil, err
	}
	return e.openStateFile(c, p)
}

// ListStateFiles lists a directory of a state of a cell, until each returns an error.
func (e *Exchange) ListStateFiles(ctx context.Context, cell, checkpoint, p string, each func(api.FileInfo) error) error {
	c, p, err := e.atState(cell, checkpoint, p)
	if err != nil {
		return err
	}
	return e.listStateFiles(ctx, c, p, 1, false, each)
}

// atState returns a cell as it was at one of its states.
func (e *Exchange) atState(cell, checkpoint, p string) (c store.Cell, cleaned string, err error) {
	if cleaned, err = cellPath(p); err != nil {
		return c, "", err
	}
	if c, err = e.FindCell(cell); err != nil {
		return c, "", err
	}
	err = e.View(func(tx *store.Tx) error {
		s, err := e.FindCheckpoint(tx, c, checkpoint)
		if err == nil {
			err = home.CheckUsable(s)
		}
		c.Head = s.ID
		return err
	})
	return c, cleaned, err
}
