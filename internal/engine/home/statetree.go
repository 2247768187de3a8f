package home

import (
	"io/fs"
	"os"

	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// StateTree reads the repositories in the workspace of a state.
type StateTree struct {
	Tree *tree.Tree

	home *Home
	cell store.Cell
	at   store.Checkpoint
}

// StateTree opens the workspace of a state.
func (h *Home) StateTree(c store.Cell, at store.Checkpoint) (*StateTree, error) {
	t, err := h.Tree(at, workspace.AreaWorkspace)
	return h.TreeOf(c, at, t), err
}

// TreeOf is StateTree for a workspace that is open.
func (h *Home) TreeOf(c store.Cell, at store.Checkpoint, t *tree.Tree) *StateTree {
	return &StateTree{t, h, c, at}
}

// Root is where the workspace is in the cell.
func (s *StateTree) Root() string { return s.cell.MountAt }

func (s *StateTree) lookup(name string) (tree.Entry, error) {
	entry, ok, err := s.Tree.Lookup(name)
	if err == nil && !ok {
		err = &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return entry, err
}

// Open opens a file.
func (s *StateTree) Open(name string) (*os.File, error) {
	entry, err := s.lookup(name)
	if err != nil {
		return nil, err
	}
	if entry.Kind != tree.KindFile {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fsx.ErrNotRegular}
	}
	return s.home.Workspace.OpenFile(workspace.Backend(s.cell.Backend), s.at.Layer, workspace.AreaWorkspace, name, entry)
}

// Names lists a directory.
func (s *StateTree) Names(name string) ([]string, error) {
	children, err := s.Children(name)
	names := make([]string, len(children))
	for i, c := range children {
		names[i] = c.Name
	}
	return names, err
}

// Children lists a directory, with the kinds of its entries.
func (s *StateTree) Children(name string) ([]secretfiles.Child, error) {
	entry, err := s.lookup(name)
	if err != nil {
		return nil, err
	}
	if entry.Kind != tree.KindDir {
		return nil, &fs.PathError{Op: "list", Path: name, Err: fs.ErrInvalid}
	}
	children, err := s.Tree.Children(entry.Sub)
	out := make([]secretfiles.Child, len(children))
	for i, c := range children {
		out[i] = secretfiles.Child{Name: c.Name, Dir: c.Kind == tree.KindDir, File: c.Kind == tree.KindFile}
	}
	return out, err
}

// FileOpener opens a file of one side of a comparison.
type FileOpener func(path string, e tree.Entry) (*os.File, error)

// FilesOf opens the files of a state.
func (h *Home) FilesOf(c store.Cell, at store.Checkpoint) FileOpener {
	return func(path string, entry tree.Entry) (*os.File, error) {
		f, err := h.Workspace.OpenFile(workspace.Backend(c.Backend), at.Layer, workspace.AreaWorkspace, path, entry)
		if err != nil {
			return nil, LayerError(at, err)
		}
		return f, nil
	}
}
