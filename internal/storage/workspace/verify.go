package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// Verify recomputes a state from the bytes on disk and lists everything that
// differs from what was sealed. An error means that the state could not be
// checked, not that it is wrong. Verify cannot know whether the layer is the one
// that was recorded elsewhere: the caller compares that.
func (s *Store) Verify(ctx context.Context, c Cell, layer string) ([]tree.Difference, error) {
	b, err := s.backend(c.Backend)
	v := &verification{s: s, ctx: ctx, b: b, layer: layer}
	if err == nil {
		err = v.run(c.Backend)
	}
	if err != nil {
		return nil, fmt.Errorf("verify %s: %w", layer, err)
	}
	return v.diffs, nil
}

type verification struct {
	s       *Store
	ctx     context.Context
	b       backend
	layer   string
	chain   []string
	areas   map[string]areaRecord // as layer.json has them
	diffs   []tree.Difference
	figures map[string]tree.AreaRoots // of unchanged areas; nil if they are not needed
}

func (v *verification) differs(path, format string, args ...any) {
	v.diffs = append(v.diffs, tree.Difference{Path: path, What: []string{fmt.Sprintf(format, args...)}})
}

func (v *verification) run(backend Backend) error {
	stated, ok, err := v.layers(backend)
	if err != nil || !ok {
		return err
	}
	m, err := tree.Load(v.s.packs, v.layer)
	if err != nil {
		return v.recordBroken("layers/"+v.layer+"/manifest", err)
	}
	names := m.Areas()
	for _, area := range []string{AreaWorkspace, AreaHome} {
		if !slices.Contains(names, area) {
			v.differs("layers/"+v.layer+"/manifest", "area %s is missing", area)
		}
	}
	for area := range stated {
		if !slices.Contains(names, area) && area != AreaWorkspace && area != AreaHome {
			v.differs("layers/"+v.layer+"/manifest", "area %s is missing", area)
		}
	}
	for _, area := range names {
		t, _ := m.Area(area)
		root, meta := t.Roots()
		v.roots(area, stated, root, meta)
		if err := v.area(area, t); err != nil {
			return err
		}
	}
	return nil
}

// roots compares the manifest's roots with those in layer.json.
func (v *verification) roots(area string, stated map[string]tree.AreaRoots, root, meta tree.Hash) {
	s, ok := stated[area]
	switch {
	case !ok:
		v.differs("layers/"+v.layer, "layer.json has no roots of %s", area)
	case s.Root != root:
		v.differs("layers/"+v.layer, "root of %s is %s, layer.json says %s", area, root, s.Root)
	case s.Meta != meta:
		v.differs("layers/"+v.layer, "meta root of %s is %s, layer.json says %s", area, meta, s.Meta)
	}
}

// layers reads the descriptions of all layers of the state again, from disk.
func (v *verification) layers(backend Backend) (map[string]tree.AreaRoots, bool, error) {
	info, err := v.rereadLayer(v.layer)
	if err != nil {
		return nil, false, v.recordBroken("layers/"+v.layer, err)
	}
	if info.Backend != backend {
		v.differs("layers/"+v.layer, "its backend is %s, not %s", info.Backend, backend)
		return nil, false, nil
	}
	v.areas = info.Areas
	v.chain = append([]string{v.layer}, info.Lower...)
	below := info.Lower
	for _, base := range info.Bases() {
		chain, err := v.s.Chain(base.Layer)
		if err != nil {
			v.differs("layers/"+base.Layer, "%v", err)
		}
		below = append(slices.Clone(below), chain...)
	}
	ok := true
	for _, l := range below {
		if _, err := v.rereadLayer(l); err != nil {
			ok = false
			if err := v.recordBroken("layers/"+l, err); err != nil {
				return nil, false, err
			}
		}
	}
	roots, err := info.roots()
	return roots, ok, err
}

// rereadLayer reads layer.json again and makes sure that the manifest is read again.
func (v *verification) rereadLayer(layer string) (Info, error) {
	v.s.mu.Lock()
	delete(v.s.infos, layer)
	v.s.mu.Unlock()
	v.s.packs.remove(layer)
	return v.s.Info(layer)
}

// recordBroken records an error about the store's own files as a difference. It returns
// other errors.
func (v *verification) recordBroken(path string, err error) error {
	if v.ctx.Err() != nil || errors.Is(err, ErrNewerFormat) || errors.Is(err, tree.ErrNewerFormat) {
		return err
	}
	v.differs(path, "%v", err)
	return nil
}

// area recomputes one area. The tree is kept only if its roots are wrong, to find
// where it differs.
func (v *verification) area(area string, t *tree.Tree) error {
	w, err := tree.NewWriter(io.Discard, "mem_verify", v.s.packs)
	if err != nil {
		return err
	}
	root, links, err := v.b.rebuild(v, w, area, t)
	if err != nil {
		return v.recordBroken(v.areaPath(area, "."), err)
	}
	if err := setArea(w, area, t.Changes(), root, links); err != nil {
		return err
	}
	areas, err := w.Close()
	if err != nil {
		return err
	}
	wantRoot, wantMeta := t.Roots()
	if got := areas[area]; got.Root == wantRoot && got.Meta == wantMeta {
		if v.figures != nil {
			v.figures[area] = got
		}
		return nil
	}
	got, _, err := v.s.memoryTree(t.Changes(), func(w *tree.Writer) (tree.Entry, tree.Links, *findings, error) {
		root, links, err := v.b.rebuild(v, w, area, t)
		return root, links, nil, err
	})
	if err != nil {
		return v.recordBroken(v.areaPath(area, "."), err)
	}
	defer v.s.Forget(got)
	diffs, err := tree.Compare(t, got)
	if err != nil {
		return v.recordBroken(v.areaPath(area, "."), err)
	}
	for _, d := range diffs {
		d.Path = v.areaPath(area, d.Path)
		v.diffs = append(v.diffs, d)
	}
	if len(diffs) == 0 {
		v.differs(v.areaPath(area, "."), "the roots differ, but no entry does")
	}
	return nil
}

// areaPath returns a path for people: outside the workspace as the cell sees it.
func (v *verification) areaPath(area, path string) string {
	target := homeTarget
	switch {
	case area == AreaWorkspace:
		return path
	case area != AreaHome:
		target = cmp.Or(v.areas[area].Target, area)
	}
	if path == "." {
		return target
	}
	return strings.TrimSuffix(target, "/") + "/" + path
}

// newScan prepares reading an area's directory. t is the area as the manifest has
// it.
func (v *verification) newScan(w *tree.Writer, src *fsx.Dir, t *tree.Tree) *scan {
	sc := v.s.newScan(v.ctx, "verify", w, src)
	sc.old, sc.owner = t, v.s.keepOwner
	return sc
}
