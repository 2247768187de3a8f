package workspace

import (
	"context"
	"errors"
	"os"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/mount"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// deltaBackend keeps the contents of the workspace by digest, as objects, and
// leaves the files in the real directory of the cell. A layer is a manifest, with
// a copy of the home if that changed.
type deltaBackend struct {
	copiedAreas
	sharedAreas
	s *Store
}

func (deltaBackend) areas() []string { return []string{AreaHome} }

func (deltaBackend) layerOn(chain []string) position { return position{KindDelta, chain} }

func (deltaBackend) positions(Description) []position { return []position{{kind: KindDelta}} }

// unpackDir is the live directory, which is made if it is in the home.
func (b deltaBackend) unpackDir(c Cell, _ *pending) (*fsx.Dir, error) {
	if c.Live == b.s.LivePath(c.ID) {
		if err := b.s.home.MkdirAll("live/"+c.ID+"/"+AreaWorkspace, 0o700); err != nil {
			return nil, err
		}
	}
	return fsx.OpenRoot(c.Live)
}

func (b deltaBackend) receive(sc *scan, p *pending, _ bool) (err error) {
	sc.objects, err = b.s.openObjects(p.op)
	return err
}

func (b deltaBackend) open(layer, area, path string, e tree.Entry) (*os.File, error) {
	if area == AreaWorkspace {
		return b.s.openObject(e.Digest)
	}
	return b.s.openLayerFile(layer, area, path, e)
}

func (deltaBackend) prepare(ctx context.Context, w *Work) error { return w.findMasks(ctx) }

func (b deltaBackend) mounts(w *Work, set *mount.Set) {
	b.copiedAreas.mounts(w, set)
	set.Binds = append(set.Binds, mount.Bind{Target: w.c.MountAt, Source: w.c.Live, Owned: true, Live: true})
	w.mountMasks(set)
}

// capture seals the live directory too: its changed files are hashed while
// nothing writes to them.
func (b deltaBackend) capture(ctx context.Context, c *Capture, from *Work) error {
	if err := b.copiedAreas.capture(ctx, c, from); err != nil {
		return err
	}
	sl, err := b.s.newSealing(ctx, from.c, c.w.p, from.layer)
	if err != nil {
		return err
	}
	c.live, sl.extra, sl.hidden = sl, from.extra, from.hiddenFiles()
	return sl.live()
}

// seal reads the live directory as the workspace, then the generation's copies.
func (deltaBackend) seal(sl *sealing, dir *fsx.Dir) error {
	if err := sl.live(); err != nil {
		return err
	}
	return sl.copies(dir)
}

// copies seals the areas that a delta generation has copies of.
func (sl *sealing) copies(dir *fsx.Dir) error {
	if err := sl.wholeExtra(dir, true); err != nil {
		return err
	}
	there, err := exists(dir, AreaHome)
	if err != nil {
		return err
	}
	if !there { // an interrupted seal found it unchanged
		return sl.keepHome()
	}
	return sl.scanArea(dir, AreaHome, true)
}

// live reads the live directory into the manifest. It reads files with new stamps,
// and keeps their contents as objects.
func (sl *sealing) live() error {
	old, err := sl.parentArea(AreaWorkspace)
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

// keepHome takes the parent's home over unchanged.
func (sl *sealing) keepHome() error {
	home, err := sl.parentArea(AreaHome)
	if err != nil {
		return err
	}
	return sl.pw.w.SetAreaKeepLinks(AreaHome, home.Root(), home)
}

// Drift seals the changes that others made in the live directory of a delta cell
// since its last seal, so that they are a separate state and do not count as part
// of the next run. With the other backends nothing can drift.
func (s *Store) Drift(ctx context.Context, c Cell, layer, op string) (Sealed, error) {
	b, chain, err := s.usable(c, layer)
	if err != nil {
		return Sealed{}, err
	}
	return b.drift(ctx, c, chain, op)
}

func (b deltaBackend) drift(ctx context.Context, c Cell, chain []string, op string) (Sealed, error) {
	return b.s.sealLive(ctx, c, chain, op, "drift", (*sealing).live)
}

// SealLive seals only the live directory of a delta cell, after Seal has failed
// with an *UnsealableError: otherwise no state would record how the directory
// changed. What no state can hold is left out and returned in refused. The home
// and the other areas are those of the state before. The generation stays as it
// is.
func (w *Work) SealLive(ctx context.Context, op string) (sealed Sealed, refused []RefusedEntry, err error) {
	sealed, err = w.s.sealLive(ctx, w.c, w.chain, op, "seal", func(sl *sealing) error {
		sl.lenient, sl.hidden = true, w.hiddenFiles()
		err := sl.live()
		refused = sl.refused
		return err
	})
	return sealed, refused, err
}

// sealLive makes a layer from a live directory and the rest of the state that the
// chain starts with.
func (s *Store) sealLive(ctx context.Context, c Cell, chain []string, op, what string, live func(*sealing) error) (Sealed, error) {
	return s.newLayer(op, what, func(p *pending) (Sealed, []string, []string, error) {
		sealed, keep, err := s.seal(ctx, c, p, chain[0], func(sl *sealing) error {
			if err := live(sl); err != nil {
				return err
			}
			return sl.keepHome()
		})
		return sealed, chain, keep, err
	}, c.Backend)
}
