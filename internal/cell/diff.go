package cell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/internal/tree"
	"github.com/forkcell/forkcell/internal/workspace"
)

// homePath is where the cell's user lives; diff --all shows its files by their
// absolute paths.
const homePath = "/home/sandbox"

// Diff tells what changed between two states, from their manifests alone. The
// cost follows the change.
func (e *Engine) Diff(ctx context.Context, req DiffRequest) (*DiffResult, error) {
	c, err := e.findCell(req.Cell)
	if err != nil {
		return nil, err
	}
	d := &comparison{e: e, cell: c, req: req}
	if err := d.ends(ctx); err != nil {
		return nil, err
	}
	res := &DiffResult{Cell: c.Name, From: d.from.ID, To: d.to.ID, Changes: []ChangeJSON{}, Notes: append([]string{}, d.notes...)}
	areas := areasBetween(d.from, d.to, req.All)
	keep := d.paths()
	for _, area := range areas {
		if err := e.addChanges(res, d.from, d.to, area, areaTarget(area), keep); err != nil {
			return nil, err
		}
	}
	sides := []store.Checkpoint{d.from, d.to}
	owners, err := e.owners(sides)
	if err != nil {
		return nil, err
	}
	res.Open = func(side int, p string, entry tree.Entry) (io.ReadCloser, error) {
		area, p, err := areaOf(areas, p)
		if err != nil {
			return nil, err
		}
		if entry.Digest.IsZero() {
			// An entry of the host's own, of which the state knows nothing more.
			return os.OpenInRoot(areaTarget(area), p)
		}
		return e.opener(owners[side], sides[side], area, p, entry)()
	}
	return res, nil
}

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

func (e *Engine) addChanges(res *DiffResult, from, to store.Checkpoint, area, prefix string, keep func(tree.Change) bool) error {
	a, b, err := e.trees(from, to, area)
	if err != nil {
		return err
	}
	changes, err := tree.Diff(a, b, tree.DiffOptions{Renames: true})
	if err != nil {
		return err
	}
	for _, ch := range changes {
		if prefix != "" {
			ch.Path = path.Join(prefix, ch.Path)
			if ch.OldPath != "" {
				ch.OldPath = path.Join(prefix, ch.OldPath)
			}
		}
		if keep(ch) {
			res.Raw = append(res.Raw, ch)
			res.Changes = append(res.Changes, changeJSON(ch))
		}
	}
	return nil
}

func changeJSON(ch tree.Change) ChangeJSON {
	out := ChangeJSON{Path: ch.Path, PathBase64: pathBase64(ch.Path), Change: string(ch.Kind), OldPath: ch.OldPath}
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

// layerError says what a damaged store means for the person who meets it.
func layerError(c store.Checkpoint, err error) error {
	return &Error{
		Kind: Refused, Code: "damaged", Message: fmt.Sprintf("checkpoint %s cannot be read: %v", c.ID, err),
		Hint: "`forkcell verify` names what is damaged; other checkpoints may be whole", Err: err,
	}
}

// stateError tells a damaged state from any other failure.
func stateError(c store.Checkpoint, err error) error {
	for _, damage := range []error{
		workspace.ErrNoLayer, workspace.ErrCorrupt, workspace.ErrNewerFormat, workspace.ErrMixed, tree.ErrCorrupt, tree.ErrNewerFormat,
	} {
		if errors.Is(err, damage) {
			return layerError(c, err)
		}
	}
	return err
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
