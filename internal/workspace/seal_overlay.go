package workspace

import (
	"errors"
	"fmt"
	"sync"

	"github.com/forkcell/forkcell/internal/fsx"
	"github.com/forkcell/forkcell/internal/tree"
)

// overlay edits the parent's manifest by what the upper directories hold: the
// cost follows the change.
func (sl *sealing) overlay(dir *fsx.Dir) error {
	var refused UnsealableError
	for _, area := range []string{AreaWorkspace, AreaHome} {
		err := sl.upperArea(dir, area)
		var u *UnsealableError
		if errors.As(err, &u) {
			refused.Problems = append(refused.Problems, u.Problems...)
			continue
		}
		if err != nil {
			return err
		}
	}
	if len(refused.Problems) > 0 {
		return &refused
	}
	return nil
}

func (sl *sealing) upperArea(dir *fsx.Dir, area string) error {
	old, err := sl.old(area)
	if err != nil {
		return err
	}
	links, err := old.Links()
	if err != nil {
		return err
	}
	src, err := dir.OpenDir(area)
	if err != nil {
		return err
	}
	defer src.Close()
	u := &upper{scan: sl.s.newScan(sl.ctx, "seal", sl.pw.w, src), gone: newTouched()}
	u.layer, u.old, u.attrs, u.owner = sl.layer, old, sl.s.upperAttrs(), sl.s.keepOwner
	if len(links.Groups) > 0 {
		u.leaves = map[string]struct{}{}
	}
	was := old.Root()
	root, err := u.dir(&frame{path: ".", src: src}, "", &was)
	if err != nil {
		return err
	}
	if err := u.found.err(); err != nil {
		return err
	}
	sl.bytes += u.count.bytes.Load()
	sl.keep = append(sl.keep, area)
	merged, split, same := mergeLinks(links, u.gone, u.links.links(), func(p string) bool {
		_, ok := u.leaves[p]
		return ok
	})
	if area == AreaWorkspace {
		sl.split = split
	}
	if same {
		return sl.pw.w.SetAreaKeepLinks(area, root, old)
	}
	return sl.pw.w.SetArea(area, root, merged)
}

// upper reads the upper directory of one overlay.
type upper struct {
	*scan
	gone *touched

	mu     sync.Mutex
	leaves map[string]struct{} // what is there now; nil: nobody asks
}

// dir reads a directory of the upper. old is what the parent has there.
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
	} else {
		f.edit = u.w.Edit(u.old, old.Sub)
	}
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
		f.mu.Lock()
		defer f.mu.Unlock()
		f.edit.Delete(name)
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
		u.found.problem("%s: %s", path, deviceName(info))
		return nil
	case tree.KindDir:
		e, err = u.subdir(f, name, path, old)
	default:
		u.leafAt(path)
		e, err = u.leaf(f, name, path, info, kind, old)
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
	return u.dir(&frame{path: path, src: src}, name, old)
}

func (u *upper) leafAt(path string) {
	u.gone.add(path)
	if u.leaves != nil {
		u.mu.Lock()
		u.leaves[path] = struct{}{}
		u.mu.Unlock()
	}
}
