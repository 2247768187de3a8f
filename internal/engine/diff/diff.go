// Package diff compares two states of cells: those that a request names, or the work that
// waits for a decision.
//
// It reads states, and changes nothing. It knows no runs of commands and no driver.
package diff

import (
	"context"
	"io"
	"os"
	"path"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/aside"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/engine/inventory"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// Comparer compares states.
type Comparer struct {
	*home.Home
	cells   *inventory.Inventory
	masks   *aside.Memo
	counts  *Counts
	capture Capture
}

// Capture captures a live cell. It returns nil for a cell that is not live.
type Capture func(ctx context.Context, cell, name string) (*api.CheckpointResult, error)

// New makes a Comparer.
func New(cells *inventory.Inventory, masks *aside.Memo, counts *Counts, capture Capture) *Comparer {
	return &Comparer{cells.Home, cells, masks, counts, capture}
}

// Diff returns the changes between two states. It reads only their manifests, so
// the cost depends on the size of the change.
func (e *Comparer) Diff(ctx context.Context, req api.DiffRequest) (*Result, error) {
	c, err := e.FindCell(req.Cell)
	if err != nil {
		return nil, err
	}
	d := &comparison{e: e, cell: c, req: req}
	if err := d.findStates(ctx); err != nil {
		return nil, err
	}
	res := &Result{DiffResult: api.DiffResult{
		Cell: c.Name, From: d.from.ID, To: d.to.ID, Changes: []api.ChangeJSON{}, Notes: append([]string{}, d.notes...),
		Runs: d.runs, Earlier: d.earlier, Unapplied: d.unapplied,
	}}
	if !req.All {
		if res.Elsewhere, err = e.CountOutside(ctx, d.from, d.to); err != nil {
			return nil, e.ReadError(err, d.from, d.to)
		}
	}
	if err := d.compare(ctx, res); err != nil {
		return nil, err
	}
	if req.Stream {
		return res, nil
	}
	err = res.each(func(ch tree.Change) error {
		res.Raw, res.Changes = append(res.Raw, ch), append(res.Changes, home.NewChangeJSON(ch))
		return nil
	})
	return res, err
}

// compare has a result list the changes between the two states, and open their files.
func (d *comparison) compare(ctx context.Context, res *Result) error {
	e, req := d.e, d.req
	areas := home.AreasBetween(d.from, d.to, req.All)
	sides := []store.Checkpoint{d.from, d.to}
	owners, err := e.Owners(sides)
	if err != nil {
		return err
	}
	keep := d.paths()
	err = e.splitChanges(res, d.cell, func(renames bool, fn func(tree.Change) error) error {
		for _, area := range areas {
			if err := Each(ctx, e.Home, sides, owners, area, renames && !req.Unpaired, func(ch tree.Change) error {
				if !keep(ch) {
					return nil
				}
				return fn(ch)
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	res.Open = func(side int, p string, entry tree.Entry) (io.ReadCloser, error) {
		area, p, err := home.AreaOf(areas, p)
		if err != nil {
			return nil, err
		}
		if entry.Digest.IsZero() {
			// The entry is the host's; the state does not have its contents.
			return os.OpenInRoot(home.AreaTarget(area), p)
		}
		return e.Opener(owners[side], sides[side], area, p, entry)()
	}
	res.Control = func(changes []tree.Change) (map[string]string, error) { return d.controlFiles(owners, changes) }
	return nil
}

// splitChanges lists the changes that are set aside, and leaves them out of the
// others.
func (e *Comparer) splitChanges(res *Result, c store.Cell, each func(renames bool, fn func(tree.Change) error) error) error {
	var held *aside.Rules
	err := e.View(func(tx *store.Tx) (err error) {
		held, err = e.masks.Of(tx, c)
		return err
	})
	if err != nil {
		return err
	}
	skip := func(tree.Change) error { return nil }
	res.each = func(fn func(tree.Change) error) error {
		return each(held == nil, func(ch tree.Change) error { return held.Split(ch, fn, skip) })
	}
	if held == nil {
		return nil
	}
	return each(false, func(ch tree.Change) error {
		return held.Split(ch, skip, func(ch tree.Change) error {
			res.RawAside, res.SetAside = append(res.RawAside, ch), append(res.SetAside, home.NewChangeJSON(ch))
			return nil
		})
	})
}

// Each compares one area of two states. With renames it pairs deleted and added
// files of the same contents.
func Each(ctx context.Context, h *home.Home, sides []store.Checkpoint, owners []store.Cell, area string, renames bool, fn func(tree.Change) error) error {
	a, b, err := h.Trees(sides[0], sides[1], area)
	if err != nil {
		return h.ReadError(err, sides...)
	}
	opt := tree.DiffOptions{Renames: renames, SameBytes: func(p string, old, now tree.Entry) (bool, error) {
		return h.SameBytes(ctx, sides, owners, area, p, old, now)
	}}
	prefix := home.AreaTarget(area)
	err = tree.DiffFunc(a, b, opt, func(ch tree.Change) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if prefix != "" {
			ch.Path = path.Join(prefix, ch.Path)
			if ch.OldPath != "" {
				ch.OldPath = path.Join(prefix, ch.OldPath)
			}
		}
		return fn(ch)
	})
	return h.ReadError(err, sides...)
}
