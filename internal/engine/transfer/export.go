package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/apply"
	"github.com/forkcell/forkcell/internal/storage/archive"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// Export writes a whole state, or only its changes since the last apply, to an
// archive or a directory. The output appears whole or not at all.
func (e *Exchange) Export(ctx context.Context, req api.ExportRequest) (*api.ExportResult, error) {
	c, err := e.FindCell(req.Cell)
	if err != nil {
		return nil, err
	}
	if req.Output == "" {
		return nil, api.Usagef("`-o FILE.tar`, `-o FILE.tar.zst` or `-o DIR`", "no output")
	}
	output, err := e.Caller.AbsPath(req.Output)
	if err == nil {
		err = e.RefuseOverlap("-o", output)
	}
	if err != nil {
		return nil, err
	}
	x := &export{e: e, ctx: e.WithProgress(ctx), req: req, output: output, cell: c}
	if err := x.states(); err != nil {
		return nil, err
	}
	if req.WithMemory {
		if err := x.checkMemory(); err != nil {
			return nil, err
		}
	}
	if strings.HasSuffix(req.Output, ".tar") || strings.HasSuffix(req.Output, ".tar.zst") {
		err = x.archive()
	} else {
		err = x.directory()
	}
	if err == nil && req.WithMemory {
		err = x.memory()
	}
	return x.res, e.ReadError(err, x.at, x.base)
}

// ExportTo writes a whole state, or only its changes since the last apply, as a tar
// archive. begin is called before the first byte.
func (e *Exchange) ExportTo(ctx context.Context, req api.ExportRequest, begin func() io.Writer) error {
	c, err := e.FindCell(req.Cell)
	if err != nil {
		return err
	}
	x := &export{e: e, ctx: ctx, req: req, cell: c}
	if err := x.states(); err != nil {
		return err
	}
	return e.ReadError(x.writeArchive(begin(), archive.Options{}), x.at, x.base)
}

type export struct {
	e       *Exchange
	ctx     context.Context //nolint:containedctx // lives as long as the one call
	req     api.ExportRequest
	output  string // req.Output, absolute
	cell    store.Cell
	at      store.Checkpoint
	base    store.Checkpoint // the last applied state, or the imported one
	tree    *tree.Tree
	changes []tree.Change
	res     *api.ExportResult
}

func (x *export) states() error {
	err := x.e.Store.View(func(tx *store.Tx) (err error) {
		if x.at, err = x.e.FindCheckpoint(tx, x.cell, x.req.Checkpoint); err != nil {
			return err
		}
		if x.req.Since != "" {
			x.base, err = x.e.FindCheckpoint(tx, x.cell, x.req.Since)
			return err
		}
		x.base, err = tx.Checkpoint(x.cell.Applied)
		return err
	})
	if err != nil {
		return err
	}
	if x.tree, err = x.e.Tree(x.at, workspace.AreaWorkspace); err != nil {
		return err
	}
	area := x.at.Areas[workspace.AreaWorkspace]
	x.res = &api.ExportResult{
		Cell: x.cell.Name, CheckpointID: x.at.ID, Root: x.at.Root(), Output: x.req.Output,
		Files: area.Files, Bytes: area.Bytes, Deleted: []string{}, Notes: []string{},
	}
	if !x.req.Changes {
		return nil
	}
	from, err := x.e.Tree(x.base, workspace.AreaWorkspace)
	if err != nil {
		return err
	}
	if x.changes, err = tree.Diff(from, x.tree, tree.DiffOptions{}); err != nil {
		return home.LongPath(x.cell, err)
	}
	if x.req.Foreign {
		if err := x.onlyChanged(); err != nil {
			return err
		}
	}
	x.res.Files, x.res.Bytes = 0, 0
	for _, ch := range x.changes {
		if ch.New == nil {
			x.res.Deleted = append(x.res.Deleted, ch.Path)
			continue
		}
		x.res.Files++
		x.res.Bytes += ch.New.Size
	}
	return nil
}

// onlyChanged keeps the changes of the paths that the request names. All of them must be
// in the state.
func (x *export) onlyChanged() error {
	named := x.namedPaths()
	x.changes = slices.DeleteFunc(x.changes, func(ch tree.Change) bool { return !named[ch.Path] })
	for _, ch := range x.changes {
		delete(named, ch.Path)
	}
	if delete(named, "."); len(named) > 0 {
		return api.Refusef(api.CodeProtocol, "nothing was written; try again", "the archive from the daemon does not have %s, which it names as changed",
			api.Counted(len(named), "path"))
	}
	return nil
}

// namedPaths returns the paths that the request names as changed.
func (x *export) namedPaths() map[string]bool {
	named := map[string]bool{}
	for _, p := range x.req.Changed {
		named[p] = true
	}
	return named
}

func (x *export) open(path string, entry tree.Entry) (*os.File, error) {
	f, err := x.e.Workspace.OpenFile(workspace.Backend(x.cell.Backend), x.at.Layer, workspace.AreaWorkspace, path, entry)
	if err != nil {
		return nil, home.LayerError(x.at, err)
	}
	return f, nil
}

func (x *export) archive() error {
	return WriteOutput(x.output, func(w io.Writer) error {
		err := x.writeArchive(w, archive.Options{Zstd: archive.IsZstd(x.req.Output)})
		if errors.Is(err, fsx.ErrManyExtents) {
			return api.Refusef(api.CodeHoles, "`forkcell export "+x.cell.Name+" -o DIR` writes a directory", "%v", err)
		}
		return err
	})
}

func (x *export) writeArchive(w io.Writer, opt archive.Options) error {
	if x.req.Changes {
		return archive.WriteChanges(x.ctx, w, x.tree, x.changes, x.open, opt)
	}
	return archive.Write(x.ctx, w, x.tree, x.open, opt)
}

// directory fills a new directory beside its final name and then renames it.
func (x *export) directory() error {
	names, err := os.ReadDir(x.output)
	switch {
	case err == nil && len(names) > 0:
		return api.Refusef(api.CodeExists, "choose another name", "%s is not empty", quote.Path(x.req.Output))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return api.Usagef("", "%s: %v", quote.Path(x.req.Output), quote.Cause(err))
	}
	path, err := x.place(err == nil)
	if err != nil {
		return err
	}
	temp := filepath.Join(filepath.Dir(path), "."+store.NewID("forkcell"))
	if err := os.Mkdir(temp, 0o700); err != nil {
		return api.Usagef("", "%s: %v", quote.Path(x.req.Output), quote.Cause(err))
	}
	if err := x.fill(temp); err != nil {
		return errors.Join(api.Failf(api.CodeOutput, err, "write %s", quote.Path(x.req.Output)), removeTree(temp))
	}
	if err := replaceEmpty(temp, path); err != nil {
		return errors.Join(api.Failf(api.CodeOutput, err, "write %s", quote.Path(x.req.Output)), removeTree(temp))
	}
	return nil
}

// place returns the final path of the directory. An existing directory is replaced
// where it is, not the link that leads to it.
func (x *export) place(exists bool) (string, error) {
	if !exists {
		return filepath.Clean(x.output), nil
	}
	real, err := filepath.EvalSymlinks(x.output)
	if err != nil {
		return "", api.Usagef("", "%s: %v", quote.Path(x.req.Output), quote.Cause(err))
	}
	return real, nil
}

func (x *export) fill(where string) error {
	dst, err := fsx.OpenRoot(where)
	if err != nil {
		return err
	}
	defer dst.Close()
	out, err := x.hostExport()
	if err != nil {
		return err
	}
	if x.req.Changes {
		err = x.fillChanges(where, out)
	} else {
		err = x.e.Workspace.Materialise(x.ctx, workspace.Backend(x.cell.Backend), x.at.Layer, workspace.AreaWorkspace, dst,
			workspace.MaterialiseOptions{Rewrite: out.hostEntry, Skip: out.skip})
	}
	x.res.Notes = append(x.res.Notes, out.notes()...)
	return errors.Join(err, dst.SyncFS())
}

// fillChanges writes only the changes, with the directories above them. The result
// lists the deleted paths.
func (x *export) fillChanges(where string, out *hostExport) error {
	ops := map[string]*tree.Entry{}
	for _, ch := range x.changes {
		if ch.New == nil || ch.Path == "." || out.skip(ch.Path) {
			continue
		}
		ops[ch.Path] = ch.New
		for dir := path.Dir(ch.Path); dir != "."; dir = path.Dir(dir) {
			e, ok, err := x.tree.Lookup(dir)
			if err != nil || !ok {
				return errors.Join(err, fmt.Errorf("no entry for %s", quote.Path(dir)))
			}
			ops[dir] = &e
		}
	}
	plan := apply.Plan{ID: store.NewID("apply"), Target: where}
	for p, e := range ops {
		onHost := out.hostEntry(p, *e)
		plan.Ops = append(plan.Ops, apply.Op{Path: p, New: &onHost})
	}
	scratch, err := os.MkdirTemp("", "forkcell-export-")
	if err != nil {
		return err
	}
	journal, err := fsx.OpenRoot(scratch)
	if err != nil {
		return err
	}
	defer journal.Close()
	_, err = apply.Execute(x.ctx, plan, x.e.Contents(x.cell, x.at, x.tree), journal, apply.Options{})
	return errors.Join(err, os.RemoveAll(scratch))
}

// replaceEmpty renames a directory to the path of another one, which must be empty
// or missing. os.Rename would refuse an empty one.
func replaceEmpty(from, to string) error {
	parent, err := fsx.OpenRoot(filepath.Dir(to))
	if err != nil {
		return err
	}
	defer parent.Close()
	return parent.Rename(filepath.Base(from), parent, filepath.Base(to), 0)
}

// removeTree removes a directory that this process made, regardless of the modes in
// it.
func removeTree(path string) error {
	parent, err := fsx.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer parent.Close()
	return parent.RemoveAll(filepath.Base(path))
}
