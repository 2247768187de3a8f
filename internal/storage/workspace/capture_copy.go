package workspace

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// copying copies a generation's directory so that the copy seals to the same
// state. It keeps whiteouts and opaque directories, but not the attributes with
// which the kernel records where an upper's files came from.
type copying struct {
	s     *Store
	pool  *pool
	attrs attrRules
	root  *fsx.Dir // of the copy
	links *linkSet
	found *findings
}

// copyAreas copies the directories of a generation's areas, the workspace last: what
// CaptureStable copies before two equal copies of it end is of a moment of the second one.
func (c *Capture) copyAreas(ctx context.Context, from *Work, attrs attrRules) error {
	var refused refusals
	for _, a := range slices.Backward(from.allAreas()) {
		if err := c.w.s.step("capture.area"); err != nil {
			return err
		}
		if err := refused.add(nameArea(a, from.copyArea(ctx, c.w.p, a.Dir, attrs))); err != nil {
			return err
		}
	}
	return refused.err()
}

func (w *Work) copyArea(ctx context.Context, to *pending, dir string, attrs attrRules) error {
	src, err := w.p.dir.OpenDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil // an interrupted seal found it unchanged, or sealing the copy fails
	}
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := plainDir(to.dir, dir)
	if err != nil {
		return err
	}
	defer dst.Close()
	return w.s.copyDir(ctx, src, dst, attrs)
}

// copyDir copies a directory to an empty one.
func (s *Store) copyDir(ctx context.Context, src, dst *fsx.Dir, attrs attrRules) error {
	c := &copying{s: s, pool: newPool(ctx), attrs: attrs, root: dst, links: newLinkSet(), found: newFindings()}
	if err := c.pool.run(c.dir(c.pool.keeper.Root(src), c.pool.keeper.Root(dst))); err != nil {
		return err
	}
	return c.found.err()
}

// dir returns the task that copies a directory, its contents before its metadata.
func (c *copying) dir(from, to *fsx.Ref) (enter func(t *task) error, leave func() (bool, error)) {
	enter = func(t *task) error {
		src, err := from.Open()
		if err != nil {
			return err
		}
		defer from.Release()
		dirs, files, err := src.Split()
		if err != nil {
			return err
		}
		for _, name := range dirs {
			if err := c.subdir(t, from, to, name); err != nil {
				return err
			}
		}
		batches(c.pool, t, files, func(name string) error { return c.child(from, to, name) })
		return nil
	}
	leave = func() (bool, error) {
		defer from.Close()
		defer to.Close()
		return false, c.finish(from, to)
	}
	return enter, leave
}

// subdir makes the copy of a directory and adds the task that fills it.
func (c *copying) subdir(t *task, from, to *fsx.Ref, name string) error {
	dst, err := to.Open()
	if err != nil {
		return err
	}
	defer to.Release()
	if err := dst.Mkdir(name, 0o700); err != nil {
		return err
	}
	enter, leave := c.dir(from.Child(name), to.Child(name))
	c.pool.add(t, enter, leave)
	return nil
}

// finish copies a directory's own metadata.
func (c *copying) finish(from, to *fsx.Ref) error {
	src, err := from.Open()
	if err != nil {
		return err
	}
	defer from.Release()
	dst, err := to.Open()
	if err != nil {
		return err
	}
	defer to.Release()
	info, err := src.Lstat(".")
	if err != nil {
		return err
	}
	all, err := src.Xattrs(".")
	if err != nil {
		return err
	}
	e := entryOf(info, tree.KindDir)
	var opaque bool
	if e.Xattrs, opaque = c.sift(from, ".", all); opaque {
		e.Xattrs = append(e.Xattrs, fsx.Xattr{Name: c.attrs.own + "opaque", Value: []byte("y")})
	}
	return setMeta(dst, ".", e, c.s.opt.Root)
}

func entryOf(info fsx.Info, kind tree.Kind) tree.Entry {
	return tree.Entry{Kind: kind, Mode: info.Mode, UID: info.UID, GID: info.GID, MTime: info.MTime}
}

func (c *copying) sift(in *fsx.Ref, name string, all []fsx.Xattr) (kept []fsx.Xattr, opaque bool) {
	kept, opaque, refused, lost := c.attrs.classify(all)
	if len(refused)+len(lost) > 0 {
		c.found.attrs(pathBelow(in, name), refused, lost)
	}
	return kept, opaque
}

// pathBelow returns the path of a name in a directory, "." for the directory itself.
func pathBelow(in *fsx.Ref, name string) string { return site{&dirScan{src: in}, name}.path() }

// child copies anything but a directory.
func (c *copying) child(from, to *fsx.Ref, name string) error {
	src, err := from.Open()
	if err != nil {
		return err
	}
	defer from.Release()
	dst, err := to.Open()
	if err != nil {
		return err
	}
	defer to.Release()
	info, err := src.Lstat(name)
	if err != nil {
		return err
	}
	switch kind := tree.KindOf(info); {
	case c.attrs.own != "" && info.IsWhiteout():
		return dst.Whiteout(name)
	case kind == 0:
		c.found.refuse(RefusedEntry{Path: pathBelow(from, name)}, deviceName(info))
		return nil
	default:
		return c.leaf(&copiedEntry{src: src, dst: dst, in: from, name: name, info: info, e: entryOf(info, kind)})
	}
}

// copiedEntry is one entry that is being copied.
type copiedEntry struct {
	src, dst *fsx.Dir
	in       *fsx.Ref
	name     string
	info     fsx.Info
	e        tree.Entry
}

// leaf copies anything but a directory. Of a file with several names the first is
// copied, and the others are linked to it.
func (c *copying) leaf(x *copiedEntry) error {
	g := c.links.group(x.info)
	if g == nil {
		return c.leafAlone(x)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	path := pathBelow(x.in, x.name)
	if len(g.paths) > 0 {
		return c.root.Link(g.paths[0], path)
	}
	g.paths = append(g.paths, path)
	return c.leafAlone(x)
}

func (c *copying) leafAlone(x *copiedEntry) (err error) {
	if x.e.Kind == tree.KindFile {
		return c.file(x)
	}
	if x.e.Kind == tree.KindSymlink {
		if x.e.Target, err = x.src.Readlink(x.name); err != nil {
			return err
		}
	}
	all, err := x.src.Xattrs(x.name)
	if err != nil {
		return err
	}
	x.e.Xattrs, _ = c.sift(x.in, x.name, all)
	return makeSpecial(x.dst, x.name, x.e, c.s.opt.Root)
}

func (c *copying) file(x *copiedEntry) error {
	from, err := x.src.OpenFile(x.name)
	if err != nil {
		return err
	}
	defer from.Close()
	all, err := fileAttrs(from, x.src, x.name)
	if err != nil {
		return err
	}
	x.e.Xattrs, _ = c.sift(x.in, x.name, all)
	_, err = putFile(c.pool.ctx, x.dst, x.name, from, nil, x.e, c.s.opt.Root)
	return err
}
