package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	"github.com/forkcell/forkcell/internal/engine/aside"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/gitread"
	"github.com/forkcell/forkcell/internal/storage/secretfiles"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// commitInstructions gives the cell the instruction files of the last commit of its
// source, in place of those in the work tree, and returns which ones differed. It is
// done once, before the first run that masks control files. The state of the source
// that later applies compare with gets them too: what the cell does not change is not
// written. If the commit cannot be read, the error matches gitread.ErrUnsupported.
func (s *heldCell) commitInstructions(ctx context.Context) ([]string, error) {
	if s.Record.SourceKind != "dir" && s.Record.SourceKind != "archive" || s.Record.Live != "" {
		return nil, nil
	}
	var held *aside.Rules
	var base store.Checkpoint
	err := s.e.Store.View(func(tx *store.Tx) (err error) {
		if held, err = s.e.shared.masks.Of(tx, s.Record); err != nil || held != nil {
			return err
		}
		base, err = home.BaseState(tx, s.Record, s.Head)
		return err
	})
	if err != nil || held != nil {
		return nil, err
	}
	committed, err := s.committedInstructions(base)
	if err != nil || committed == nil {
		return nil, err
	}
	now, paths, err := s.instructionEdits(s.Head, committed)
	if err != nil || len(now) == 0 {
		return nil, err
	}
	was, _, err := s.instructionEdits(base, committed)
	if err != nil {
		return nil, err
	}
	return paths, s.takeInstructions(ctx, base, was, now)
}

// CommitInstructions gives a mirror the instruction files of the last commit, if the
// daemon has given them to the cell that the mirror stands for. sources are the roots of
// the states of the source that the daemon's cell contains. Nothing is taken from the
// daemon: the commit is read from the files that were sent.
func (e *Engine) CommitInstructions(ctx context.Context, cell string, sources []string) error {
	s, err := e.hold(ctx, cell, "receive", 0)
	if err != nil {
		return err
	}
	defer s.Release()
	if s.Head.ID != s.Record.Applied || slices.Contains(sources[:min(1, len(sources))], s.Head.Root()) {
		return nil
	}
	committed, err := s.committedState(s.Head)
	if errors.Is(err, gitread.ErrUnsupported) || err == nil && committed == nil {
		return nil // the daemon could not read it either
	}
	if err != nil {
		return err
	}
	edits, _, err := s.instructionEdits(s.Head, committed)
	if err != nil || len(edits) == 0 {
		return err
	}
	next, err := s.Derive(ctx, s.Head, home.KindSource, edits)
	if err != nil || !slices.Contains(sources, next.Root()) {
		return err
	}
	return s.takeInstructions(ctx, s.Head, edits, edits)
}

// committedInstructions returns the instruction files in the last commit of the source, those
// that it does not have as nil. Without a commit the result is nil. The source is the
// directory as it is now, or the state of it that an archive had.
func (s *heldCell) committedInstructions(base store.Checkpoint) (map[string]*gitread.File, error) {
	if s.Record.SourceKind != "dir" {
		return s.committedState(base)
	}
	dir, err := s.e.OpenHost(s.Record.Source)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // as documented
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	info, err := dir.Lstat(".git")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // as documented
	}
	if err != nil {
		return nil, err
	}
	return committedIn(secretfiles.InDir(dir), info.IsDir())
}

// committedState is committed for a repository in a state.
func (s *heldCell) committedState(at store.Checkpoint) (map[string]*gitread.File, error) {
	files, err := s.e.StateTree(s.Record, at)
	if err != nil {
		return nil, home.StateError(at, err)
	}
	git, there, err := files.Tree.Lookup(".git")
	if err != nil || !there {
		return nil, err
	}
	return committedIn(files, git.Kind == tree.KindDir)
}

func committedIn(files gitread.Files, isDir bool) (map[string]*gitread.File, error) {
	if !isDir {
		return nil, fmt.Errorf("%w: .git is no directory", gitread.ErrUnsupported)
	}
	repo, err := gitread.Open(files, ".git")
	if err != nil {
		return nil, fmt.Errorf("read the last commit of the source: %w", err)
	}
	defer repo.Close()
	head, err := repo.Head()
	if errors.Is(err, fs.ErrNotExist) || err == nil && head == "" {
		return nil, nil //nolint:nilnil // as committed documents
	}
	if err != nil {
		return nil, fmt.Errorf("read the last commit of the source: %w", err)
	}
	found := map[string]*gitread.File{}
	for _, name := range secretfiles.Instructions() {
		if found[name], err = repo.File(head, name); err != nil {
			return nil, fmt.Errorf("read %s of the last commit of the source: %w", name, err)
		}
	}
	return found, nil
}

// instructionEdits returns what makes a state have the committed files.
func (s *heldCell) instructionEdits(at store.Checkpoint, committed map[string]*gitread.File) (edits []workspace.Edit, paths []string, err error) {
	t, err := s.e.Tree(at, workspace.AreaWorkspace)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range secretfiles.Instructions() {
		old, there, err := t.Lookup(name)
		if err != nil {
			return nil, nil, err
		}
		file := committed[name]
		if file == nil {
			if there && old.Kind != tree.KindDir {
				edits, paths = append(edits, workspace.Edit{Path: name}), append(paths, name)
			}
			continue
		}
		above, ok, err := t.Lookup(path.Dir(name))
		if err != nil {
			return nil, nil, err
		}
		if !ok || above.Kind != tree.KindDir {
			continue
		}
		e, err := instructionEntry(name, file, above)
		if err != nil {
			return nil, nil, err
		}
		if there && old.Kind == e.Kind && old.Digest == e.Digest && old.Target == e.Target {
			continue
		}
		edits = append(edits, workspace.Edit{Path: name, New: &e, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file.Data)), nil }})
		paths = append(paths, name)
	}
	return edits, paths, nil
}

// instructionEntry returns a committed file as an entry of a state, in the directory
// above.
func instructionEntry(name string, file *gitread.File, above tree.Entry) (e tree.Entry, err error) {
	e = tree.Entry{Name: path.Base(name), UID: above.UID, GID: above.GID, MTime: above.MTime, Size: int64(len(file.Data))}
	if file.Link {
		e.Kind, e.Mode, e.Target = tree.KindSymlink, 0o777, string(file.Data)
		return e, nil
	}
	e.Kind, e.Mode = tree.KindFile, 0o644
	e.Digest, err = digestOf(file.Data)
	return e, err
}

func digestOf(text []byte) (tree.Hash, error) {
	c := tree.NewContent()
	c.Reset(int64(len(text)), nil)
	if _, err := c.Write(text); err != nil {
		return tree.Hash{}, err
	}
	digest, _, err := c.Sum(nil)
	return digest, err
}

// takeInstructions seals the source and the cell with the committed files.
func (s *heldCell) takeInstructions(ctx context.Context, base store.Checkpoint, was, now []workspace.Edit) error {
	applied, err := s.Derive(ctx, base, home.KindSource, was)
	if err != nil {
		return fmt.Errorf("seal the source: %w", err)
	}
	next := applied
	if base.ID != s.Head.ID {
		if next, err = s.Derive(ctx, s.Head, kindRefresh, now); err != nil {
			return fmt.Errorf("seal the instruction files: %w", err)
		}
		next.Source = applied.ID
	}
	return s.recordSource(ctx, base, applied, next)
}
