package workspace

import (
	"context"
	"fmt"
	"slices"

	"github.com/forkcell/forkcell/internal/fsx"
	"github.com/forkcell/forkcell/internal/tree"
)

// MaterialiseOptions says how a state becomes files.
type MaterialiseOptions struct {
	// Owners sets the recorded owners, which only root can.
	Owners bool
	// Unchecked leaves out comparing contents with their digests, so that file
	// systems that can will share them instead of copying.
	Unchecked bool
	// Land, if set, returns as what an entry is written.
	Land func(path string, e tree.Entry) tree.Entry
	// Skip, if set, matches paths that are not written. Of a directory that it
	// matches it must match everything.
	Skip func(path string) bool
}

func (o MaterialiseOptions) land(path string, e tree.Entry) tree.Entry {
	if o.Land == nil {
		return e
	}
	return o.Land(path, e)
}

func (o MaterialiseOptions) skip(path string) bool { return o.Skip != nil && o.Skip(path) }

// Materialise writes one area of a state into an empty directory, as plain
// files with all their metadata; dst itself takes the root's. It is not durable
// until the caller makes it so.
func (s *Store) Materialise(ctx context.Context, b Backend, layer, area string, dst *fsx.Dir, opt MaterialiseOptions) error {
	t, err := s.area(layer, area)
	if err != nil {
		return err
	}
	if t.Changes() {
		return fmt.Errorf("materialise %s: area %s has only the changes of a directory of the host", layer, area)
	}
	if err := s.materialise(ctx, t, s.contentsOf(b, layer, area), dst, opt); err != nil {
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
		s: s, ctx: ctx, t: t, open: open, opt: opt, pool: newPool(), count: &counter{s: s, what: "copy"},
		follows: map[string]struct{}{},
	}
	for _, g := range groups {
		for _, p := range g[1:] {
			m.follows[p] = struct{}{}
		}
	}
	// A directory's time is right only once all its names are there. Without
	// links that is when it has been filled.
	m.finish = len(groups) == 0
	if err := dropACLs(dst); err != nil {
		return err
	}
	root := opt.land(".", t.Root())
	if err := m.fill(dst, ".", root); err != nil {
		return err
	}
	for _, g := range groups {
		for _, p := range g[1:] {
			if err := dst.Link(g[0], p); err != nil {
				return err
			}
		}
	}
	if !m.finish {
		if err := m.finishDirs(dst, ".", root); err != nil {
			return err
		}
	}
	return m.finishDir(dst, root)
}

// linkedNames returns the groups of names of one file that are written.
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

// finishDir gives a directory its metadata, and hides what is below it if it
// has to.
func (m *materialiser) finishDir(d *fsx.Dir, e tree.Entry) error {
	if e.Opaque {
		if err := d.SetXattr(".", m.s.upperAttrs().own+"opaque", []byte("y")); err != nil {
			return err
		}
	}
	return setMeta(d, ".", e, m.opt.Owners)
}

type materialiser struct {
	s       *Store
	ctx     context.Context
	t       *tree.Tree
	open    opener
	opt     MaterialiseOptions
	pool    *pool
	count   *counter
	follows map[string]struct{} // names that are made as links, later
	finish  bool
}

// children returns what is written of a directory.
func (m *materialiser) children(path string, dir tree.Entry) ([]tree.Entry, error) {
	all, err := m.t.Children(dir.Sub)
	if err != nil || m.opt.Land == nil && m.opt.Skip == nil {
		return all, err
	}
	var out []tree.Entry
	for _, e := range all {
		if sub := join(path, e.Name); !m.opt.skip(sub) {
			out = append(out, m.opt.land(sub, e))
		}
	}
	return out, nil
}

func (m *materialiser) fill(d *fsx.Dir, path string, dir tree.Entry) error {
	children, err := m.children(path, dir)
	if err != nil {
		return err
	}
	g := m.pool.group(m.ctx)
	for _, e := range children {
		g.do(func() error { return m.make(d, join(path, e.Name), e) })
	}
	return g.wait()
}

func (m *materialiser) make(d *fsx.Dir, path string, e tree.Entry) error {
	if _, later := m.follows[path]; later {
		return nil
	}
	switch e.Kind {
	case tree.KindDir:
		return m.makeDir(d, path, e)
	case tree.KindFile:
		return m.makeFile(d, path, e)
	case tree.KindSymlink, tree.KindFifo, tree.KindSocket:
		return makeSpecial(d, e.Name, e, m.opt.Owners)
	case tree.KindWhiteout:
		return d.Whiteout(e.Name)
	}
	return fmt.Errorf("%s: %w: kind %s", path, ErrCorrupt, e.Kind)
}

func (m *materialiser) makeDir(d *fsx.Dir, path string, e tree.Entry) error {
	if err := d.Mkdir(e.Name, 0o700); err != nil {
		return err
	}
	sub, err := d.OpenDir(e.Name)
	if err != nil {
		return err
	}
	defer sub.Close()
	if err := m.fill(sub, path, e); err != nil {
		return err
	}
	if !m.finish {
		return nil
	}
	return m.finishDir(sub, e)
}

func (m *materialiser) makeFile(d *fsx.Dir, path string, e tree.Entry) error {
	src, err := m.open(path, e)
	if err != nil {
		return err
	}
	defer src.Close()
	m.count.add(path, e.Size)
	if m.opt.Unchecked {
		_, err := putFile(d, e.Name, src, nil, e, m.opt.Owners)
		return err
	}
	digest, n, err := m.s.copyFile(d, e.Name, src, e, m.opt.Owners)
	if err != nil {
		return err
	}
	if digest != e.Digest || n != e.Size {
		return fmt.Errorf("%s: %w: its contents have changed", path, ErrCorrupt)
	}
	return nil
}

// finishDirs sets the metadata of all directories below, the deepest first.
func (m *materialiser) finishDirs(d *fsx.Dir, path string, dir tree.Entry) error {
	children, err := m.children(path, dir)
	if err != nil {
		return err
	}
	for _, e := range children {
		if e.Kind != tree.KindDir {
			continue
		}
		sub, err := d.OpenDir(e.Name)
		if err != nil {
			return err
		}
		if err = m.finishDirs(sub, join(path, e.Name), e); err == nil {
			err = m.finishDir(sub, e)
		}
		sub.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
