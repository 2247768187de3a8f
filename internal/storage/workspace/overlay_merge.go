package workspace

import (
	"fmt"
	"slices"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// mergedLayers reads a stack of overlay layers as the kernel would show it, from the
// bytes of the layers. It checks sealing, so it shares no shortcut with it.
type mergedLayers struct {
	*scan
}

// stack is one directory of the merged tree: the layers that have it, topmost
// first, down to the first opaque one or to the last.
type stack struct {
	dirScan
	dirs []*fsx.Ref
	// below means that the host's directory is below all of them, cut that they
	// hide it.
	below, cut bool
}

// dir returns the task that reads one directory.
func (m *mergedLayers) dir(up *stack, d *stack) (enter func(t *task) error, leave func() (bool, error)) {
	d.src = d.dirs[0]
	enter = func(t *task) error {
		if err := m.enterStack(d); err != nil {
			return err
		}
		dirs, files, err := m.names(d)
		if err != nil {
			return err
		}
		for _, n := range dirs {
			enter, leave := m.subdir(d, n)
			m.pool.add(t, enter, leave)
		}
		batches(m.pool, t, files, func(n layeredName) error { return m.child(d, n) })
		return nil
	}
	leave = func() (again bool, err error) {
		for _, r := range d.dirs {
			defer r.Close()
		}
		if d.entry.Sub, err = d.edit.Node(); err == nil && up != nil {
			up.put(d.entry)
		}
		return false, err
	}
	return enter, leave
}

// enterStack reads the directory's metadata, which is that of the topmost layer.
func (m *mergedLayers) enterStack(d *stack) error {
	top, err := d.src.Open()
	if err != nil {
		return err
	}
	defer d.src.Release()
	info, err := top.Lstat(".")
	if err != nil {
		return err
	}
	at := site{&d.dirScan, "."}
	d.entry = m.entry(at, info, tree.KindDir, d.old)
	d.entry.Name = d.name
	all, err := top.Xattrs(".")
	if err != nil {
		return err
	}
	d.entry.Xattrs = m.sift(at, all)
	d.entry.Opaque = d.below && d.cut
	d.edit, d.open = m.w.NewDir(), d.below && !d.cut
	return nil
}

// layeredName is a name and the layers of a stack that have it.
type layeredName struct {
	name string
	in   []int
}

// names lists the names in the layers, by the kind that the topmost layer has
// there.
func (m *mergedLayers) names(d *stack) (dirs, files []layeredName, err error) {
	type seen struct {
		in  []int
		dir bool
	}
	where := map[string]*seen{}
	for i, r := range d.dirs {
		in, err := r.Open()
		if err != nil {
			return nil, nil, err
		}
		some, others, err := in.Split()
		r.Release()
		if err != nil {
			return nil, nil, err
		}
		for n, name := range append(some, others...) {
			s := where[name]
			if s == nil {
				s = &seen{dir: n < len(some)}
				where[name] = s
			}
			s.in = append(s.in, i)
		}
	}
	for name, s := range where {
		if s.dir {
			dirs = append(dirs, layeredName{name, s.in})
		} else {
			files = append(files, layeredName{name, s.in})
		}
	}
	return dirs, files, nil
}

// child reads a name that is not a directory in the topmost layer that has it.
func (m *mergedLayers) child(d *stack, n layeredName) error {
	ref := d.dirs[n.in[0]]
	top, err := ref.Open()
	if err != nil {
		return err
	}
	defer ref.Release()
	info, err := top.Lstat(n.name)
	if err != nil {
		return err
	}
	if info.IsWhiteout() {
		if d.open {
			d.put(tree.Entry{Name: n.name, Kind: tree.KindWhiteout})
		}
		return nil
	}
	want, err := m.wantedEntry(d.old, n.name)
	if err != nil {
		return err
	}
	at := site{&dirScan{src: ref}, n.name}
	kind := tree.KindOf(info)
	if kind == 0 {
		m.found.refuse(RefusedEntry{Path: at.path()}, deviceName(info))
		return nil
	}
	e, err := m.leaf(top, at, info, kind, want)
	if err != nil {
		return err
	}
	d.put(e)
	return nil
}

// subdir returns the task that reads a name that is a directory in the topmost
// layer that has it.
func (m *mergedLayers) subdir(up *stack, n layeredName) (enter func(t *task) error, leave func() (bool, error)) {
	sub := &stack{below: up.open}
	sub.name = n.name
	var end func() (bool, error)
	enter = func(t *task) error {
		var err error
		if sub.old, err = m.wantedEntry(up.old, n.name); err != nil {
			return err
		}
		for _, i := range n.in {
			ref, dir, opaque, err := m.layer(up.dirs[i], n.name)
			if err != nil {
				return err
			}
			if dir {
				sub.dirs = append(sub.dirs, ref)
			}
			if sub.cut = !dir || opaque; sub.cut {
				break
			}
		}
		begin, leave := m.dir(up, sub)
		end = leave
		return begin(t)
	}
	return enter, func() (bool, error) { return end() }
}

// layer reads a name in one layer.
func (m *mergedLayers) layer(up *fsx.Ref, name string) (ref *fsx.Ref, dir, opaque bool, err error) {
	in, err := up.Open()
	if err != nil {
		return nil, false, false, err
	}
	defer up.Release()
	info, err := in.Lstat(name)
	if err != nil || !info.IsDir() {
		return nil, false, false, err
	}
	ref = up.Child(name)
	d, err := ref.Open()
	if err != nil {
		return nil, false, false, err
	}
	defer ref.Release()
	opaque, err = m.opaque(d)
	return ref, true, opaque, err
}

func (m *mergedLayers) opaque(d *fsx.Dir) (bool, error) {
	all, err := d.Xattrs(".")
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(all, func(x fsx.Xattr) bool {
		return x.Name == m.attrs.own+"opaque" && string(x.Value) == "y"
	}), nil
}

// wantedEntry returns the manifest's entry at a name. Only recorded owners, which are
// not on disk, are taken from it.
func (m *mergedLayers) wantedEntry(dir *tree.Entry, name string) (*tree.Entry, error) {
	if m.old == nil || dir == nil || dir.Kind != tree.KindDir {
		return nil, nil //nolint:nilnil // there is no entry
	}
	e, ok, err := m.old.Child(dir.Sub, name)
	if err != nil || !ok {
		return nil, err
	}
	return &e, nil
}

// mergeArea reads one area of a stack of layers. Some of them may not have it.
func (s *Store) mergeArea(sc *scan, area string, chain []string) (tree.Entry, tree.Links, error) {
	m := &mergedLayers{scan: sc}
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
	root := &stack{below: m.old.Changes(), cut: cut}
	root.old = &want
	for _, d := range dirs {
		root.dirs = append(root.dirs, m.pool.keeper.Root(d))
	}
	err := m.pool.run(m.dir(nil, root))
	if err == nil {
		err = m.found.err()
	}
	root.entry.Name = ""
	return root.entry, m.links.links(), err
}
