package workspace

import (
	"context"
	"errors"

	"github.com/forkcell/forkcell/internal/fsx"
)

// delta seals the live directory as the workspace, and the generation's copies
// of the home and of other areas.
func (sl *sealing) delta(dir *fsx.Dir) error {
	if err := sl.live(); err != nil {
		return err
	}
	return sl.copies(dir)
}

// copies seals what a delta generation has copies of.
func (sl *sealing) copies(dir *fsx.Dir) error {
	if err := sl.wholeExtra(dir); err != nil {
		return err
	}
	there, err := exists(dir, AreaHome)
	if err != nil {
		return err
	}
	if !there { // an interrupted seal found it unchanged
		return sl.keepHome()
	}
	// Entries that did not change still name the layer that has their bytes.
	return sl.scanArea(dir, AreaHome, func(sc *scan) { sc.layer, sc.share = sl.layer, true })
}

// live reads the live directory: files with new stamps, and their contents into
// the objects.
func (sl *sealing) live() error {
	old, err := sl.old(AreaWorkspace)
	if err != nil {
		return err
	}
	src, err := fsx.OpenRoot(sl.c.Live)
	if err != nil {
		return err
	}
	defer src.Close()
	sc := sl.s.newScan(sl.ctx, "seal", sl.pw.w, src)
	sc.old, sc.owner = old, sl.s.keepOwner
	sc.share, sc.exact, sc.stamps, sc.settle = true, true, true, true
	sc.filter, sc.hidden = keepOnly(sl.c.Rules, sl.c.Kept), sl.hidden
	if sc.objects, err = sl.s.openObjects(sl.op); err != nil {
		return err
	}
	defer sc.objects.close()
	root, links, err := sc.run()
	if bad, ok := errors.AsType[*UnsealableError](err); ok && sl.lenient {
		sl.refused, err = bad.Refused, nil
	}
	if err != nil {
		return err
	}
	sl.objects += sc.objects.written.Load()
	sl.leftOut = sc.found.report().LeftOut
	return sl.pw.w.SetArea(AreaWorkspace, root, links)
}

// keepHome takes the parent's home over as it is.
func (sl *sealing) keepHome() error {
	home, err := sl.old(AreaHome)
	if err != nil {
		return err
	}
	return sl.pw.w.SetAreaKeepLinks(AreaHome, home.Root(), home)
}

// Drift seals what others did to the live directory of a delta cell since its
// last seal, so that it is a state of its own and not charged to the next run.
// For the other backends nothing can drift.
func (s *Store) Drift(ctx context.Context, c Cell, layer, op string) (Sealed, error) {
	chain, err := s.usable(c, layer)
	if err != nil {
		return Sealed{}, err
	}
	if c.Backend != BackendDelta {
		info, err := s.Info(layer)
		if err != nil {
			return Sealed{}, err
		}
		sealed, err := info.Sealed()
		sealed.Unchanged, sealed.Changed, sealed.SplitLinks = true, 0, nil
		return sealed, err
	}
	return s.sealLive(ctx, c, chain, op, "drift", (*sealing).live)
}

// SealLive seals the live directory of a delta cell alone, when Seal has found
// what cannot be kept: the directory is not where it was, and no state would say
// so otherwise. What no state can hold is left out of this one and listed; the
// home and the other areas are those of the state before. The generation stays
// as it is.
func (w *Work) SealLive(ctx context.Context, op string) (sealed Sealed, refused []Refused, err error) {
	sealed, err = w.s.sealLive(ctx, w.c, w.chain, op, "seal", func(sl *sealing) error {
		sl.lenient, sl.hidden = true, w.hidden()
		err := sl.live()
		refused = sl.refused
		return err
	})
	return sealed, refused, err
}

// sealLive makes a layer of a live directory and the rest of the state that the
// chain starts with.
func (s *Store) sealLive(ctx context.Context, c Cell, chain []string, op, what string, live func(*sealing) error) (Sealed, error) {
	return s.newLayer(op, what, func(p *pending) (Sealed, []string, []string, error) {
		sealed, keep, err := s.seal(ctx, c, p, chain[0], KindDelta, func(sl *sealing) error {
			if err := live(sl); err != nil {
				return err
			}
			return sl.keepHome()
		})
		return sealed, chain, keep, err
	}, c.Backend)
}
