package publication

import (
	"errors"
	"io"
	"path"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/publish"
	"github.com/forkcell/forkcell/internal/storage/gitread"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// maxHistoryFiles bounds the files of objects in a cell's repository.
const maxHistoryFiles = 200_000

// history returns the repository in the accepted state, or nil if the cell's commits
// are not kept.
func (p *publication) history() (*publish.History, error) {
	if !p.req.KeepCommits {
		return nil, nil //nolint:nilnil // not asked for
	}
	state, err := p.Home.StateTree(p.Record, p.accepted)
	if err != nil {
		return nil, err
	}
	refused := func(err error) error {
		return api.Refusef(api.CodeGate, "without --keep-commits the work is one commit", "the repository in the cell: %s", quote.Line(err.Error()))
	}
	repo, err := gitread.Open(state, ".git")
	if err != nil {
		return nil, refused(err)
	}
	defer repo.Close()
	h := &publish.History{}
	if h.Head, err = repo.Head(); err != nil {
		return nil, refused(err)
	}
	if h.Objects, err = objectFiles(state); err != nil {
		return nil, refused(err)
	}
	return h, nil
}

// objectFiles lists the files in which the repository of a state keeps its objects.
func objectFiles(state *home.StateTree) ([]publish.ObjectFile, error) {
	const root = ".git/objects"
	dirs, err := state.Children(root)
	if err != nil {
		return nil, err
	}
	var out []publish.ObjectFile
	for _, dir := range dirs {
		var inside []secretfiles.Child
		if dir.Dir {
			if inside, err = state.Children(path.Join(root, dir.Name)); err != nil {
				return nil, err
			}
		}
		for _, f := range inside {
			if !f.File {
				continue
			}
			name := path.Join(dir.Name, f.Name)
			out = append(out, publish.ObjectFile{Name: name, File: &publish.File{
				Open: func() (io.ReadCloser, error) { return state.Open(path.Join(root, name)) },
			}})
		}
		if len(out) > maxHistoryFiles {
			return nil, errors.New("too many files of objects")
		}
	}
	return out, nil
}
