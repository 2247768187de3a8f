package home

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// CellHome is the home directory in the cell. A diff of all areas shows its files by
// their absolute paths.
const CellHome = "/home/sandbox"

// Owners returns the cells that states were made in.
func (h *Home) Owners(states []store.Checkpoint) (cells []store.Cell, err error) {
	err = h.View(func(tx *store.Tx) error {
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

// SameBytes compares two large files whose digests are of different versions.
func (h *Home) SameBytes(ctx context.Context, sides []store.Checkpoint, owners []store.Cell, area, p string, old, now tree.Entry) (bool, error) {
	side, like := 1, old // the side to read, and the digest of version 1 to compare with
	entry := now
	if now.PlainDigest {
		side, like, entry = 0, now, old
	}
	f, err := h.Workspace.OpenFile(workspace.Backend(owners[side].Backend), sides[side].Layer, area, p, entry)
	if err != nil {
		return false, LayerError(sides[side], err)
	}
	defer f.Close()
	return h.Workspace.HasDigest(ctx, f, like)
}

// NewChangeJSON returns a change as JSON shows it.
func NewChangeJSON(ch tree.Change) api.ChangeJSON {
	out := api.ChangeJSON{Path: ch.Path, PathBase64: quote.Base64(ch.Path), Change: string(ch.Kind), OldPath: ch.OldPath}
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

// Trees opens one area of two states.
func (h *Home) Trees(a, b store.Checkpoint, area string) (from, to *tree.Tree, err error) {
	if from, err = h.Tree(a, area); err == nil {
		to, err = h.Tree(b, area)
	}
	return from, to, err
}

// Tree opens one area of a state. An area that a state may lack is nil.
func (h *Home) Tree(c store.Checkpoint, area string) (*tree.Tree, error) {
	if err := CheckUsable(c); err != nil {
		return nil, err
	}
	m, err := h.Workspace.Manifest(c.Layer)
	if err != nil {
		return nil, LayerError(c, err)
	}
	t, ok := m.Area(area)
	if !ok && (area == workspace.AreaWorkspace || area == workspace.AreaHome) {
		return nil, fmt.Errorf("checkpoint %s has no %s", c.ID, area)
	}
	return t, nil
}

// DamageHint says how to find out what is damaged.
const DamageHint = "`forkcell ls` shows the cells, and `verify CELL --all` names what is damaged in one"

// LayerError returns the error for a damaged store, with a hint.
func LayerError(c store.Checkpoint, err error) error {
	return &api.Error{
		Kind: api.Refused, Code: api.CodeDamaged, Message: fmt.Sprintf("checkpoint %s cannot be read: %v", c.ID, err),
		Hint: DamageHint + "; other checkpoints may be whole", Err: err,
	}
}

// ReadError returns the error of a reader, which holds no lock: where gc has freed one
// of the states since its record was read, that is the reason, and nothing is damaged.
func (h *Home) ReadError(err error, states ...store.Checkpoint) error {
	if err == nil {
		return nil
	}
	for _, c := range states {
		if freed := CheckUsable(h.currentState(c)); freed != nil {
			return freed
		}
	}
	return err
}

// WasFreed reports whether gc has freed a state since its record was read.
func (h *Home) WasFreed(c store.Checkpoint) bool { return h.currentState(c).Freed }

// currentState returns the present record of a state. Where that cannot be read, the record that
// was read first stands.
func (h *Home) currentState(c store.Checkpoint) store.Checkpoint {
	now := c
	err := h.View(func(tx *store.Tx) (err error) {
		now, err = tx.Checkpoint(c.ID)
		return err
	})
	if err != nil {
		return c
	}
	return now
}

// StateError returns a LayerError for a damaged state, and any other error unchanged.
func StateError(c store.Checkpoint, err error) error {
	if IsDamage(err) {
		return LayerError(c, err)
	}
	return err
}

// IsDamage reports whether damaged files of a state caused a failure.
func IsDamage(err error) bool {
	return slices.ContainsFunc([]error{
		workspace.ErrNoLayer, workspace.ErrCorrupt, workspace.ErrNewerFormat, workspace.ErrMixed, tree.ErrCorrupt, tree.ErrNewerFormat,
	}, func(kind error) bool { return errors.Is(err, kind) })
}

// Opener opens the bytes of one file of a state.
func (h *Home) Opener(c store.Cell, at store.Checkpoint, area, p string, entry tree.Entry) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		f, err := h.Workspace.OpenFile(workspace.Backend(c.Backend), at.Layer, area, p, entry)
		if err != nil {
			return nil, LayerError(at, err)
		}
		return f, nil
	}
}

// IsDirChange reports whether a change is of a directory.
func IsDirChange(c tree.Change) bool {
	e := c.New
	if e == nil {
		e = c.Old
	}
	return e.Kind == tree.KindDir
}

// Edit returns a change as an edit of the workspace.
func (h *Home) Edit(c store.Cell, from store.Checkpoint, ch tree.Change) workspace.Edit {
	ed := workspace.Edit{Path: ch.Path, New: ch.New}
	if ch.New != nil && ch.New.Kind == tree.KindFile {
		ed.Open = h.Opener(c, from, workspace.AreaWorkspace, ch.Path, *ch.New)
	}
	return ed
}
