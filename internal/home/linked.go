package home

import (
	"path"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/leftout"
	"github.com/forkcell/forkcell/internal/outgoing"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/tree"
)

// Gate returns what decides about entries that are written to a directory of the host.
// allow has the patterns of the operator's --allow-control.
func Gate(dir string, allow []string) (*outgoing.Gate, error) {
	place, err := outgoing.PlaceOf(dir)
	if err != nil {
		return nil, api.Usagef("", "%s: %v", quote.Path(dir), quote.Cause(err))
	}
	g, err := outgoing.New(place, allow)
	if err != nil {
		return nil, api.Usagef("patterns are gitignore-style", "bad --allow-control: %v", err)
	}
	return g, nil
}

// View returns the names in the directories of a tree.
func View(t *tree.Tree) outgoing.View {
	return func(dir string) ([]string, error) {
		e, there, err := t.Lookup(dir)
		if err != nil || !there || e.Kind != tree.KindDir {
			return nil, err
		}
		children, err := t.Children(e.Sub)
		names := make([]string, len(children))
		for i, c := range children {
			names[i] = c.Name
		}
		return names, err
	}
}

// Linked returns what finds control files behind the links of a workspace, which is at
// root. It looks for such links in the directories above the changed paths, in control
// directories there, such as .claude with all that is below it, and one level deeper in other
// directories whose names begin with a dot, as .github does. It looks in no others, so that
// the cost follows the change.
func Linked(t *tree.Tree, root string, changed []string) (*leftout.Linked, error) {
	var links []string
	for dir := range above(changed) {
		found, err := linksIn(t, dir, true)
		if err != nil {
			return nil, err
		}
		links = append(links, found...)
	}
	return leftout.NewLinked(root, links, func(path string) (string, error) {
		e, _, err := t.Lookup(path)
		return e.Target, err
	})
}

// above returns the directories above the paths, and the root.
func above(paths []string) map[string]bool {
	dirs := map[string]bool{".": true}
	for _, p := range paths {
		for dir := path.Dir(p); !dirs[dir]; dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	return dirs
}

// linksIn lists the links in a directory of a tree and in the control directories there, and
// with hidden also those in its directories whose names begin with a dot. What is no
// directory has none.
func linksIn(t *tree.Tree, dir string, hidden bool) (links []string, err error) {
	e, _, err := t.Lookup(dir)
	if err != nil || e.Kind != tree.KindDir {
		return nil, err
	}
	children, err := t.Children(e.Sub)
	if err != nil {
		return nil, err
	}
	for _, c := range children {
		at := path.Join(dir, c.Name)
		switch {
		case c.Kind == tree.KindSymlink:
			links = append(links, at)
		case c.Kind == tree.KindDir && (hidden && strings.HasPrefix(c.Name, ".") || isControlDir(at)):
			below, err := linksIn(t, at, false)
			if err != nil {
				return nil, err
			}
			links = append(links, below...)
		}
	}
	return links, nil
}

func isControlDir(path string) bool {
	_, yes := leftout.IsControlDir(path)
	return yes
}
