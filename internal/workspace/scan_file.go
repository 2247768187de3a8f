package workspace

import (
	"errors"
	"fmt"
	"os"

	"github.com/forkcell/forkcell/internal/fsx"
	"github.com/forkcell/forkcell/internal/tree"
)

// errReplaced means that a name has become another file's. What is there must not
// be taken for what the names of the first file share, so its directory is read
// again.
var errReplaced = errors.New("replaced under the reader")

// leaf reads anything but a directory, once for all its names.
func (sc *scan) leaf(f *frame, name, path string, info fsx.Info, kind tree.Kind, old *tree.Entry) (tree.Entry, error) {
	g := sc.links.group(info)
	if g == nil {
		return sc.leafAlone(f, name, path, info, kind, old)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.paths) == 0 {
		e, err := sc.leafAlone(f, name, path, info, kind, old)
		if err == nil {
			g.paths, g.entry = append(g.paths, path), e
		}
		return e, err
	}
	if sc.dst != nil {
		if err := sc.dst.Link(g.paths[0], path); err != nil {
			return tree.Entry{}, fmt.Errorf("copy: %w", err)
		}
	}
	g.paths = append(g.paths, path)
	e := g.entry
	e.Name = name
	sc.own(path, &e, info, old)
	return e, nil
}

func (sc *scan) leafAlone(f *frame, name, path string, info fsx.Info, kind tree.Kind, old *tree.Entry) (tree.Entry, error) {
	e := sc.entry(name, path, info, kind, old)
	var err error
	switch {
	case kind == tree.KindFile:
		err = sc.file(f, name, path, info, &e, old)
	case kind == tree.KindSymlink:
		if e.Target, err = f.src.Readlink(name); err != nil {
			return e, sc.lost(err)
		}
		e.Size = int64(len(e.Target))
	}
	if err != nil {
		return e, err
	}
	if kind != tree.KindFile {
		all, err := f.src.Xattrs(name)
		if err != nil {
			return e, sc.lost(err)
		}
		e.Xattrs = sc.sift(path, all)
		if f.dst != nil {
			if err := makeSpecial(f.dst, name, e, sc.s.opt.Root); err != nil {
				return e, fmt.Errorf("copy: %w", err)
			}
		}
	}
	if kind == tree.KindFile {
		sc.count.add(path, e.Size)
	}
	return e, nil
}

// file reads one regular file, again if it changes meanwhile.
func (sc *scan) file(f *frame, name, path string, info fsx.Info, e *tree.Entry, old *tree.Entry) error {
	if sc.dst == nil && sc.sameStamp(info, old) {
		e.Digest, e.Xattrs, e.Stamp = old.Digest, old.Xattrs, old.Stamp
		return nil
	}
	read := func() (tree.Entry, error) {
		if sc.settle {
			if err := sc.s.step("scan.found"); err != nil {
				return *e, err
			}
		}
		src, err := f.src.OpenFile(name)
		if err != nil {
			return *e, sc.lost(err)
		}
		defer src.Close()
		before := info
		if sc.settle {
			if before, err = fsx.StatFile(src); err != nil {
				return *e, err
			}
			if info.Nlink > 1 && (before.Ino != info.Ino || before.Dev != info.Dev) || sc.keepsFromOthers(before) {
				return *e, errReplaced
			}
			*e = sc.entry(name, path, before, tree.KindFile, old)
		}
		all, err := fileAttrs(src, f.src, name)
		if err != nil {
			return *e, sc.lost(err)
		}
		e.Xattrs = sc.sift(path, all)
		if err := sc.contents(f, name, src, e, old); err != nil {
			return *e, err
		}
		if sc.settle {
			if err := sc.s.step("scan.read"); err != nil {
				return *e, err
			}
			after, err := fsx.StatFile(src)
			if err != nil {
				return *e, err
			}
			if moved(before, after) || after.Size != e.Size {
				return *e, errMoved
			}
		}
		if sc.stamps && sc.start.Sub(before.CTime.Time()) > racy {
			e.Stamp = tree.Stamp{Ino: before.Ino, CTime: before.CTime, Dev: before.Dev}
		}
		return *e, nil
	}
	_, err := sc.settled(path, read, func() error { return removeIfThere(f.dst, name) })
	if errors.Is(err, errReplaced) {
		return errMoved
	}
	return err
}

// contents reads a file's bytes and puts them where they are wanted.
func (sc *scan) contents(f *frame, name string, src *os.File, e *tree.Entry, old *tree.Entry) (err error) {
	switch {
	case f.dst != nil:
		e.Digest, e.Size, err = sc.s.copyFile(f.dst, name, src, *e, sc.s.opt.Root)
	case sc.objects != nil:
		e.Digest, e.Size, err = sc.objects.put(src, e.Size, old)
	default:
		e.Digest, e.Size, err = sc.s.hashFile(src)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", join(f.path, name), err)
	}
	return nil
}

// sameStamp tells whether a file need not be read again.
func (sc *scan) sameStamp(info fsx.Info, old *tree.Entry) bool {
	return sc.stamps && old != nil && old.Kind == tree.KindFile && old.Stamp != (tree.Stamp{}) &&
		old.Stamp == tree.Stamp{Ino: info.Ino, CTime: info.CTime, Dev: info.Dev} &&
		old.Size == info.Size && old.MTime == info.MTime &&
		(sc.objects == nil || sc.objects.has(old.Digest, old.Size))
}
