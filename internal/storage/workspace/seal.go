package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// Seal makes the generation a state. Nothing may write to it any more. When Seal
// fails, the generation stays as it is: an *UnsealableError lists what cannot be
// kept. Seal can be called again at any time. A generation without changes stays
// too, until the caller has recorded that and discards it.
func (w *Work) Seal(ctx context.Context) (Sealed, error) {
	sealed, keep, err := w.hash(ctx)
	if err != nil {
		return Sealed{}, fmt.Errorf("seal: %w", err)
	}
	if err := w.s.step("seal.hashed"); err != nil {
		return Sealed{}, fmt.Errorf("seal: %w", err)
	}
	if sealed.Unchanged {
		return sealed, nil
	}
	if err := w.s.commitLayer(w.p, sealed, w.c.Backend, w.b.layerOn(w.chain).lower, keep); err != nil {
		return Sealed{}, err
	}
	w.p.close()
	return sealed, nil
}

// hash makes the manifest. It also returns which directories of areas the layer
// keeps.
func (w *Work) hash(ctx context.Context) (Sealed, []string, error) {
	if err := w.removeStandIns(); err != nil {
		return Sealed{}, nil, err
	}
	return w.s.seal(ctx, w.c, w.p, w.layer, func(sl *sealing) error {
		sl.extra, sl.hidden = w.extra, w.hiddenFiles()
		return w.b.seal(sl, w.p.dir)
	})
}

// sealing makes one manifest on top of a parent's.
type sealing struct {
	s      *Store
	ctx    context.Context
	c      Cell
	b      backend
	p      *pending
	pw     *pack
	parent *tree.Manifest
	layer  string
	op     string

	objects int64 // disk space of the contents that were added
	split   []string
	leftOut []LeftOut
	keep    []string // directories of areas that the layer keeps

	// lenient seals a live directory without what cannot be kept, which is then
	// in refused.
	lenient bool
	refused []RefusedEntry
	hidden  map[fileID]struct{} // masked files of a live directory

	extra   []placedArea     // areas of the generation besides the two
	places  map[string]place // of all areas of the new state but the two
	carried []string         // areas of the parent whose files are still to be copied
}

// parentArea returns an area of the parent.
func (sl *sealing) parentArea(area string) (*tree.Tree, error) {
	t, ok := sl.parent.Area(area)
	if !ok {
		return nil, fmt.Errorf("%w: %s has no area %s", ErrCorrupt, sl.parent.Layer(), area)
	}
	return t, nil
}

// wholeExtra hashes the areas that the state has whole. share is as in readWhole.
func (sl *sealing) wholeExtra(dir *fsx.Dir, share bool) error {
	var refused refusals
	for _, a := range sl.extra {
		if err := refused.add(sl.extraArea(dir, a, share, sl.readWhole)); err != nil {
			return err
		}
	}
	return refused.err()
}

// scanArea hashes one area's directory and sets the area. share is as in
// readWhole.
func (sl *sealing) scanArea(dir *fsx.Dir, area string, share bool) error {
	old, err := sl.parentArea(area)
	if err != nil {
		return err
	}
	src, err := dir.OpenDir(area)
	if err != nil {
		return err
	}
	defer src.Close()
	got, err := sl.readWhole(src, placedArea{Name: area}, old, share)
	if err != nil {
		return err
	}
	roots, err := got.roots(area)
	if err != nil {
		return err
	}
	if share && sameTree(old, roots) {
		return sl.pw.w.SetAreaKeepLinks(area, old.Root(), old)
	}
	sl.keep = append(sl.keep, area)
	return sl.pw.w.SetArea(area, got.root, got.links)
}

// keepOwner keeps the recorded owner of an entry of the same kind, which an
// ordinary user cannot have on disk.
func (s *Store) keepOwner(_ site, e *tree.Entry, old *tree.Entry) {
	if !s.opt.Root && old != nil && old.Kind == e.Kind && e.UID == uint32(os.Geteuid()) {
		e.UID, e.GID = old.UID, old.GID
	}
}

// finish closes the manifest and compares it with the parent's.
func (sl *sealing) finish() (Sealed, error) {
	areas, err := sl.pw.finish()
	if err != nil {
		return Sealed{}, err
	}
	same := true
	for name, a := range areas {
		old, had := sl.parent.Area(name)
		same = same && had && sameTree(old, a)
	}
	if same {
		sealed, err := sl.s.sealedAsIs(sl.parent.Layer())
		sealed.LeftOut = sl.leftOut
		return sealed, err
	}
	if err := sl.fillCarried(); err != nil {
		return Sealed{}, err
	}
	slices.Sort(sl.split)
	sealed := Sealed{
		Layer: sl.layer, Parent: sl.parent.Layer(), Kind: sl.b.layerOn(nil).kind, Areas: areas,
		SplitLinks: sl.split, LeftOut: sl.leftOut, places: sl.places,
	}
	if err := sealed.measure(sl.ctx, sl.p.dir, sl.keep, sl.objects); err != nil {
		return Sealed{}, err
	}
	sealed.Changed, err = sl.countChanges(areas[AreaWorkspace])
	return sealed, err
}

// sealedAsIs returns the result of a seal without changes.
func (s *Store) sealedAsIs(layer string) (Sealed, error) {
	info, err := s.Info(layer)
	if err != nil {
		return Sealed{}, err
	}
	sealed, err := info.Sealed()
	sealed.Unchanged, sealed.Changed, sealed.SplitLinks = true, 0, nil
	return sealed, err
}

// countChanges counts the workspace's changes.
func (sl *sealing) countChanges(now tree.AreaRoots) (int, error) {
	old, err := sl.parentArea(AreaWorkspace)
	if err != nil {
		return 0, err
	}
	if root, _ := old.Roots(); root == now.Root {
		return 0, nil
	}
	m, err := tree.Load(sl.s.packs, sl.layer)
	if err != nil {
		return 0, err
	}
	t, ok := m.Area(AreaWorkspace)
	if !ok {
		return 0, fmt.Errorf("%w: %s has no area %s", ErrCorrupt, sl.layer, AreaWorkspace)
	}
	return tree.CountChanges(old, t, tree.DiffOptions{Renames: true})
}

// commitLayer makes the pending directory the layer that sealed describes. keep
// lists the directories of areas that go with it.
func (s *Store) commitLayer(p *pending, sealed Sealed, b Backend, lower, keep []string) error {
	return s.commit(p.dir, p.op, s.record(sealed, b, p.op, lower), keep)
}

// newLayer makes a layer from older states. If anything fails, it removes what it
// began.
func (s *Store) newLayer(op, what string, build func(p *pending) (sealed Sealed, lower, keep []string, err error), b Backend) (Sealed, error) {
	p, err := s.newPending(op)
	if err != nil {
		return Sealed{}, err
	}
	sealed, lower, keep, err := build(p)
	if err == nil {
		err = s.step("seal.hashed")
	}
	if err == nil && sealed.Unchanged {
		return sealed, p.discard()
	}
	if err == nil {
		err = s.commitLayer(p, sealed, b, lower, keep)
	}
	if err != nil {
		return Sealed{}, errors.Join(fmt.Errorf("%s: %w", what, err), p.discard())
	}
	p.close()
	return sealed, nil
}

// seal writes the manifest of a pending layer on top of a parent.
func (s *Store) seal(ctx context.Context, c Cell, p *pending, layer string, areas func(sl *sealing) error) (Sealed, []string, error) {
	sl, err := s.newSealing(ctx, c, p, layer)
	if err != nil {
		return Sealed{}, nil, err
	}
	defer sl.pw.abort()
	if err := areas(sl); err != nil {
		return Sealed{}, nil, err
	}
	return sl.end()
}

// newSealing starts the manifest of a pending layer.
func (s *Store) newSealing(ctx context.Context, c Cell, p *pending, layer string) (*sealing, error) {
	b, err := s.backend(c.Backend)
	if err != nil {
		return nil, err
	}
	m, err := s.Manifest(layer)
	if err != nil {
		return nil, err
	}
	pw, err := s.newPack(p.dir, p.layer)
	if err != nil {
		return nil, err
	}
	return &sealing{
		s: s, ctx: ctx, c: c, b: b, p: p, pw: pw, parent: m, layer: p.layer, op: p.op, places: map[string]place{},
	}, nil
}

// end completes the manifest. It also returns which directories the layer keeps.
func (sl *sealing) end() (Sealed, []string, error) {
	if err := sl.carry(); err != nil {
		return Sealed{}, nil, err
	}
	sealed, err := sl.finish()
	return sealed, sl.keep, err
}
