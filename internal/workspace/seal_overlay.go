package workspace

import (
	"context"
	"fmt"
	"sync"

	"github.com/forkcell/forkcell/internal/fsx"
	"github.com/forkcell/forkcell/internal/tree"
)

// overlay edits the parent's manifest by what the upper directories hold: the
// cost follows the change.
func (sl *sealing) overlay(dir *fsx.Dir) error {
	var refused refusals
	areas := []func() error{
		func() error { return sl.upperArea(dir, AreaWorkspace) },
		func() error { return sl.upperArea(dir, AreaHome) },
	}
	for _, a := range sl.extra {
		areas = append(areas, func() error { return sl.extraArea(dir, a, sl.readChanges) })
	}
	for _, seal := range areas {
		if err := refused.add(seal()); err != nil {
			return err
		}
	}
	return refused.err()
}

func (sl *sealing) upperArea(dir *fsx.Dir, area string) error {
	old, err := sl.old(area)
	if err != nil {
		return err
	}
	src, err := dir.OpenDir(area)
	if err != nil {
		return err
	}
	defer src.Close()
	u := sl.s.newUpper(sl.ctx, sl.pw.w, src, old, sl.layer)
	r, err := u.read(false)
	if err != nil {
		return err
	}
	sl.bytes += u.count.bytes.Load()
	sl.keep = append(sl.keep, area)
	if area == AreaWorkspace {
		sl.split = r.split
	}
	if r.sameLinks {
		return sl.pw.w.SetAreaKeepLinks(area, r.root, old)
	}
	return sl.pw.w.SetArea(area, r.root, r.links)
}

// upper reads the upper directory of one overlay.
type upper struct {
	*scan
	gone *touched
	// over is the host's directory at the bottom; nil: there is none, or it is
	// not asked for what it has.
	over *hostDir

	mu     sync.Mutex
	leaves map[string]struct{} // what is there now; nil: nobody asks
}

func (s *Store) newUpper(ctx context.Context, w *tree.Writer, src *fsx.Dir, old *tree.Tree, layer string) *upper {
	u := &upper{scan: s.newScan(ctx, "seal", w, src), gone: newTouched()}
	u.layer, u.old, u.attrs, u.owner = layer, old, s.upperAttrs(), s.keepOwner
	return u
}

// upperTree is what an upper directory makes of the parent's tree.
type upperTree struct {
	root      tree.Entry
	links     tree.Links
	split     []string
	sameLinks bool // as the parent's
}

// read reads the upper. open says that the host's directory is at the bottom of
// the stack: then the tree is one of changes.
func (u *upper) read(open bool) (upperTree, error) {
	var links tree.Links
	var was *tree.Entry
	if u.old != nil {
		var err error
		if links, err = u.old.Links(); err != nil {
			return upperTree{}, err
		}
		root := u.old.Root()
		was = &root
	}
	if len(links.Groups) > 0 {
		u.leaves = map[string]struct{}{}
	}
	root, err := u.dir(&frame{path: ".", src: u.src, open: open}, "", was)
	if err != nil {
		return upperTree{}, err
	}
	if err := u.found.err(); err != nil {
		return upperTree{}, err
	}
	r := upperTree{root: root}
	r.links, r.split, r.sameLinks = mergeLinks(links, u.gone, u.links.links(), func(p string) bool {
		_, ok := u.leaves[p]
		return ok
	})
	return r, nil
}

// dir reads a directory of the upper. old is what the parent has there. f.open
// says whether the host's directory shows there if nothing hides it, and
// afterwards whether it shows.
func (u *upper) dir(f *frame, name string, old *tree.Entry) (tree.Entry, error) {
	info, err := f.src.Lstat(".")
	if err != nil {
		return tree.Entry{}, err
	}
	e := u.entry(name, f.path, info, tree.KindDir, old)
	all, err := f.src.Xattrs(".")
	if err != nil {
		return tree.Entry{}, err
	}
	kept, opaque, refused, lost := u.attrs.sift(all)
	u.found.attrs(f.path, refused, lost)
	e.Xattrs = kept
	below := old
	if opaque || old == nil || old.Kind != tree.KindDir {
		u.gone.add(f.path)
		below = nil
		f.edit = u.w.NewDir()
		e.Opaque = f.open && (opaque || old != nil)
	} else {
		f.edit = u.w.Edit(u.old, old.Sub)
		e.Opaque = old.Opaque
	}
	f.open = f.open && !e.Opaque
	names, err := f.src.Names()
	if err != nil {
		return tree.Entry{}, err
	}
	g := u.pool.group(u.ctx)
	for _, child := range names {
		g.do(func() error { return u.child(f, child, below) })
	}
	if err := g.wait(); err != nil {
		return tree.Entry{}, err
	}
	e.Below = u.over.below(f.path, &e)
	e.Sub, err = f.edit.Node()
	return e, err
}

func (u *upper) child(f *frame, name string, dir *tree.Entry) error {
	path := join(f.path, name)
	info, err := f.src.Lstat(name)
	if err != nil {
		return err
	}
	if info.IsWhiteout() {
		u.gone.add(path)
		e := tree.Entry{Name: name, Kind: tree.KindWhiteout}
		e.Below = u.over.below(path, &e)
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.open {
			f.edit.Put(e)
		} else {
			f.edit.Delete(name)
		}
		return nil
	}
	var old *tree.Entry
	if dir != nil {
		was, ok, err := u.old.Child(dir.Sub, name)
		if err != nil {
			return err
		}
		if ok {
			old = &was
		}
	}
	var e tree.Entry
	switch kind := kindOf(info); kind {
	case 0:
		u.found.refuse(Refused{Path: path}, deviceName(info))
		return nil
	case tree.KindDir:
		e, err = u.subdir(f, name, path, old)
	default:
		u.leafAt(path)
		e, err = u.leaf(f, name, path, info, kind, old)
		e.Below = u.over.below(path, &e)
	}
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.edit.Put(e)
	return nil
}

func (u *upper) subdir(f *frame, name, path string, old *tree.Entry) (tree.Entry, error) {
	src, err := f.src.OpenDir(name)
	if err != nil {
		return tree.Entry{}, fmt.Errorf("read: %w", err)
	}
	defer src.Close()
	return u.dir(&frame{path: path, src: src, open: f.open}, name, old)
}

func (u *upper) leafAt(path string) {
	u.gone.add(path)
	if u.leaves != nil {
		u.mu.Lock()
		u.leaves[path] = struct{}{}
		u.mu.Unlock()
	}
}
