package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// MaterialiseOptions configures how a state is written as files.
type MaterialiseOptions struct {
	// Owners sets the recorded owners, which only root can.
	Owners bool
	// Unchecked does not compare contents with their digests, so that file
	// systems that can share blocks do so instead of copying.
	Unchecked bool
	// Rewrite, if set, returns the entry to write in the place of e.
	Rewrite func(path string, e tree.Entry) tree.Entry
	// Skip, if set, reports whether a path is not written. If it matches a
	// directory it must match everything below it.
	Skip func(path string) bool
}

func (o MaterialiseOptions) rewrite(path string, e tree.Entry) tree.Entry {
	if o.Rewrite == nil {
		return e
	}
	return o.Rewrite(path, e)
}

func (o MaterialiseOptions) skip(path string) bool { return o.Skip != nil && o.Skip(path) }

// Materialise writes one area of a state into an empty directory, as plain files
// with all their metadata; dst itself gets the root's. The result is not durable
// until the caller syncs it.
func (s *Store) Materialise(ctx context.Context, b Backend, layer, area string, dst *fsx.Dir, opt MaterialiseOptions) error {
	kept, err := s.backend(b)
	if err != nil {
		return fmt.Errorf("materialise %s: %w", layer, err)
	}
	return s.materialiseArea(ctx, kept, layer, area, dst, opt)
}

func (s *Store) materialiseArea(ctx context.Context, b backend, layer, area string, dst *fsx.Dir, opt MaterialiseOptions) error {
	t, err := s.area(layer, area)
	if err != nil {
		return err
	}
	if t.Changes() {
		return fmt.Errorf("materialise %s: area %s has only changes of a directory of the host", layer, area)
	}
	if err := s.materialise(ctx, t, contentsOf(b, layer, area), dst, opt); err != nil {
		return fmt.Errorf("materialise %s: %w", layer, err)
	}
	return nil
}

func (s *Store) materialise(ctx context.Context, t *tree.Tree, open opener, dst *fsx.Dir, opt MaterialiseOptions) error {
	groups, err := linkedNames(t, opt)
	if err != nil {
		return err
	}
	m := &materialiser{
		s: s, pool: newPool(ctx), t: t, open: open, opt: opt, count: newCounter(ctx, "copy"),
		follows: map[string]struct{}{},
	}
	for _, g := range groups {
		for _, p := range g[1:] {
			m.follows[p] = struct{}{}
		}
	}
	// The time of a directory can be set once it has all its names. Without links
	// that is when it has been filled.
	m.finish = len(groups) == 0
	if err := dropACLs(dst); err != nil {
		return err
	}
	root := opt.rewrite(".", t.Root())
	if err := m.pool.run(m.fill(m.pool.keeper.Root(dst), root)); err != nil {
		return err
	}
	for _, g := range groups {
		for _, p := range g[1:] {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := dst.Link(g[0], p); err != nil {
				return err
			}
		}
	}
	if m.finish {
		return nil
	}
	m.pool = newPool(ctx)
	return m.pool.run(m.finishDirs(m.pool.keeper.Root(dst), root))
}

// linkedNames returns the groups of names of one file, without those that are
// skipped.
func linkedNames(t *tree.Tree, opt MaterialiseOptions) ([][]string, error) {
	links, err := t.Links()
	if err != nil || opt.Skip == nil {
		return links.Groups, err
	}
	var groups [][]string
	for _, g := range links.Groups {
		g = slices.DeleteFunc(slices.Clone(g), opt.skip)
		if len(g) > 1 {
			groups = append(groups, g)
		}
	}
	return groups, nil
}

// finishDir sets the metadata of a directory, and marks it opaque if the entry is.
func (m *materialiser) finishDir(ref *fsx.Ref, e tree.Entry) error {
	d, err := ref.Open()
	if err != nil {
		return err
	}
	defer ref.Release()
	if e.Opaque {
		if err := d.SetXattr(".", m.s.upperAttrs().own+"opaque", []byte("y")); err != nil {
			return err
		}
	}
	return setMeta(d, ".", e, m.opt.Owners)
}

type materialiser struct {
	s       *Store
	pool    *pool
	t       *tree.Tree
	open    opener
	opt     MaterialiseOptions
	count   *counter
	follows map[string]struct{} // names that are made as links, later
	finish  bool
}

// children returns the entries of a directory that are written.
func (m *materialiser) children(in *fsx.Ref, dir tree.Entry) ([]tree.Entry, error) {
	all, err := m.t.Children(dir.Sub)
	if err != nil || m.opt.Rewrite == nil && m.opt.Skip == nil {
		return all, err
	}
	path := in.Path()
	var out []tree.Entry
	for _, e := range all {
		if sub := join(path, e.Name); !m.opt.skip(sub) {
			out = append(out, m.opt.rewrite(sub, e))
		}
	}
	return out, nil
}

// fill returns the task that fills an existing directory.
func (m *materialiser) fill(d *fsx.Ref, dir tree.Entry) (enter func(t *task) error, leave func() (bool, error)) {
	enter = func(t *task) error {
		children, err := m.children(d, dir)
		if err != nil {
			return err
		}
		files := children[:0:0]
		for _, e := range children {
			if e.Kind != tree.KindDir {
				files = append(files, e)
				continue
			}
			if err := m.makeDir(t, d, e); err != nil {
				return err
			}
		}
		batches(m.pool, t, files, func(e tree.Entry) error { return m.make(d, e) })
		return nil
	}
	leave = func() (bool, error) {
		defer d.Close()
		if !m.finish {
			return false, nil
		}
		return false, m.finishDir(d, dir)
	}
	return enter, leave
}

func (m *materialiser) makeDir(t *task, in *fsx.Ref, e tree.Entry) error {
	d, err := in.Open()
	if err != nil {
		return err
	}
	defer in.Release()
	if err := d.Mkdir(e.Name, 0o700); err != nil {
		return err
	}
	enter, leave := m.fill(in.Child(e.Name), e)
	m.pool.add(t, enter, leave)
	return nil
}

// make makes anything but a directory.
func (m *materialiser) make(in *fsx.Ref, e tree.Entry) error {
	if len(m.follows) > 0 {
		if _, later := m.follows[pathBelow(in, e.Name)]; later {
			return nil
		}
	}
	d, err := in.Open()
	if err != nil {
		return err
	}
	defer in.Release()
	switch e.Kind {
	case tree.KindFile:
		return m.makeFile(d, in, e)
	case tree.KindSymlink, tree.KindFifo, tree.KindSocket:
		return makeSpecial(d, e.Name, e, m.opt.Owners)
	case tree.KindWhiteout:
		return d.Whiteout(e.Name)
	case tree.KindDir:
	}
	return fmt.Errorf("%s: %w: kind %s", e.Name, ErrCorrupt, e.Kind)
}

func (m *materialiser) makeFile(d *fsx.Dir, in *fsx.Ref, e tree.Entry) error {
	path := pathBelow(in, e.Name)
	src, err := m.open(path, e)
	if err != nil {
		return err
	}
	defer src.Close()
	m.count.add(site{&dirScan{src: in}, e.Name}, e.Size)
	if m.opt.Unchecked {
		_, err := putFile(m.pool.ctx, d, e.Name, src, nil, e, m.opt.Owners)
		return err
	}
	digest, _, n, err := m.s.copyFile(m.pool.ctx, d, e.Name, src, e, &e, m.opt.Owners)
	if err != nil && !errors.Is(err, tree.ErrSize) {
		return err
	}
	if err != nil || digest != e.Digest || n != e.Size {
		return fmt.Errorf("%s: %w: its contents changed", shortName(path), ErrCorrupt)
	}
	return nil
}

// finishDirs returns the task that sets the metadata of a directory and of those
// below it, the deepest first.
func (m *materialiser) finishDirs(d *fsx.Ref, dir tree.Entry) (enter func(t *task) error, leave func() (bool, error)) {
	enter = func(t *task) error {
		children, err := m.children(d, dir)
		if err != nil {
			return err
		}
		// The keeper opens a directory again from an open one below it.
		if _, err := d.Open(); err != nil {
			return err
		}
		d.Release()
		for _, e := range children {
			if e.Kind == tree.KindDir {
				enter, leave := m.finishDirs(d.Child(e.Name), e)
				m.pool.add(t, enter, leave)
			}
		}
		return nil
	}
	leave = func() (bool, error) {
		defer d.Close()
		return false, m.finishDir(d, dir)
	}
	return enter, leave
}
