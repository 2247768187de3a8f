package workspace

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// Edit is one change of a workspace.
type Edit struct {
	// Path is relative to the workspace; "." is its root, of which only the
	// metadata can change.
	Path string
	// New is the entry after the edit; nil removes the path and everything
	// below it. A directory keeps its contents; a file's digest and size must
	// be right.
	New *tree.Entry
	// Open opens the contents of a new file.
	Open func() (io.ReadCloser, error)
	// LinkTo is another edited path of the same file.
	LinkTo string
}

// Compose makes a new state from a state and edits. It does not touch the live
// directory of a cell: Switch does.
func (s *Store) Compose(ctx context.Context, c Cell, layer, op string, edits []Edit) (Sealed, error) {
	return s.compose(ctx, c, layer, op, edits, false)
}

func (s *Store) compose(ctx context.Context, c Cell, layer, op string, edits []Edit, noHome bool) (Sealed, error) {
	b, chain, err := s.usable(c, layer)
	if err != nil {
		return Sealed{}, err
	}
	return s.newLayer(op, "compose", func(p *pending) (Sealed, []string, []string, error) {
		sealed, keep, err := s.seal(ctx, c, p, layer, func(sl *sealing) error {
			ed, err := newEditing(sl, edits)
			if err != nil {
				return err
			}
			ed.noHome = noHome
			return b.compose(ed)
		})
		return sealed, b.layerOn(chain).lower, keep, err
	}, c.Backend)
}

// editing is a set of edits, as a tree of names.
type editing struct {
	sl    *sealing
	old   *tree.Tree
	edits []Edit
	root  *editNode
	// noHome removes everything in the home.
	noHome bool
}

type editNode struct {
	edit *Edit
	kids map[string]*editNode
}

func newEditing(sl *sealing, edits []Edit) (*editing, error) {
	old, err := sl.parentArea(AreaWorkspace)
	if err != nil {
		return nil, err
	}
	ed := &editing{sl: sl, old: old, edits: slices.Clone(edits), root: &editNode{}}
	slices.SortFunc(ed.edits, func(a, b Edit) int { return strings.Compare(a.Path, b.Path) })
	var way editPath
	for i := range ed.edits {
		e := &ed.edits[i]
		if err := fsx.CheckPath(e.Path); err != nil {
			return nil, fmt.Errorf("edit %q: %w", shortName(e.Path), err)
		}
		if e.Path == "." && (e.New == nil || e.New.Kind != tree.KindDir) {
			return nil, fmt.Errorf("edit %q: the root must stay a directory", e.Path)
		}
		n := way.to(ed.root, e.Path)
		if n.edit != nil {
			return nil, fmt.Errorf("edit %q: duplicate path", shortName(e.Path))
		}
		n.edit = e
	}
	return ed, ed.checkLinks()
}

func (n *editNode) kid(name string) *editNode {
	if n.kids == nil {
		n.kids = map[string]*editNode{}
	}
	k := n.kids[name]
	if k == nil {
		k = &editNode{}
		n.kids[name] = k
	}
	return k
}

// tree returns the edited tree's root, links and split links.
func (ed *editing) tree(w *tree.Writer, layer string) (tree.Entry, tree.Links, []string, error) {
	m := &editedTree{w: w, old: ed.old, layer: layer, gone: newTouched()}
	if err := ed.walk(m.enter, m.leave); err != nil {
		return tree.Entry{}, tree.Links{}, nil, err
	}
	root := ed.old.Root()
	if ed.root.edit != nil {
		root = *ed.root.edit.New
	}
	root.Sub = m.top
	fresh, present := ed.links()
	links, err := ed.old.Links()
	if err != nil {
		return tree.Entry{}, tree.Links{}, nil, err
	}
	merged, split, _ := mergeLinks(links, m.gone, fresh, present)
	return root, merged, split, nil
}

// editedTree makes the nodes of an edited tree.
type editedTree struct {
	w     *tree.Writer
	old   *tree.Tree
	layer string
	gone  *touchedPaths
	top   tree.Node
}

func (m *editedTree) enter(s *editStep) error {
	if now, old := s.now, s.old; s.up != nil && (now == nil || old == nil || now.Kind != tree.KindDir || old.Kind != tree.KindDir) {
		// What was below a removed directory is removed with it.
		if s.gone = true; !s.up.gone {
			m.gone.add(s.path())
		}
	}
	switch {
	case s.now == nil:
		s.up.dir.Delete(s.name)
	case s.now.Kind != tree.KindDir:
		e := *s.now
		if e.Kind == tree.KindFile {
			e.Layer = m.layer
		}
		s.up.dir.Put(e)
	case s.old != nil && s.old.Kind == tree.KindDir:
		s.dir = m.w.Edit(m.old, s.old.Sub)
	default:
		s.dir = m.w.NewDir()
	}
	return nil
}

func (m *editedTree) leave(s *editStep) error {
	node, err := s.dir.Node()
	if err != nil {
		return err
	}
	s.dir = nil
	if s.up == nil {
		m.top = node
		return nil
	}
	e := *s.now
	e.Sub = node
	s.up.dir.Put(e)
	return nil
}

// links returns the groups of hard links among the edited files, and a function
// that reports whether a path is one of them.
func (ed *editing) links() (tree.Links, func(string) bool) {
	first := map[string][]string{}
	there := map[string]bool{}
	for _, e := range ed.edits {
		if e.New == nil || e.New.Kind == tree.KindDir {
			continue
		}
		there[e.Path] = true
		if e.LinkTo != "" {
			first[e.LinkTo] = append(first[e.LinkTo], e.Path)
		}
	}
	var groups [][]string
	for to, names := range first {
		groups = append(groups, slices.Sorted(slices.Values(append(names, to))))
	}
	return sortLinks(groups), func(p string) bool { return there[p] }
}

func (ed *editing) byPath() map[string]*Edit {
	edits := make(map[string]*Edit, len(ed.edits))
	for i := range ed.edits {
		edits[ed.edits[i].Path] = &ed.edits[i]
	}
	return edits
}

// checkLinks refuses links to anything but a file of this set of edits.
func (ed *editing) checkLinks() error {
	byPath := ed.byPath()
	for _, e := range ed.edits {
		if e.LinkTo == "" {
			continue
		}
		to := byPath[e.LinkTo]
		if to == nil || to.New == nil || to.LinkTo != "" || to.New.Kind == tree.KindDir || e.New == nil || e.New.Kind != to.New.Kind || e.New.Digest != to.New.Digest {
			return fmt.Errorf("edit %q: cannot be a link to %q", e.Path, e.LinkTo)
		}
	}
	return nil
}

// open opens the contents of an edit.
func (e *Edit) open() (io.ReadCloser, error) {
	if e.Open == nil {
		return nil, fmt.Errorf("edit %q: no contents", e.Path)
	}
	r, err := e.Open()
	if err != nil {
		return nil, fmt.Errorf("edit %q: %w", e.Path, err)
	}
	return r, nil
}
