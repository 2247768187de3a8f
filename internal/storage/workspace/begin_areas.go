package workspace

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// prepareExtra makes the directories of the cell's own areas.
func (w *Work) prepareExtra(ctx context.Context, m *tree.Manifest) error {
	info, err := w.s.Info(w.layer)
	if err != nil {
		return err
	}
	areas := slices.SortedFunc(slices.Values(w.c.Areas), func(a, b Area) int { return strings.Compare(a.Name, b.Name) })
	for i, a := range areas {
		old, had := m.Area(a.Name)
		was := info.Areas[a.Name]
		if had && was.Host != a.Host {
			return fmt.Errorf("%w: its area %s is of %s, not of %s", ErrMixed, a.Name, was.Host, a.Host)
		}
		if had && was.Base != a.Base {
			return fmt.Errorf("%w: its area %s is over %q, not over %q", ErrMixed, a.Name, was.Base.Layer, a.Base.Layer)
		}
		pl := placedArea{Name: a.Name, Host: a.Host, Target: a.Target, System: a.System, Bare: a.Bare, Base: a.Base, Dir: areaDirName(i)}
		if had {
			err = w.prepareArea(ctx, pl, old)
		} else {
			pl.without = a.Without
			pl.Fresh, err = w.prepareNewArea(ctx, pl, a.Rules)
		}
		if err != nil {
			return err
		}
		w.extra = append(w.extra, pl)
	}
	return w.writePlaced()
}

// prepareNewArea makes the directory of an area that the state does not have.
func (w *Work) prepareNewArea(ctx context.Context, a placedArea, rules *secretfiles.Rules) (*freshRoots, error) {
	d, err := plainDir(w.p.dir, a.Dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	roots, err := w.b.fillNew(ctx, d, a, rules)
	if err != nil {
		return nil, err
	}
	return &freshRoots{Root: roots.Root.String(), Meta: roots.Meta.String()}, nil
}

// computeRoots returns the roots of a tree that is not kept.
func computeRoots(name string, changes bool, build func(w *tree.Writer) (tree.Entry, tree.Links, error)) (tree.AreaRoots, error) {
	w, err := tree.NewWriter(io.Discard, "mem_roots", nil)
	if err != nil {
		return tree.AreaRoots{}, err
	}
	root, links, err := build(w)
	if err == nil {
		err = setArea(w, name, changes, root, links)
	}
	if err != nil {
		return tree.AreaRoots{}, fmt.Errorf("area %s: %w", name, err)
	}
	areas, err := w.Close()
	return areas[name], err
}

// setArea adds an area to a manifest, as a whole tree or as changes.
func setArea(w *tree.Writer, name string, changes bool, root tree.Entry, links tree.Links) error {
	if changes {
		return w.SetChanges(name, root, links)
	}
	return w.SetArea(name, root, links)
}
