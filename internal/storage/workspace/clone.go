package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// cloneBackend keeps a full copy of each state. A layer needs no other, and a
// generation is a copy of the state that it begins with.
type cloneBackend struct {
	layerDirs
	copiedAreas
	noLiveDirectory
	s *Store
}

func (cloneBackend) prepare(context.Context, *Work) error { return nil }

func (cloneBackend) layerOn([]string) position { return position{kind: KindFull} }

func (cloneBackend) positions(d Description) []position {
	if d.Parent == "" {
		return []position{{kind: KindBase}}
	}
	return []position{{kind: KindFull}}
}

func (cloneBackend) seal(sl *sealing, dir *fsx.Dir) error {
	for _, area := range []string{AreaWorkspace, AreaHome} {
		if err := sl.scanArea(dir, area, false); err != nil {
			return err
		}
	}
	return sl.wholeExtra(dir, false)
}

// carry copies the area, and leaves copying its files to fillCarried.
func (b cloneBackend) carry(sl *sealing, area string, t *tree.Tree, was place) error {
	sl.places[area] = was.in(areaDirName(len(sl.extra) + len(sl.carried)))
	sl.carried = append(sl.carried, area)
	return b.s.copyTree(sl.pw, t, area, sl.layer)
}

// compose writes the edited tree whole.
func (b cloneBackend) compose(ed *editing) error {
	sl := ed.sl
	t, _, err := b.s.memoryTree(false, func(w *tree.Writer) (tree.Entry, tree.Links, *findings, error) {
		root, links, split, err := ed.tree(w, sl.layer)
		sl.split = split
		return root, links, nil, err
	})
	if err != nil {
		return err
	}
	defer b.s.Forget(t)
	byPath := ed.byPath()
	before := contentsOf(b, sl.parent.Layer(), AreaWorkspace)
	open := func(path string, e tree.Entry) (io.ReadCloser, error) {
		if edit := byPath[path]; edit != nil && edit.New != nil {
			return edit.open()
		}
		e.Layer = sl.parent.Layer()
		return before(path, e)
	}
	home, err := sl.parentArea(AreaHome)
	if err != nil {
		return err
	}
	if ed.noHome {
		return errors.Join(sl.wholeArea(AreaWorkspace, t, open), ed.emptyHome())
	}
	return errors.Join(
		sl.wholeArea(AreaWorkspace, t, open),
		sl.wholeArea(AreaHome, home, contentsOf(b, sl.parent.Layer(), AreaHome)),
	)
}

// wholeArea writes an area with all its files and nodes.
func (sl *sealing) wholeArea(area string, t *tree.Tree, open opener) error {
	if err := sl.s.copyTree(sl.pw, t, area, sl.layer); err != nil {
		return err
	}
	sl.keep = append(sl.keep, area)
	return sl.s.fillArea(sl.ctx, sl.p, area, t, open)
}

func (b cloneBackend) rebuild(v *verification, w *tree.Writer, area string, t *tree.Tree) (tree.Entry, tree.Links, error) {
	dir, err := b.s.areaDir(v.layer, area)
	if err != nil {
		return tree.Entry{}, tree.Links{}, err
	}
	if dir == "" {
		return tree.Entry{}, tree.Links{}, fmt.Errorf("%w: no directory for %s", ErrCorrupt, area)
	}
	src, err := b.s.home.OpenDir("layers/" + v.layer + "/" + dir)
	if err != nil {
		return tree.Entry{}, tree.Links{}, err
	}
	defer src.Close()
	return v.newScan(w, src, t).run()
}
