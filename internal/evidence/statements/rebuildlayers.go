package statements

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// describeLayers writes the lost layer.json of layers again, from the manifest and
// the log. The result must have the signed roots. Layers for which that fails are
// kept and named.
func (b *rebuild) describeLayers(ctx context.Context, tx *store.Tx) error {
	if len(b.broken) == 0 {
		return nil
	}
	states, err := tx.Checkpoints("")
	if err != nil {
		return err
	}
	// The parent of a layer is older, and comes first.
	for _, c := range states {
		if b.broken[c.Layer] == nil {
			continue
		}
		if err := b.describeLayer(ctx, tx, c); errors.Is(err, workspace.ErrUndescribed) && ctx.Err() == nil {
			b.broken[c.Layer] = err
		} else if err != nil {
			return err
		}
	}
	for _, layer := range slices.Sorted(maps.Keys(b.broken)) {
		b.problem("layers/%s is kept as it is: %v; states that need it cannot be used until its layer.json is put back; all others can", layer, b.broken[layer])
	}
	return nil
}

func (b *rebuild) describeLayer(ctx context.Context, tx *store.Tx, c store.Checkpoint) error {
	if err := b.broken[c.Layer]; !errors.Is(err, workspace.ErrNoLayer) && !errors.Is(err, workspace.ErrCorrupt) {
		return fmt.Errorf("%w: %w", workspace.ErrUndescribed, err)
	}
	of, err := tx.CellByID(c.CellID)
	if err != nil {
		return err
	}
	d := workspace.Description{Layer: c.Layer, Backend: workspace.Backend(of.Backend), Roots: map[string]tree.AreaRoots{}}
	if parent, err := tx.Checkpoint(c.Parent); err == nil {
		d.Parent = parent.Layer
	} else if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	for name, a := range c.Areas {
		root, bad := tree.ParseHash(a.Root)
		meta, worse := tree.ParseHash(a.MetaRoot)
		if err := errors.Join(bad, worse); err != nil {
			return fmt.Errorf("%w: %w", workspace.ErrUndescribed, err)
		}
		d.Roots[name] = tree.AreaRoots{Root: root, Meta: meta}
	}
	info, err := b.log.layers.Describe(ctx, d)
	if err != nil {
		return err
	}
	delete(b.broken, c.Layer)
	b.layers[c.Layer] = info
	b.res.Notes = append(b.res.Notes, fmt.Sprintf("layers/%s: its layer.json is written again, and the state verified", c.Layer))
	for name, a := range c.Areas {
		figures := info.Areas[name]
		a.Files, a.Dirs, a.Bytes = figures.Files, figures.Dirs, figures.Bytes
		c.Areas[name] = a
	}
	c.OwnBytes = max(c.OwnBytes, info.Bytes)
	return tx.PutCheckpoint(c)
}
