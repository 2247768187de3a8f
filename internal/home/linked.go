package home

import (
	"github.com/forkcell/forkcell/internal/leftout"
	"github.com/forkcell/forkcell/internal/tree"
)

// Linked returns what finds control files behind the links of a workspace, which is at
// root.
func Linked(t *tree.Tree, root string) (*leftout.Linked, error) {
	l := leftout.NewLinked(root)
	return l, t.Walk(func(path string, e tree.Entry) error {
		if e.Kind == tree.KindSymlink {
			l.Add(path, e.Target)
		}
		return nil
	})
}
