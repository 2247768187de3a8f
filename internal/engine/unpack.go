package engine

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/archive"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// unpackedDir is the directory of the files, in the directory of an unpacked archive.
// That one keeps its own time, by which it expires.
const unpackedDir = "files"

// unpack writes an archive to a directory of the home, which exists until it is
// closed, and reads it with the rules of a cell.
func (s *heldCell) unpack(ctx context.Context, at workspace.Cell, r io.Reader) (*openedSource, error) {
	if err := s.e.ExpireUploads(uploadLife); err != nil {
		return nil, err
	}
	place := uploadDir + "/" + store.NewID("unp")
	home := s.e.Store.Dir()
	if err := home.MkdirAll(place+"/"+unpackedDir, 0o700); err != nil {
		return nil, err
	}
	remove := func() {
		if err := home.RemoveAll(place); err != nil {
			s.e.Logger.Warn("remove an unpacked archive", "error", err)
		}
	}
	dir, err := home.OpenDir(place + "/" + unpackedDir)
	if err != nil {
		remove()
		return nil, err
	}
	src := &openedSource{dir: dir}
	src.close = func() { s.e.Workspace.Forget(src.tree); dir.Close(); remove() }
	var notes []string
	owners, err := extract(ctx, r, dir, func(path, what string) {
		notes = append(notes, quote.Path(path)+": "+what+" was not kept")
	})
	if err == nil {
		src.tree, src.report, err = s.e.Workspace.ScanUnpacked(ctx, at, dir, owners)
	}
	if err != nil {
		src.close()
		return nil, importError(s.Record, err)
	}
	src.report.Notes = append(src.report.Notes, notes...)
	return src, nil
}

// extract writes an archive into an empty directory. It returns the recorded owners
// unless they are on disk.
func extract(ctx context.Context, r io.Reader, dst *fsx.Dir, dropped func(path, what string)) (workspace.OwnerOf, error) {
	root := os.Geteuid() == 0
	owners, err := archive.Extract(ctx, r, dst, archive.ExtractOptions{
		SetOwners: root, Dropped: dropped, Space: func(bytes int64) error { return spend(ctx, bytes) },
	})
	if root || err != nil {
		return nil, err
	}
	return func(path string) (workspace.Owner, bool) {
		o, ok := owners.Of(path)
		return workspace.Owner(o), ok
	}, nil
}

func importError(c store.Cell, err error) error {
	switch {
	case errors.Is(err, archive.ErrArchive):
		return api.Usagef("`forkcell export CELL -o FILE` makes archives that can be imported", "--from %s: %v", quote.Path(c.Source), err)
	case errors.Is(err, workspace.ErrSourceChanged):
		return &api.Error{Kind: api.Refused, Code: api.CodeSourceChanged, Message: "import: " + err.Error(), Hint: "stop what writes there, then try again", Err: err}
	}
	if bad, ok := errors.AsType[*workspace.UnsealableError](err); ok {
		return &api.Error{
			Kind: api.Refused, Code: api.CodeUnsealable, Message: "import: " + err.Error(),
			Hint: "leave them out with --exclude", Details: bad.Problems, Err: err,
		}
	}
	if errors.Is(err, os.ErrPermission) {
		return api.Usagef("make it readable, or leave it out with --exclude", "import: %v", err)
	}
	return api.Failf(api.CodeImport, err, "import %s", quote.Path(c.Source))
}
