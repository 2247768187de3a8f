package home

import (
	"fmt"
	"io"

	"github.com/forkcell/forkcell/internal/storage/apply"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Contents returns the files of a state's workspace, for an apply.
func (h *Home) Contents(c store.Cell, at store.Checkpoint, t *tree.Tree) apply.Source {
	return contents{h, c, at, t}
}

// contents opens files of a state for an apply. It looks their contents up in the
// state's tree, because the entries of a plan do not have the location.
type contents struct {
	h    *Home
	cell store.Cell
	at   store.Checkpoint
	tree *tree.Tree
}

func (c contents) Open(path string, _ tree.Entry) (io.ReadCloser, error) {
	entry, ok, err := c.tree.Lookup(path)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%s has no %s", c.at.ID, quote.Path(path))
	}
	return c.h.Opener(c.cell, c.at, workspace.AreaWorkspace, path, entry)()
}
