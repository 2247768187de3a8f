package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/forkcell/forkcell/internal/fsx"
	"github.com/forkcell/forkcell/internal/tree"
)

// copying copies a generation's directory as it is, so that it seals to the same
// state: whiteouts and opaque directories included, but none of the attributes
// by which the kernel remembers where an upper's files came from.
type copying struct {
	s     *Store
	ctx   context.Context
	pool  *pool
	attrs attrRules
	upper bool     // whiteouts are to be expected
	root  *fsx.Dir // of the copy
	links *linkSet
	found *findings
}

func (w *Work) copyArea(ctx context.Context, to *pending, dir string) error {
	src, err := w.p.dir.OpenDir(dir)
	if errors.Is(err, os.ErrNotExist) && w.c.Backend == BackendDelta {
		return nil // an interrupted seal found it unchanged
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
	c := &copying{s: w.s, ctx: ctx, pool: newPool(), attrs: w.s.plainAttrs(), root: dst, links: newLinkSet(), found: newFindings()}
	if w.c.Backend == BackendOverlay {
		c.attrs, c.upper = w.s.upperAttrs(), true
	}
	if err := c.dir(src, dst, "."); err != nil {
		return err
	}
	return c.found.err()
}

// dir copies all that is in a directory, then its metadata.
func (c *copying) dir(src, dst *fsx.Dir, path string) error {
	names, err := src.Names()
	if err != nil {
		return err
	}
	g := c.pool.group(c.ctx)
	for _, name := range names {
		g.do(func() error { return c.child(src, dst, name, join(path, name)) })
	}
	if err := g.wait(); err != nil {
		return err
	}
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
	if e.Xattrs, opaque = c.sift(path, all); opaque {
		e.Xattrs = append(e.Xattrs, fsx.Xattr{Name: c.attrs.own + "opaque", Value: []byte("y")})
	}
	return setMeta(dst, ".", e, c.s.opt.Root)
}

func entryOf(info fsx.Info, kind tree.Kind) tree.Entry {
	return tree.Entry{Kind: kind, Mode: info.Mode, UID: info.UID, GID: info.GID, MTime: info.MTime}
}

func (c *copying) sift(path string, all []fsx.Xattr) (kept []fsx.Xattr, opaque bool) {
	kept, opaque, refused, lost := c.attrs.sift(all)
	c.found.attrs(path, refused, lost)
	return kept, opaque
}

func (c *copying) child(src, dst *fsx.Dir, name, path string) error {
	info, err := src.Lstat(name)
	if err != nil {
		return err
	}
	switch kind := kindOf(info); {
	case c.upper && info.IsWhiteout():
		return dst.Whiteout(name)
	case kind == 0:
		c.found.refuse(Refused{Path: path}, deviceName(info))
		return nil
	case kind == tree.KindDir:
		return c.subdir(src, dst, name, path)
	default:
		return c.leaf(src, dst, name, path, info, kind)
	}
}

func (c *copying) subdir(src, dst *fsx.Dir, name, path string) error {
	from, err := src.OpenDir(name)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := dst.Mkdir(name, 0o700); err != nil {
		return err
	}
	to, err := dst.OpenDir(name)
	if err != nil {
		return err
	}
	defer to.Close()
	return c.dir(from, to, path)
}

// leaf copies anything but a directory, once for all its names.
func (c *copying) leaf(src, dst *fsx.Dir, name, path string, info fsx.Info, kind tree.Kind) error {
	g := c.links.group(info)
	if g == nil {
		return c.leafAlone(src, dst, name, path, info, kind)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.paths) > 0 {
		return c.root.Link(g.paths[0], path)
	}
	g.paths = append(g.paths, path)
	return c.leafAlone(src, dst, name, path, info, kind)
}

func (c *copying) leafAlone(src, dst *fsx.Dir, name, path string, info fsx.Info, kind tree.Kind) (err error) {
	e := entryOf(info, kind)
	if kind == tree.KindFile {
		return c.file(src, dst, name, path, info, e)
	}
	if kind == tree.KindSymlink {
		if e.Target, err = src.Readlink(name); err != nil {
			return err
		}
	}
	all, err := src.Xattrs(name)
	if err != nil {
		return err
	}
	e.Xattrs, _ = c.sift(path, all)
	return makeSpecial(dst, name, e, c.s.opt.Root)
}

func (c *copying) file(src, dst *fsx.Dir, name, path string, info fsx.Info, e tree.Entry) error {
	from, err := src.OpenFile(name)
	if err != nil {
		return err
	}
	defer from.Close()
	all, err := fileAttrs(from, src, name)
	if err != nil {
		return err
	}
	e.Xattrs, _ = c.sift(path, all)
	to, err := dst.Create(name, 0o600)
	if err != nil {
		return err
	}
	err = copyBytes(to, from, info)
	if err == nil {
		err = setFileMeta(to, e, c.s.opt.Root)
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return fmt.Errorf("copy %s: %w", path, err)
	}
	return dst.Chtimes(name, e.MTime)
}

// copyBytes copies in the kernel where it can: io.Copy between files uses
// copy_file_range, which shares blocks on file systems that do, but fills holes
// on those that do not.
func copyBytes(to, from *os.File, info fsx.Info) error {
	if info.Blocks*512 < info.Size {
		_, err := fsx.CopySparse(to, from, nil)
		return err
	}
	_, err := io.Copy(to, from)
	return err
}
