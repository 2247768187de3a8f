package workspace

import (
	"context"
	"fmt"
	"sync"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// seal edits the parent's manifest by what the upper directories hold: the cost
// follows the change.
func (overlayBackend) seal(sl *sealing, dir *fsx.Dir) error {
	var refused refusals
	areas := []func() error{
		func() error { return sl.upperArea(dir, AreaWorkspace) },
		func() error { return sl.upperArea(dir, AreaHome) },
	}
	for _, a := range sl.extra {
		areas = append(areas, func() error { return sl.extraArea(dir, a, true, sl.readChanges) })
	}
	for _, seal := range areas {
		if err := refused.add(seal()); err != nil {
			return err
		}
	}
	return refused.err()
}

func (sl *sealing) upperArea(dir *fsx.Dir, area string) error {
	old, err := sl.parentArea(area)
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
	gone *touchedPaths // nil if there are no links
	// over is the host's directory below the layers; nil if there is none, or
	// what it has does not matter.
	over *hostDir

	mu     sync.Mutex
	leaves map[string]struct{} // present paths; nil if there are no links
}

func (s *Store) newUpper(ctx context.Context, w *tree.Writer, src *fsx.Dir, old *tree.Tree, layer string) *upper {
	u := &upper{scan: s.newScan(ctx, "seal", w, src)}
	u.layer, u.old, u.attrs, u.owner = layer, old, s.upperAttrs(), s.keepOwner
	return u
}

// upperTree is the parent's tree with the changes of an upper directory.
type upperTree struct {
	root      tree.Entry
	links     tree.Links
	split     []string
	sameLinks bool // as the parent's
}

// read reads the upper. open means that the host's directory is below the layers:
// then the tree is one of changes.
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
		u.gone, u.leaves = newTouched(), map[string]struct{}{}
	}
	root := &dirScan{src: u.pool.keeper.Root(u.src), old: was, open: open}
	if err := u.pool.run(u.dir(root)); err != nil {
		return upperTree{}, err
	}
	if err := u.found.err(); err != nil {
		return upperTree{}, err
	}
	root.entry.Name = ""
	r := upperTree{root: root.entry}
	r.links, r.split, r.sameLinks = mergeLinks(links, u.gone, u.links.links(), func(p string) bool {
		_, ok := u.leaves[p]
		return ok
	})
	return r, nil
}

// dir returns the task that reads a directory of the upper. Before it, f.open
// reports whether the host's directory shows there if nothing hides it;
// afterwards, whether it shows.
func (u *upper) dir(f *dirScan) (enter func(t *task) error, leave func() (bool, error)) {
	enter = func(t *task) error {
		src, err := f.src.Open()
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		defer f.src.Release()
		below, err := u.enterUpper(f, src)
		if err != nil {
			return err
		}
		dirs, files, err := src.Split()
		if err != nil {
			return err
		}
		for _, name := range dirs {
			sub := &dirScan{up: f, name: name, src: f.src.Child(name), open: f.open}
			if sub.old, err = u.entryBelow(below, name); err != nil {
				return err
			}
			enter, leave := u.dir(sub)
			u.pool.add(t, enter, leave)
		}
		batches(u.pool, t, files, func(name string) error { return u.child(f, name, below) })
		return nil
	}
	leave = func() (again bool, err error) {
		defer f.src.Close()
		if u.over != nil {
			f.entry.Below = u.over.entryBelow(site{f, "."}.path(), &f.entry)
		}
		if f.entry.Sub, err = f.edit.Node(); err == nil && f.up != nil {
			f.up.put(f.entry)
		}
		return false, err
	}
	return enter, leave
}

// enterUpper reads a directory's metadata. It returns the parent's directory, as
// far as it shows; nil if there is none.
func (u *upper) enterUpper(f *dirScan, src *fsx.Dir) (below *tree.Entry, err error) {
	info, err := src.Lstat(".")
	if err != nil {
		return nil, err
	}
	at := site{f, "."}
	f.entry = u.entry(at, info, tree.KindDir, f.old)
	f.entry.Name = f.name
	all, err := src.Xattrs(".")
	if err != nil {
		return nil, err
	}
	kept, opaque, refused, lost := u.attrs.classify(all)
	if len(refused)+len(lost) > 0 {
		u.found.attrs(at.path(), refused, lost)
	}
	f.entry.Xattrs = kept
	if opaque || f.old == nil || f.old.Kind != tree.KindDir {
		u.goneAt(at)
		f.edit = u.w.NewDir()
		f.entry.Opaque = f.open && (opaque || f.old != nil)
	} else {
		below = f.old
		f.edit = u.w.Edit(u.old, f.old.Sub)
		f.entry.Opaque = f.old.Opaque
	}
	f.open = f.open && !f.entry.Opaque
	return below, nil
}

// entryBelow returns the entry at a name of the parent's directory.
func (u *upper) entryBelow(dir *tree.Entry, name string) (*tree.Entry, error) {
	if dir == nil {
		return nil, nil //nolint:nilnil // there is no entry
	}
	e, ok, err := u.old.Child(dir.Sub, name)
	if err != nil || !ok {
		return nil, err
	}
	return &e, nil
}

// child reads a name that is not a directory.
func (u *upper) child(f *dirScan, name string, dir *tree.Entry) error {
	src, err := f.src.Open()
	if err != nil {
		return err
	}
	defer f.src.Release()
	info, err := src.Lstat(name)
	if err != nil {
		return err
	}
	at := site{f, name}
	if info.IsWhiteout() {
		u.whiteout(at)
		return nil
	}
	old, err := u.entryBelow(dir, name)
	if err != nil {
		return err
	}
	kind := tree.KindOf(info)
	if kind == 0 {
		u.found.refuse(RefusedEntry{Path: at.path()}, deviceName(info))
		return nil
	}
	u.leafAt(at)
	e, err := u.leaf(src, at, info, kind, old)
	if err != nil {
		return err
	}
	if u.over != nil {
		e.Below = u.over.entryBelow(at.path(), &e)
	}
	f.put(e)
	return nil
}

// whiteout removes a name, or hides the host's.
func (u *upper) whiteout(at site) {
	u.goneAt(at)
	e := tree.Entry{Name: at.name, Kind: tree.KindWhiteout}
	if u.over != nil {
		e.Below = u.over.entryBelow(at.path(), &e)
	}
	at.f.mu.Lock()
	defer at.f.mu.Unlock()
	if at.f.open {
		at.f.edit.Put(e)
	} else {
		at.f.edit.Delete(at.name)
	}
}

func (u *upper) goneAt(at site) {
	if u.gone != nil {
		u.gone.add(at.path())
	}
}

func (u *upper) leafAt(at site) {
	if u.gone == nil {
		return
	}
	path := at.path()
	u.gone.add(path)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.leaves[path] = struct{}{}
}
