package workspace

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/mount"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// overlayBackend stacks the changes of each generation as overlay file systems
// do. A layer is the upper directory of its generation, and is based on the layers
// of the state that the generation began with.
type overlayBackend struct {
	layerDirs
	sharedAreas
	noLiveDirectory
	s *Store
}

// check refuses layers of the other kind of home: root's overlays ignore the
// attributes of an ordinary user's, and the reverse.
func (b overlayBackend) check(info Info) error {
	if kind := b.s.attrKind(); info.OverlayAttrs != kind {
		return fmt.Errorf("%s: %w: it has %s.overlay attributes, this home is used with %s.overlay",
			info.Layer, ErrMixed, info.OverlayAttrs, kind)
	}
	return nil
}

func (overlayBackend) layerOn(chain []string) position { return position{KindDiff, chain} }

// positions looks in the layers above the lost one, then in its parent.
func (b overlayBackend) positions(d Description) []position {
	var lowers [][]string
	infos, _, err := b.s.LayerInfos()
	for _, info := range infos {
		if i := slices.Index(info.Lower, d.Layer); err == nil && i >= 0 {
			lowers = append(lowers, info.Lower[i+1:])
			break
		}
	}
	if d.Parent != "" {
		if info, err := b.s.Info(d.Parent); err == nil {
			lowers = append(lowers, append([]string{d.Parent}, info.Lower...))
		}
	}
	var list []position
	for _, lower := range append(lowers, []string{}) {
		at := position{KindDiff, lower}
		switch {
		case d.Parent == "":
			at.kind = KindBase
		case len(lower) == 0:
			at.kind = KindSquash
		}
		list = append(list, at)
	}
	return list
}

func (overlayBackend) checkArea(Area) error { return nil }

// fill leaves the directory empty, but with the metadata of the state's root, so
// that an unchanged one is seen as unchanged.
func (b overlayBackend) fill(_ context.Context, _ *Work, d *fsx.Dir, a placedArea, t *tree.Tree) error {
	if a.Host != "" {
		host, err := a.openHost()
		if err != nil {
			return err
		}
		host.Close()
	}
	return setMeta(d, ".", t.Root(), b.s.opt.Root)
}

// fillNew gives the directory the metadata of what is below it.
func (b overlayBackend) fillNew(ctx context.Context, d *fsx.Dir, a placedArea, _ *secretfiles.Rules) (tree.AreaRoots, error) {
	below, err := b.belowNew(d, a)
	if err != nil {
		return tree.AreaRoots{}, err
	}
	if err := b.hide(ctx, d, a); err != nil {
		return tree.AreaRoots{}, err
	}
	if err := setMeta(d, ".", below, b.s.opt.Root); err != nil {
		return tree.AreaRoots{}, err
	}
	return computeRoots(a.Name, true, func(w *tree.Writer) (tree.Entry, tree.Links, error) {
		r, err := b.s.newUpper(ctx, w, d, nil, "").read(true)
		return r.root, r.links, err
	})
}

// hide makes whiteouts of what a new area does not show of its base.
func (b overlayBackend) hide(ctx context.Context, d *fsx.Dir, a placedArea) error {
	if len(a.without) == 0 {
		return nil
	}
	t, err := b.s.area(a.Base.Layer, AreaWorkspace)
	if err != nil {
		return err
	}
	p := &placing{ctx: ctx, t: t, upper: d, owners: b.s.opt.Root, dirs: map[string]tree.Entry{".": t.Root()}}
	for _, name := range a.without {
		if err := p.place(StandIn{Path: name, Absent: true}); err != nil {
			return fmt.Errorf("hide %q: %w", shortName(name), err)
		}
	}
	return p.finish()
}

// belowNew returns the root of what is below a new area: a directory of the host,
// a sealed state, or, if there is neither, the area's own directory d.
func (b overlayBackend) belowNew(d *fsx.Dir, a placedArea) (tree.Entry, error) {
	if a.Base.Layer != "" {
		t, err := b.s.area(a.Base.Layer, AreaWorkspace)
		if err != nil {
			return tree.Entry{}, err
		}
		return t.Root(), nil
	}
	if a.Host == "" {
		return dirEntry(d)
	}
	host, err := a.openHost()
	if err != nil {
		return tree.Entry{}, err
	}
	defer host.Close()
	e, err := dirEntry(host)
	if err != nil {
		return tree.Entry{}, err
	}
	all, err := host.Xattrs(".")
	e.Xattrs, _, _, _ = b.s.plainAttrs().classify(all)
	return e, err
}

// dirEntry returns the entry of an open directory, without its attributes.
func dirEntry(d *fsx.Dir) (tree.Entry, error) {
	info, err := d.Lstat(".")
	return entryOf(info, tree.KindDir), err
}

// prepare makes the scratch directories of the overlays.
func (b overlayBackend) prepare(_ context.Context, w *Work) error {
	if err := b.resume(w); err != nil {
		return err
	}
	dirs := []string{"work"}
	for _, a := range w.allAreas() {
		dirs = append(dirs, "work/"+a.Dir)
		if len(w.lowers[a.Name]) == 0 {
			dirs = append(dirs, "work/"+emptyLower+a.Dir)
		}
	}
	for _, name := range dirs {
		if err := w.p.dir.Mkdir(name, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// emptyLower begins the name of the empty directory below an area without a base,
// in the scratch directory of its generation: an overlay needs a lower directory.
const emptyLower = "nothing-"

// resume lists the directories below each area, the topmost first.
func (b overlayBackend) resume(w *Work) error {
	w.lowers = map[string][]string{}
	for _, a := range w.allAreas() {
		var dirs []string
		for _, layer := range w.chain {
			dir, err := b.s.areaDir(layer, a.Name)
			if err != nil {
				return err
			}
			if dir != "" {
				dirs = append(dirs, path.Join(b.s.path, "layers", layer, dir))
			}
		}
		below, err := b.baseDirs(w.c, a.Base)
		if err != nil {
			return err
		}
		if dirs = append(dirs, below...); a.Host != "" {
			dirs = append(dirs, a.Host)
		}
		w.lowers[a.Name] = dirs
	}
	return nil
}

// baseDirs lists the directories of a sealed state below an area of a cell, the
// topmost first.
func (b overlayBackend) baseDirs(c Cell, base Base) ([]string, error) {
	if base.Layer == "" {
		return nil, nil
	}
	_, chain, err := b.s.usable(c, base.Layer)
	for i, layer := range chain {
		chain[i] = path.Join(b.s.path, "layers", layer, AreaWorkspace)
	}
	return chain, err
}

func (overlayBackend) mounts(w *Work, set *mount.Set) {
	dir := w.Dir()
	for _, a := range w.allAreas() {
		o := mount.Overlay{
			Target: a.Target, Upper: path.Join(dir, a.Dir), Work: path.Join(dir, "work", a.Dir),
			Lower: slices.Clone(w.lowers[a.Name]), HostLower: a.Host != "", System: a.System, Bare: a.Bare,
		}
		if len(o.Lower) == 0 {
			o.Lower = []string{path.Join(dir, "work", emptyLower+a.Dir)}
		}
		set.Overlays = append(set.Overlays, o)
		if a.Name == AreaWorkspace {
			w.mountStandIns(set, o.Target, o.Upper)
		}
	}
}

func (b overlayBackend) capture(ctx context.Context, c *Capture, from *Work) error {
	return c.copyAreas(ctx, from, b.s.upperAttrs())
}

func (b overlayBackend) rebuild(v *verification, w *tree.Writer, area string, t *tree.Tree) (tree.Entry, tree.Links, error) {
	return b.s.mergeArea(v.newScan(w, nil, t), area, v.chain)
}
