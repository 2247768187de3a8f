package workspace

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/tree"
)

// editPath remembers the nodes above the last edit: the next edit is mostly near
// it.
type editPath struct {
	path  string
	ends  []int // of the names in path
	nodes []*editNode
}

// to returns the node of a path. It makes the missing ones.
func (w *editPath) to(root *editNode, path string) *editNode {
	if path == "." {
		return root
	}
	common := fsx.CommonPrefix(w.path, path)
	same, _ := slices.BinarySearch(w.ends, common+1)
	if same > 0 && w.ends[same-1] == common && common < len(path) && path[common] != '/' {
		same--
	}
	w.path, w.ends, w.nodes = path, w.ends[:same], w.nodes[:same]
	n, begin := root, 0
	if same > 0 {
		n, begin = w.nodes[same-1], w.ends[same-1]+1
	}
	for begin < len(path) {
		end := len(path)
		if cut := strings.IndexByte(path[begin:], '/'); cut >= 0 {
			end = begin + cut
		}
		n = n.kid(path[begin:end])
		w.ends, w.nodes = append(w.ends, end), append(w.nodes, n)
		begin = end + 1
	}
	return n
}

// editStep is one name that a walk of edits visits.
type editStep struct {
	up   *editStep // nil: the root
	name string
	n    *editNode
	// old is the entry before the edits, now the entry after them; nil for none.
	old, now *tree.Entry
	left     []string // of a directory: the edited names still to come

	// The visitors of the walk use these.
	dir  *tree.DirEdit
	gone bool
	ref  *fsx.Ref
}

// path returns the path of the step. It is computed on demand: a path for each
// level would need memory by the square of the depth.
func (s *editStep) path() string {
	var names []string
	for ; s.up != nil; s = s.up {
		names = append(names, s.name)
	}
	if len(names) == 0 {
		return "."
	}
	slices.Reverse(names)
	return strings.Join(names, "/")
}

// walk visits the edits, parents first and the names of a directory in order. It
// calls enter for the root, for every edited path, and for the directories above
// it; leave for a directory after its contents. It does not recurse.
func (ed *editing) walk(enter, leave func(s *editStep) error) error {
	root := ed.old.Root()
	stack := []*editStep{{n: ed.root, old: &root, now: &root, left: ed.root.names()}}
	if err := enter(stack[0]); err != nil {
		return err
	}
	for len(stack) > 0 {
		if err := ed.sl.ctx.Err(); err != nil {
			return err
		}
		top := stack[len(stack)-1]
		if len(top.left) == 0 {
			stack = stack[:len(stack)-1]
			if err := leave(top); err != nil {
				return err
			}
			continue
		}
		s, err := ed.step(top, top.left[0])
		top.left = top.left[1:]
		if err != nil {
			return err
		}
		if s == nil {
			continue
		}
		if err := enter(s); err != nil {
			return err
		}
		if s.now != nil && s.now.Kind == tree.KindDir {
			s.left = s.n.names()
			stack = append(stack, s)
		}
	}
	return nil
}

// step returns what happens to a name; nil if nothing does.
func (ed *editing) step(in *editStep, name string) (*editStep, error) {
	s := &editStep{up: in, name: name, n: in.n.kids[name]}
	if in.old != nil && in.old.Kind == tree.KindDir {
		e, ok, err := ed.old.Child(in.old.Sub, name)
		if err != nil {
			return nil, err
		}
		if ok {
			s.old = &e
		}
	}
	s.now = s.old
	if s.n.edit != nil {
		s.now = nil
		if s.n.edit.New != nil {
			e := *s.n.edit.New
			e.Name = name
			s.now = &e
		}
	}
	if s.now == nil || s.now.Kind != tree.KindDir {
		if made := s.n.makes(); made != nil {
			return nil, fmt.Errorf("edit %q: %s is not a directory", shortName(made.Path), shortName(s.path()))
		}
		if s.n.edit == nil {
			return nil, nil //nolint:nilnil // only removals below something that is not there
		}
	}
	return s, nil
}

// makes returns an edit below a node that adds something; nil if there is none.
func (n *editNode) makes() *Edit {
	todo := []*editNode{n}
	for len(todo) > 0 {
		last := len(todo) - 1
		at := todo[last]
		todo = todo[:last]
		for _, k := range at.kids {
			if k.edit != nil && k.edit.New != nil {
				return k.edit
			}
			todo = append(todo, k)
		}
	}
	return nil
}

func (n *editNode) names() []string { return slices.Sorted(maps.Keys(n.kids)) }
