package home

import (
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/outgoing"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
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

// Outgoing returns the change of a path, for a gate.
func Outgoing(p string, was, now *tree.Entry) outgoing.Entry {
	e := now
	if e == nil {
		e = was
	}
	return outgoing.Entry{Path: p, Dir: e.Kind == tree.KindDir, File: e.Kind == tree.KindFile, Gone: now == nil}
}

// WorkspaceView returns the view of the workspace of a state.
func (h *Home) WorkspaceView(c store.Cell, at store.Checkpoint, t *tree.Tree) *outgoing.View {
	return &outgoing.View{
		Names: func(dir string) ([]string, error) {
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
		},
		Link: func(p string) (string, error) {
			e, there, err := t.Lookup(p)
			if err == nil && (!there || e.Kind != tree.KindSymlink) {
				err = &fs.PathError{Op: "readlink", Path: p, Err: fs.ErrInvalid}
			}
			return e.Target, err
		},
		Open: func(p string) (*os.File, error) {
			e, there, err := t.Lookup(p)
			if err == nil && (!there || e.Kind != tree.KindFile) {
				err = &fs.PathError{Op: "open", Path: p, Err: fs.ErrNotExist}
			}
			if err != nil {
				return nil, err
			}
			return h.Workspace.OpenFile(workspace.Backend(c.Backend), at.Layer, workspace.AreaWorkspace, p, e)
		},
	}
}

// NewLinkFinder returns what finds control files behind the links of a workspace, which is at
// root. It looks for such links in the directories above the changed paths, in control
// directories there, such as .claude with all that is below it, and one level deeper in other
// directories whose names begin with a dot, as .github does. It looks in no others, so that
// the cost follows the change.
func NewLinkFinder(t *tree.Tree, root string, changed []string) (*secretfiles.LinkFinder, error) {
	var links []string
	for dir := range directoriesAbove(changed) {
		found, err := linksIn(t, dir, true)
		if err != nil {
			return nil, err
		}
		links = append(links, found...)
	}
	return secretfiles.NewLinked(root, links, func(path string) (string, error) {
		e, _, err := t.Lookup(path)
		return e.Target, err
	})
}

// directoriesAbove returns the directories above the paths, and the root.
func directoriesAbove(paths []string) map[string]bool {
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
	_, yes := secretfiles.IsControlDir(path)
	return yes
}
