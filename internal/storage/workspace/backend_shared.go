package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/mount"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// layerDirs is the part of a backend whose layers have the files of both areas
// in directories: overlay and clone.
type layerDirs struct{ s *Store }

func (layerDirs) areas() []string { return []string{AreaWorkspace, AreaHome} }

func (layerDirs) unpackDir(_ Cell, p *pending) (*fsx.Dir, error) {
	return plainDir(p.dir, AreaWorkspace)
}

func (layerDirs) receive(sc *scan, p *pending, inPlace bool) (err error) {
	sc.layer = p.layer
	if !inPlace {
		sc.dst, err = plainDir(p.dir, AreaWorkspace)
	}
	return err
}

func (b layerDirs) open(layer, area, path string, e tree.Entry) (*os.File, error) {
	return b.s.openLayerFile(layer, area, path, e)
}

// openLayerFile opens a file in the layer that holds its bytes.
func (s *Store) openLayerFile(layer, area, path string, e tree.Entry) (*os.File, error) {
	holder := e.Layer
	if holder == "" {
		holder = layer
	}
	if err := checkID("layer", holder); err != nil {
		return nil, err
	}
	dir, err := s.areaDir(holder, area)
	if err != nil {
		return nil, err
	}
	if dir == "" {
		return nil, fmt.Errorf("%s has no directory for %s: %w", holder, area, os.ErrNotExist)
	}
	f, err := s.home.OpenFile("layers/" + holder + "/" + dir + "/" + path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("it is missing from %s: %w", holder, os.ErrNotExist)
	}
	return f, err
}

// copiedAreas is the part of a backend whose generations have a full copy of
// each area: clone, and delta except for the workspace.
type copiedAreas struct{ s *Store }

func (copiedAreas) check(Info) error { return nil }

func (copiedAreas) checkArea(a Area) error {
	switch {
	case a.System:
		return ErrNoSystemArea
	case a.Host == "":
		return ErrNoBase
	}
	return nil
}

func (b copiedAreas) fill(ctx context.Context, w *Work, d *fsx.Dir, a placedArea, t *tree.Tree) error {
	src := contentsOf(w.b, w.layer, a.Name)
	return b.s.materialise(ctx, t, src, d, MaterialiseOptions{Owners: b.s.opt.Root, Unchecked: true})
}

func (b copiedAreas) fillNew(ctx context.Context, d *fsx.Dir, a placedArea, rules *secretfiles.Rules) (tree.AreaRoots, error) {
	host, err := a.openHost()
	if err != nil {
		return tree.AreaRoots{}, err
	}
	defer host.Close()
	return b.s.copyHost(ctx, a.Name, host, d, rules)
}

// copyHost copies the host's directory, without what its owner keeps from others
// and what rules leave out, and returns the roots of the copy.
func (s *Store) copyHost(ctx context.Context, name string, host, d *fsx.Dir, rules *secretfiles.Rules) (tree.AreaRoots, error) {
	return computeRoots(name, false, func(w *tree.Writer) (tree.Entry, tree.Links, error) {
		sc := s.newScan(ctx, "copy", w, host)
		sc.dst, sc.settle, sc.public = d, true, true
		if rules != nil {
			sc.filter = keepOnly(rules, nil).Reading(host.OpenFile)
		}
		sc.owner = func(_ site, e *tree.Entry, _ *tree.Entry) {
			if !s.opt.Root {
				e.UID, e.GID = uint32(os.Geteuid()), uint32(os.Getegid())
			}
		}
		return sc.run()
	})
}

func (copiedAreas) resume(*Work) error { return nil }

func (copiedAreas) mounts(w *Work, set *mount.Set) {
	dir := w.Dir()
	for _, a := range w.allAreas() {
		set.Binds = append(set.Binds, mount.Bind{Target: a.Target, Source: path.Join(dir, a.Dir), Owned: true})
	}
}

func (b copiedAreas) capture(ctx context.Context, c *Capture, from *Work) error {
	return c.copyAreas(ctx, from, b.s.plainAttrs())
}

// sharedAreas is the part of a backend whose layers may name the files of other
// layers: overlay and delta.
type sharedAreas struct{}

func (sharedAreas) carry(sl *sealing, area string, t *tree.Tree, was place) error {
	sl.places[area] = was.in("")
	return sl.pw.w.SetAreaKeepLinks(area, t.Root(), t)
}

// noLiveDirectory is the part of a backend whose cells have no real directory:
// overlay and clone.
type noLiveDirectory struct{ s *Store }

func (b noLiveDirectory) drift(_ context.Context, _ Cell, chain []string, _ string) (Sealed, error) {
	return b.s.sealedAsIs(chain[0])
}

func (noLiveDirectory) checkSwitch(_, _ string) error { return nil }

func (noLiveDirectory) switchLive(context.Context, Cell, string, string, string) error { return nil }

func (noLiveDirectory) forkLive(context.Context, Cell, string) error { return nil }

func (noLiveDirectory) takeBack(context.Context, *Work) ([]TakenBack, error) { return nil, nil }

func (noLiveDirectory) liveUsage(context.Context, Cell) (int64, error) { return 0, nil }
