package workspace

import (
	"errors"
	"fmt"
	"os"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// readArea is the content of an area's directory in a generation.
type readArea struct {
	root    tree.Entry
	links   tree.Links
	changes bool
}

// roots computes the roots of the area.
func (r readArea) roots(area string) (tree.AreaRoots, error) {
	return computeRoots(area, r.changes, func(*tree.Writer) (tree.Entry, tree.Links, error) {
		return r.root, r.links, nil
	})
}

// extraArea seals an area besides the two of every state. It leaves an area
// without changes to carry: one that is still as it began, and, if the layer may
// share files, one that is as in the parent.
func (sl *sealing) extraArea(dir *fsx.Dir, a placedArea, share bool, read func(src *fsx.Dir, a placedArea, old *tree.Tree, share bool) (readArea, error)) error {
	there, err := exists(dir, a.Dir)
	if err != nil || !there { // an interrupted seal found it unchanged
		return err
	}
	src, err := dir.OpenDir(a.Dir)
	if err != nil {
		return err
	}
	defer src.Close()
	old, had := sl.parent.Area(a.Name)
	got, err := read(src, a, old, share)
	if err != nil {
		return err
	}
	roots, err := got.roots(a.Name)
	if err != nil {
		return err
	}
	if !had && a.Fresh.same(roots) {
		return nil
	}
	if had && share && sameTree(old, roots) {
		return nil
	}
	sl.keep = append(sl.keep, a.Dir)
	sl.places[a.Name] = a.place()
	return setArea(sl.pw.w, a.Name, got.changes, got.root, got.links)
}

func sameTree(t *tree.Tree, r tree.AreaRoots) bool {
	root, meta := t.Roots()
	return root == r.Root && meta == r.Meta
}

// readChanges reads the upper of an area: the changes to the host's directory.
func (sl *sealing) readChanges(src *fsx.Dir, a placedArea, old *tree.Tree, _ bool) (readArea, error) {
	u := sl.s.newUpper(sl.ctx, sl.pw.w, src, old, sl.layer)
	var err error
	if u.over, err = sl.s.hostBelow(sl.ctx, a); err != nil {
		return readArea{}, err
	}
	defer u.over.close()
	r, err := u.read(true)
	return readArea{root: r.root, links: r.links, changes: true}, nameArea(a, err)
}

// readWhole reads the directory of an area that the state has whole. share means
// that unchanged entries still name the layer that has their bytes.
func (sl *sealing) readWhole(src *fsx.Dir, a placedArea, old *tree.Tree, share bool) (readArea, error) {
	sc := sl.s.newScan(sl.ctx, "seal", sl.pw.w, src)
	sc.old, sc.owner, sc.layer, sc.share = old, sl.s.keepOwner, sl.layer, share
	root, links, err := sc.run()
	return readArea{root: root, links: links}, nameArea(a, err)
}

// nameArea adds where the area is to what cannot be kept, for areas besides the
// two of every state.
func nameArea(a placedArea, err error) error {
	var u *UnsealableError
	if a.Name == AreaWorkspace || a.Name == AreaHome || !errors.As(err, &u) {
		return err
	}
	named := &UnsealableError{}
	for _, p := range u.Problems {
		named.Problems = append(named.Problems, a.Target+": "+p)
	}
	return named
}

// carry takes the other areas of the parent over, unchanged. fillCarried copies
// the files of those that have to be copied.
func (sl *sealing) carry() error {
	info, err := sl.s.Info(sl.parent.Layer())
	if err != nil {
		return err
	}
	for _, name := range sl.parent.Areas() {
		if _, done := sl.places[name]; done || name == AreaWorkspace || name == AreaHome {
			continue
		}
		t, _ := sl.parent.Area(name)
		if err := sl.b.carry(sl, name, t, info.Areas[name].place); err != nil {
			return fmt.Errorf("area %s: %w", name, err)
		}
	}
	return nil
}

// fillCarried copies the files of the areas that carry took over, into a layer
// that needs no other.
func (sl *sealing) fillCarried() error {
	for _, name := range sl.carried {
		t, _ := sl.parent.Area(name)
		dir := sl.places[name].Dir
		if err := sl.p.dir.RemoveAll(dir); err != nil && !errors.Is(err, os.ErrNotExist) { // of an interrupted seal
			return err
		}
		if err := sl.s.fillArea(sl.ctx, sl.p, dir, t, contentsOf(sl.b, sl.parent.Layer(), name)); err != nil {
			return fmt.Errorf("area %s: %w", name, err)
		}
		sl.keep = append(sl.keep, dir)
	}
	return nil
}
