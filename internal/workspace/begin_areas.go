package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/fsx"
	"github.com/forkcell/forkcell/internal/leftout"
	"github.com/forkcell/forkcell/internal/tree"
)

// prepareExtra makes the directories of the areas that the cell asks for.
func (w *Work) prepareExtra(ctx context.Context, m *tree.Manifest) error {
	info, err := w.s.Info(w.layer)
	if err != nil {
		return err
	}
	asked := slices.SortedFunc(slices.Values(w.c.Areas), func(a, b Area) int { return strings.Compare(a.Name, b.Name) })
	for i, a := range asked {
		old, had := m.Area(a.Name)
		was := info.Areas[a.Name]
		if had && was.Host != a.Host {
			return fmt.Errorf("%w: its area %s is of %s, not of %s", ErrMixed, a.Name, was.Host, a.Host)
		}
		if had && was.Base != a.Base {
			return fmt.Errorf("%w: its area %s stands on %q, not on %q", ErrMixed, a.Name, was.Base.Layer, a.Base.Layer)
		}
		pl := placed{Name: a.Name, Host: a.Host, Target: a.Target, System: a.System, Bare: a.Bare, Base: a.Base, Dir: areaDirName(i)}
		prepare := w.prepareHostArea
		if a.Host == "" {
			prepare = w.prepareBaseArea
		}
		if err := prepare(ctx, &pl, old, a.Rules); err != nil {
			return err
		}
		w.extra = append(w.extra, pl)
	}
	if err := w.findLowers(); err != nil {
		return err
	}
	return w.writePlaced()
}

// prepareHostArea makes the directory of one area. old is what the state has of
// it, or nil.
func (w *Work) prepareHostArea(ctx context.Context, pl *placed, old *tree.Tree, rules *leftout.Rules) error {
	d, err := plainDir(w.p.dir, pl.Dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if w.c.Backend != BackendOverlay && old != nil {
		src := w.s.contentsOf(w.c.Backend, w.layer, pl.Name)
		return w.s.materialise(ctx, old, src, d, MaterialiseOptions{Owners: w.s.opt.Root, Unchecked: true})
	}
	host, err := fsx.OpenRoot(pl.Host)
	if err != nil {
		return &HostDirError{Area: pl.Name, Host: pl.Host, Err: err}
	}
	defer host.Close()
	var roots tree.AreaRoots
	switch {
	case w.c.Backend != BackendOverlay:
		roots, err = w.s.copyHost(ctx, pl.Name, host, d, rules)
	case old != nil:
		return setMeta(d, ".", old.Root(), w.s.opt.Root)
	default:
		roots, err = w.s.coverHost(ctx, pl.Name, host, d)
	}
	if err != nil {
		return fmt.Errorf("area %s: %w", pl.Name, err)
	}
	pl.Fresh = &freshRoots{Root: roots.Root.String(), Meta: roots.Meta.String()}
	return nil
}

// coverHost gives an empty upper the metadata of the host's directory, and
// returns the roots of no changes.
func (s *Store) coverHost(ctx context.Context, name string, host, d *fsx.Dir) (tree.AreaRoots, error) {
	info, err := host.Lstat(".")
	if err != nil {
		return tree.AreaRoots{}, err
	}
	e := tree.Entry{Kind: tree.KindDir, Mode: info.Mode, UID: info.UID, GID: info.GID, MTime: info.MTime}
	all, err := host.Xattrs(".")
	if err != nil {
		return tree.AreaRoots{}, err
	}
	e.Xattrs, _, _, _ = s.plainAttrs().sift(all)
	return s.cover(ctx, name, d, e)
}

// cover gives an empty upper the metadata of the directory below it, and returns
// the roots of no changes.
func (s *Store) cover(ctx context.Context, name string, d *fsx.Dir, e tree.Entry) (tree.AreaRoots, error) {
	if err := setMeta(d, ".", e, s.opt.Root); err != nil {
		return tree.AreaRoots{}, err
	}
	return throwAway(name, true, func(w *tree.Writer) (tree.Entry, tree.Links, error) {
		r, err := s.newUpper(ctx, w, d, nil, "").read(true)
		return r.root, r.links, err
	})
}

// copyHost copies the host's directory, without what it keeps from others and
// what rules leave out, and returns the roots of the copy.
func (s *Store) copyHost(ctx context.Context, name string, host, d *fsx.Dir, rules *leftout.Rules) (tree.AreaRoots, error) {
	return throwAway(name, false, func(w *tree.Writer) (tree.Entry, tree.Links, error) {
		sc := s.newScan(ctx, "copy", w, host)
		sc.dst, sc.settle, sc.public = d, true, true
		if rules != nil {
			sc.filter = keepOnly(rules, nil).Reading(host.OpenFile)
		}
		sc.owner = func(_ site, e *tree.Entry, _ *tree.Entry) {
			if !s.opt.Root {
				e.UID, e.GID = uint32(os.Geteuid()), uint32(os.Getegid())
			}
		}
		return sc.run()
	})
}

// throwAway makes a tree only to know its roots.
func throwAway(name string, changes bool, build func(w *tree.Writer) (tree.Entry, tree.Links, error)) (tree.AreaRoots, error) {
	w, err := tree.NewWriter(io.Discard, "mem_roots", nil)
	if err != nil {
		return tree.AreaRoots{}, err
	}
	root, links, err := build(w)
	if err == nil {
		err = setArea(w, name, changes, root, links)
	}
	if err != nil {
		return tree.AreaRoots{}, err
	}
	areas, err := w.Close()
	return areas[name], err
}

// setArea gives a manifest a plain area, or one of changes.
func setArea(w *tree.Writer, name string, changes bool, root tree.Entry, links tree.Links) error {
	if changes {
		return w.SetChanges(name, root, links)
	}
	return w.SetArea(name, root, links)
}

// hostDir is the host's directory below an area, which is asked what it has.
type hostDir struct {
	s   *Store
	ctx context.Context //nolint:containedctx // lives as long as one seal
	dir *fsx.Dir
	// owners says that owners can be compared: that the layers have the ids that
	// the host has.
	owners bool
}

// openHost opens the host's directory; nil if it is no more, upon which nothing
// is known of it.
func (s *Store) openHost(ctx context.Context, pl placed) (*hostDir, error) {
	if pl.Host == "" {
		return nil, nil //nolint:nilnil // as below: a sealed state is not asked
	}
	d, err := fsx.OpenRoot(pl.Host)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil //nolint:nilnil // nobody to ask is an answer
	}
	if err != nil {
		return nil, err
	}
	return &hostDir{s: s, ctx: ctx, dir: d, owners: pl.System && s.opt.Root}, nil
}

func (h *hostDir) close() {
	if h != nil {
		h.dir.Close()
	}
}

// below is what the host has at a path. What cannot be looked at counts as
// nothing: it tells people what was added, no more.
func (h *hostDir) below(path string, e *tree.Entry) tree.Below {
	if h == nil {
		return tree.Below{}
	}
	info, err := h.dir.Lstat(path)
	if err != nil {
		return tree.Below{}
	}
	b := tree.Below{Kind: kindOf(info)}
	b.Same = b.Kind == e.Kind && h.same(path, info, e)
	return b
}

// sameAttrs compares attributes in whatever order they are.
func sameAttrs(a, b []fsx.Xattr) bool {
	byName := func(x, y fsx.Xattr) int { return strings.Compare(x.Name, y.Name) }
	return slices.EqualFunc(slices.SortedFunc(slices.Values(a), byName), slices.SortedFunc(slices.Values(b), byName),
		func(x, y fsx.Xattr) bool { return x.Name == y.Name && bytes.Equal(x.Value, y.Value) })
}

// same tells whether an entry of the host's kind differs only in its time.
func (h *hostDir) same(path string, info fsx.Info, e *tree.Entry) bool {
	if e.Kind != tree.KindSymlink && info.Mode != e.Mode || h.owners && (info.UID != e.UID || info.GID != e.GID) {
		return false
	}
	all, err := h.dir.Xattrs(path)
	if err != nil {
		return false
	}
	kept, _, _, _ := h.s.plainAttrs().sift(all)
	if !sameAttrs(kept, e.Xattrs) {
		return false
	}
	switch e.Kind {
	case tree.KindFile:
		if info.Size != e.Size {
			return false
		}
		f, err := h.dir.OpenFile(path)
		if err != nil {
			return false
		}
		defer f.Close()
		digest, _, _, err := h.s.hashFile(h.ctx, f, e)
		return err == nil && digest == e.Digest
	case tree.KindSymlink:
		target, err := h.dir.Readlink(path)
		return err == nil && target == e.Target
	case tree.KindDir, tree.KindFifo, tree.KindSocket:
	}
	return true
}
