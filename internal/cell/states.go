package cell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/internal/tree"
	"github.com/forkcell/forkcell/internal/workspace"
)

// owners returns the cells that states were made in.
func (e *Engine) owners(states []store.Checkpoint) (cells []store.Cell, err error) {
	err = e.view(func(tx *store.Tx) error {
		for _, at := range states {
			c, err := tx.CellByID(at.CellID)
			if err != nil {
				return err
			}
			cells = append(cells, c)
		}
		return nil
	})
	return cells, err
}

// sameBytes compares two large files whose digests are of different versions.
func (e *Engine) sameBytes(ctx context.Context, sides []store.Checkpoint, owners []store.Cell, area, p string, old, now tree.Entry) (bool, error) {
	side, like := 1, old // the side to read, and the digest of version 1 to compare with
	entry := now
	if now.PlainDigest {
		side, like, entry = 0, now, old
	}
	f, err := e.ws.OpenFile(workspace.Backend(owners[side].Backend), sides[side].Layer, area, p, entry)
	if err != nil {
		return false, layerError(sides[side], err)
	}
	defer f.Close()
	return e.ws.HasDigest(ctx, f, like)
}

// NewChangeJSON returns a change as JSON shows it.
func NewChangeJSON(ch tree.Change) api.ChangeJSON {
	out := api.ChangeJSON{Path: ch.Path, PathBase64: pathBase64(ch.Path), Change: string(ch.Kind), OldPath: ch.OldPath}
	entry := ch.New
	if entry == nil {
		entry = ch.Old
	}
	out.Type = entry.Kind.String()
	if ch.Old != nil && ch.Old.Kind == tree.KindFile {
		out.OldDigest = ch.Old.Digest.String()
	}
	if ch.New != nil && ch.New.Kind == tree.KindFile {
		out.NewDigest = ch.New.Digest.String()
	}
	return out
}

// trees opens one area of two states.
func (e *Engine) trees(a, b store.Checkpoint, area string) (from, to *tree.Tree, err error) {
	if from, err = e.tree(a, area); err == nil {
		to, err = e.tree(b, area)
	}
	return from, to, err
}

func (e *Engine) tree(c store.Checkpoint, area string) (*tree.Tree, error) {
	if err := usable(c); err != nil {
		return nil, err
	}
	m, err := e.ws.Manifest(c.Layer)
	if err != nil {
		return nil, layerError(c, err)
	}
	t, ok := m.Area(area)
	if !ok && (area == workspace.AreaWorkspace || area == workspace.AreaHome) {
		return nil, fmt.Errorf("checkpoint %s has no %s", c.ID, area)
	}
	return t, nil
}

// layerError returns the error for a damaged store, with a hint.
func layerError(c store.Checkpoint, err error) error {
	return &api.Error{
		Kind: api.Refused, Code: api.CodeDamaged, Message: fmt.Sprintf("checkpoint %s cannot be read: %v", c.ID, err),
		Hint: damageHint + "; other checkpoints may be whole", Err: err,
	}
}

// stateError returns layerError for a damaged state, and any other error unchanged.
func stateError(c store.Checkpoint, err error) error {
	if damage(err) {
		return layerError(c, err)
	}
	return err
}

// damage reports whether damaged files of a state caused a failure.
func damage(err error) bool {
	return slices.ContainsFunc([]error{
		workspace.ErrNoLayer, workspace.ErrCorrupt, workspace.ErrNewerFormat, workspace.ErrMixed, tree.ErrCorrupt, tree.ErrNewerFormat,
	}, func(kind error) bool { return errors.Is(err, kind) })
}

// opener opens the bytes of one file of a state.
func (e *Engine) opener(c store.Cell, at store.Checkpoint, area, p string, entry tree.Entry) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		f, err := e.ws.OpenFile(workspace.Backend(c.Backend), at.Layer, area, p, entry)
		if err != nil {
			return nil, layerError(at, err)
		}
		return f, nil
	}
}

func isDirChange(c tree.Change) bool {
	e := c.New
	if e == nil {
		e = c.Old
	}
	return e.Kind == tree.KindDir
}
