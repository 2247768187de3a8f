package workspace

import (
	"errors"
	"fmt"
	"sync"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// dirScan is one directory that is being read.
type dirScan struct {
	up       *dirScan // nil for the root
	name     string   // of its entry
	src, dst *fsx.Ref
	old      *tree.Entry // the entry in the state before
	entry    tree.Entry
	info     fsx.Info

	mu    sync.Mutex
	edit  *tree.DirEdit
	known map[string]tree.Entry // the old directory
	open  bool                  // the host's directory shows in it (upper)
	moved bool                  // something changed in it while it was read
	gone  bool                  // it went away before it was read
	reads int
}

// put adds a finished entry to the directory.
func (f *dirScan) put(e tree.Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.known, e.Name)
	f.edit.Put(e)
}

func (f *dirScan) wasMoved() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.moved = true
}

// was returns the entry at a name in the state before.
func (f *dirScan) was(name string) *tree.Entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, ok := f.known[name]
	if !ok {
		return nil
	}
	return &e
}

// readDir adds the task that reads a directory. If the directory changes
// meanwhile, it is read again when all tasks below it have ended.
func (sc *scan) readDir(up *task, f *dirScan) error {
	enter := func(t *task) error {
		f.reads++
		err := sc.enterDir(t, f)
		switch {
		case errors.Is(err, errMoved):
			f.wasMoved()
			return nil
		case f.up != nil && sc.isForbidden(err):
			f.gone = true
			return nil
		}
		return err
	}
	leave := func() (bool, error) {
		err := sc.leaveDir(f)
		switch {
		case err == nil:
			return false, nil
		case !errors.Is(err, errMoved):
			return false, err
		case f.reads == rereads:
			return false, fmt.Errorf("%s: %w", join(sc.src.Path(), site{f, "."}.path()), ErrSourceChanged)
		}
		return true, sc.undo(f)
	}
	if up == nil {
		return sc.pool.run(enter, leave)
	}
	sc.pool.add(up, enter, leave)
	return nil
}

// enterDir reads a directory's metadata and names.
func (sc *scan) enterDir(t *task, f *dirScan) error {
	src, err := f.src.Open()
	if err = sc.lostError(err); errors.Is(err, errMoved) && f.up != nil {
		f.gone = true
		f.up.wasMoved()
		return nil
	}
	if err != nil {
		return err
	}
	defer f.src.Release()
	if f.info, err = src.Lstat("."); err != nil {
		return sc.lostError(err)
	}
	if f.up != nil && sc.keepsFromOthers(f.info) {
		f.gone = true
		f.up.wasMoved()
		return nil
	}
	f.entry = sc.entry(site{f, "."}, f.info, tree.KindDir, f.old)
	f.entry.Name = f.name
	all, err := src.Xattrs(".")
	if err != nil {
		return fmt.Errorf("read attributes: %w", err)
	}
	f.entry.Xattrs = sc.sift(site{f, "."}, all)
	if err := sc.beginDir(f); err != nil {
		return err
	}
	return sc.names(t, f, src)
}

// names adds tasks for the contents of a directory: the directories first, so that
// they are read last.
func (sc *scan) names(t *task, f *dirScan, src *fsx.Dir) error {
	dirs, files, err := src.Split()
	if err != nil {
		return sc.lostError(err)
	}
	if f.dst != nil && f.up != nil {
		if err := sc.makeCopy(f); err != nil {
			return fmt.Errorf("copy: %w", err)
		}
	}
	for _, name := range dirs {
		admitted, err := sc.admitsDir(f, src, name)
		if err != nil {
			return err
		}
		if !admitted {
			continue
		}
		sub := &dirScan{up: f, name: name, src: f.src.Child(name), old: f.was(name)}
		if f.dst != nil {
			sub.dst = f.dst.Child(name)
		}
		if err := sc.readDir(t, sub); err != nil {
			return err
		}
	}
	batches(sc.pool, t, files, func(name string) error {
		err := sc.child(f, name)
		switch {
		case errors.Is(err, errMoved):
			f.wasMoved()
			return nil
		case sc.isForbidden(err):
			return nil
		}
		return err
	})
	return nil
}

func (sc *scan) beginDir(f *dirScan) error {
	known := sc.old != nil && f.old != nil && f.old.Kind == tree.KindDir
	f.known = nil
	if !known || !sc.share {
		f.edit = sc.w.NewDir()
	} else {
		f.edit = sc.w.Edit(sc.old, f.old.Sub)
		if sc.exact {
			f.edit.Exact()
		}
	}
	if !known {
		return nil
	}
	children, err := sc.old.Children(f.old.Sub)
	if err != nil {
		return err
	}
	f.known = make(map[string]tree.Entry, len(children))
	for _, c := range children {
		f.known[c.Name] = c
	}
	return nil
}

func (sc *scan) makeCopy(f *dirScan) error {
	dst, err := f.up.dst.Open()
	if err != nil {
		return err
	}
	defer f.up.dst.Release()
	return dst.Mkdir(f.name, 0o700)
}

// leaveDir finishes a directory when all its names were read.
func (sc *scan) leaveDir(f *dirScan) error {
	defer f.src.Close()
	if f.dst != nil {
		defer f.dst.Close()
	}
	if f.gone {
		return nil
	}
	if f.moved {
		return errMoved
	}
	if sc.share {
		for name := range f.known { // what was put has been taken out
			f.edit.Delete(name)
		}
	}
	var err error
	if f.entry.Sub, err = f.edit.Node(); err != nil {
		return err
	}
	if sc.settle {
		if err := sc.settledDir(f); err != nil {
			return err
		}
	}
	if f.dst != nil {
		if err := sc.finishCopy(f); err != nil {
			return fmt.Errorf("copy: %w", err)
		}
	}
	if f.up != nil {
		f.up.put(f.entry)
	}
	return nil
}

// settledDir checks that a directory has not changed since it was read.
func (sc *scan) settledDir(f *dirScan) error {
	src, err := f.src.Open()
	if err != nil {
		return sc.lostError(err)
	}
	defer f.src.Release()
	after, err := src.Lstat(".")
	if err != nil {
		return sc.lostError(err)
	}
	if hasChanged(f.info, after) {
		return errMoved
	}
	return nil
}

func (sc *scan) finishCopy(f *dirScan) error {
	dst, err := f.dst.Open()
	if err != nil {
		return err
	}
	defer f.dst.Release()
	return setMeta(dst, ".", f.entry, sc.s.opt.Root)
}

// undo removes the results of reading a directory.
func (sc *scan) undo(f *dirScan) error {
	f.moved = false
	sc.links.drop(site{f, "."}.path())
	if f.up == nil {
		return sc.clear()
	}
	f.src = f.up.src.Child(f.name)
	if f.dst == nil {
		return nil
	}
	f.dst = f.up.dst.Child(f.name)
	dst, err := f.up.dst.Open()
	if err != nil {
		return err
	}
	defer f.up.dst.Release()
	if err := dst.RemoveAll(f.name); err != nil {
		return fmt.Errorf("read %s again: %w", f.name, err)
	}
	return nil
}

// clear empties the copy.
func (sc *scan) clear() error {
	if sc.dst == nil {
		return nil
	}
	names, err := sc.dst.Names()
	for _, name := range names {
		err = errors.Join(err, sc.dst.RemoveAll(name))
	}
	return err
}
