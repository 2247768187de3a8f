package workspace

import (
	"context"
	"fmt"
	"slices"

	"github.com/forkcell/forkcell/internal/storage/tree"
)

// Squash makes a state self-contained: a new layer with the same roots that needs
// no other. The old layers stay until no state needs them.
func (s *Store) Squash(ctx context.Context, c Cell, layer, op string) (Sealed, error) {
	b, _, err := s.usable(c, layer)
	if err != nil {
		return Sealed{}, err
	}
	return s.newLayer(op, "squash "+layer, func(p *pending) (Sealed, []string, []string, error) {
		sealed, keep, err := s.squashInto(ctx, b, layer, p)
		return sealed, nil, keep, err
	}, c.Backend)
}

func (s *Store) squashInto(ctx context.Context, b backend, layer string, p *pending) (Sealed, []string, error) {
	m, err := s.Manifest(layer)
	if err != nil {
		return Sealed{}, nil, err
	}
	pw, err := s.newPack(p.dir, p.layer)
	if err != nil {
		return Sealed{}, nil, err
	}
	defer pw.abort()
	info, err := s.Info(layer)
	if err != nil {
		return Sealed{}, nil, err
	}
	sealed := Sealed{Layer: p.layer, Parent: layer, Kind: KindSquash, places: map[string]place{}}
	var keep []string
	for _, area := range m.Areas() {
		t, _ := m.Area(area)
		dir := area
		switch {
		case area != AreaWorkspace && area != AreaHome:
			dir = areaDirName(len(sealed.places))
			was := info.Areas[area].place
			sealed.places[area] = was.in(dir)
		case !slices.Contains(b.areas(), area):
			// Its contents are objects, which no layer holds.
			if err := s.copyTree(pw, t, area, ""); err != nil {
				return Sealed{}, nil, err
			}
			continue
		}
		if err := s.copyTree(pw, t, area, p.layer); err != nil {
			return Sealed{}, nil, err
		}
		if err := s.fillArea(ctx, p, dir, t, contentsOf(b, layer, area)); err != nil {
			return Sealed{}, nil, err
		}
		keep = append(keep, dir)
	}
	if sealed.Areas, err = pw.finish(); err != nil {
		return Sealed{}, nil, err
	}
	if err := sealed.measure(ctx, p.dir, keep, 0); err != nil {
		return Sealed{}, nil, err
	}
	return sealed, keep, sameRoots(m, sealed.Areas)
}

// copyTree writes a whole tree into a manifest, which then needs no other. holder
// is the layer that has the bytes of the files.
func (s *Store) copyTree(pw *pack, t *tree.Tree, area, holder string) error {
	root, err := pw.w.CopyAll(t, func(e *tree.Entry) {
		if e.Kind == tree.KindFile {
			e.Layer = holder
		}
	})
	if err != nil {
		return err
	}
	links, err := t.Links()
	if err != nil {
		return err
	}
	return setArea(pw.w, area, t.Changes(), root, links)
}

// fillArea writes an area's files into a directory of a pending layer. An area of
// changes has whiteouts and opaque directories too: the host's directory stays
// below it.
func (s *Store) fillArea(ctx context.Context, p *pending, dir string, t *tree.Tree, open opener) error {
	d, err := plainDir(p.dir, dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return s.materialise(ctx, t, open, d, MaterialiseOptions{Owners: s.opt.Root})
}

// sameRoots checks that a rewritten state has the roots of the original.
func sameRoots(m *tree.Manifest, areas map[string]tree.AreaRoots) error {
	for _, area := range m.Areas() {
		t, _ := m.Area(area)
		root, meta := t.Roots()
		if a := areas[area]; a.Root != root || a.Meta != meta {
			return fmt.Errorf("%w: the roots of %s differ after rewriting", ErrCorrupt, area)
		}
	}
	return nil
}
