package workspace

import (
	"fmt"
	"slices"

	"github.com/forkcell/forkcell/internal/fsx"
	"github.com/forkcell/forkcell/internal/tree"
)

// merged reads a stack of overlay layers as the kernel would show it, from the
// layers' own bytes. It shares no shortcut with sealing: it is how sealing is
// checked.
type merged struct {
	*scan
}

// dir reads one directory. dirs are the layers that have it, topmost first, down
// to one that is opaque or to the last. open says that the host's directory is
// below all of them, cut that they hide it there.
func (m *merged) dir(path, name string, dirs []*fsx.Dir, want *tree.Entry, open, cut bool) (tree.Entry, error) {
	info, err := dirs[0].Lstat(".")
	if err != nil {
		return tree.Entry{}, err
	}
	e := m.entry(name, path, info, tree.KindDir, want)
	all, err := dirs[0].Xattrs(".")
	if err != nil {
		return tree.Entry{}, err
	}
	e.Xattrs = m.sift(path, all)
	e.Opaque = open && cut
	where := map[string][]int{}
	for i, d := range dirs {
		names, err := d.Names()
		if err != nil {
			return tree.Entry{}, err
		}
		for _, n := range names {
			where[n] = append(where[n], i)
		}
	}
	f := &frame{path: path, edit: m.w.NewDir(), open: open && !cut}
	g := m.pool.group(m.ctx)
	for n, in := range where {
		g.do(func() error { return m.child(f, n, dirs, in, want) })
	}
	if err := g.wait(); err != nil {
		return tree.Entry{}, err
	}
	e.Sub, err = f.edit.Node()
	return e, err
}

// child reads one name, which the layers with the indexes in hold.
func (m *merged) child(f *frame, name string, dirs []*fsx.Dir, in []int, dir *tree.Entry) error {
	path := join(f.path, name)
	top := dirs[in[0]]
	info, err := top.Lstat(name)
	if err != nil {
		return err
	}
	if info.IsWhiteout() {
		if f.open {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.edit.Put(tree.Entry{Name: name, Kind: tree.KindWhiteout})
		}
		return nil
	}
	want, err := m.wanted(dir, name)
	if err != nil {
		return err
	}
	var e tree.Entry
	switch kind := kindOf(info); kind {
	case 0:
		m.found.refuse(Refused{Path: path}, deviceName(info))
		return nil
	case tree.KindDir:
		e, err = m.subdir(path, name, dirs, in, want, f.open)
	default:
		e, err = m.leaf(&frame{path: f.path, src: top}, name, path, info, kind, want)
	}
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.edit.Put(e)
	return nil
}

func (m *merged) subdir(path, name string, dirs []*fsx.Dir, in []int, want *tree.Entry, open bool) (tree.Entry, error) {
	var subs []*fsx.Dir
	defer func() {
		for _, d := range subs {
			d.Close()
		}
	}()
	cut := false
	for _, i := range in {
		info, err := dirs[i].Lstat(name)
		if err != nil {
			return tree.Entry{}, err
		}
		if cut = !info.IsDir(); cut {
			break
		}
		sub, err := dirs[i].OpenDir(name)
		if err != nil {
			return tree.Entry{}, err
		}
		subs = append(subs, sub)
		if cut, err = m.opaque(sub); err != nil {
			return tree.Entry{}, err
		}
		if cut {
			break
		}
	}
	return m.dir(path, name, subs, want, open, cut)
}

func (m *merged) opaque(d *fsx.Dir) (bool, error) {
	all, err := d.Xattrs(".")
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(all, func(x fsx.Xattr) bool {
		return x.Name == m.attrs.own+"opaque" && string(x.Value) == "y"
	}), nil
}

// wanted is what the manifest has at a name. Only recorded owners, which are
// not on disk, are taken from it.
func (m *merged) wanted(dir *tree.Entry, name string) (*tree.Entry, error) {
	if m.old == nil || dir == nil || dir.Kind != tree.KindDir {
		return nil, nil //nolint:nilnil // nothing there is an answer
	}
	e, ok, err := m.old.Child(dir.Sub, name)
	if err != nil || !ok {
		return nil, err
	}
	return &e, nil
}

// mergeArea reads one area of a stack of layers, of which some may not have it.
func (s *Store) mergeArea(sc *scan, area string, chain []string) (tree.Entry, tree.Links, error) {
	m := &merged{scan: sc}
	m.attrs = s.upperAttrs()
	var dirs []*fsx.Dir
	defer func() {
		for _, d := range dirs {
			d.Close()
		}
	}()
	cut := false
	for _, layer := range chain {
		dir, err := s.areaDir(layer, area)
		if err != nil {
			return tree.Entry{}, tree.Links{}, err
		}
		if dir == "" {
			continue
		}
		d, err := s.home.OpenDir("layers/" + layer + "/" + dir)
		if err != nil {
			return tree.Entry{}, tree.Links{}, fmt.Errorf("%s of %s: %w", area, layer, err)
		}
		dirs = append(dirs, d)
		if cut, err = m.opaque(d); err != nil {
			return tree.Entry{}, tree.Links{}, err
		}
		if cut {
			break
		}
	}
	if len(dirs) == 0 {
		return tree.Entry{}, tree.Links{}, fmt.Errorf("%w: no layer has a directory for %s", ErrCorrupt, area)
	}
	want := m.old.Root()
	e, err := m.dir(".", "", dirs, &want, m.old.Changes(), cut)
	if err == nil {
		err = m.found.err()
	}
	return e, m.links.links(), err
}
