package publication

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/engine/aside"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/publish"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// startingState is a state that the work of a cell began with: the import, and each state of
// the source that a refresh brought in, with the paths that the source had changed.
type startingState struct {
	state   store.Checkpoint
	tree    *tree.Tree
	changed map[string]bool // nil is all paths
}

// findBegan finds the states that the accepted work began with, the oldest first.
func (p *publication) findBegan(tx *store.Tx) error {
	line, err := tx.Lineage(p.accepted.ID)
	if err != nil {
		return err
	}
	if len(line) == 0 {
		return store.ErrNotFound
	}
	oldest := line[len(line)-1]
	t, err := p.Home.Tree(oldest, workspace.AreaWorkspace)
	if err != nil {
		return err
	}
	p.began = []startingState{{state: oldest, tree: t}}
	for i := len(line) - 2; i >= 0; i-- {
		source := line[i]
		if source.Kind != home.KindSource {
			if source.Source == "" {
				continue
			}
			if source, err = tx.Checkpoint(source.Source); err != nil {
				return err
			}
		}
		b, err := p.broughtIn(tx, source)
		if err != nil {
			return err
		}
		p.began = append(p.began, b)
	}
	return nil
}

// findReceivedBegan finds the states that received work began with, the oldest first. The
// received state follows the first one, and has the newest state of the source that it
// contains; what an earlier refresh brought in is before that.
func (p *publication) findReceivedBegan(tx *store.Tx) error {
	first, err := p.Home.FindCheckpoint(tx, p.Record, "base")
	if err != nil {
		return err
	}
	id := p.accepted.Source
	if p.accepted.Kind == home.KindSource {
		id = p.accepted.ID
	}
	for id != "" && id != first.ID {
		state, err := tx.Checkpoint(id)
		if err != nil {
			return err
		}
		if state.Kind != home.KindSource {
			id = state.Source
			continue
		}
		b, err := p.broughtIn(tx, state)
		if err != nil {
			return err
		}
		p.began, id = append(p.began, b), state.Parent
	}
	var t *tree.Tree
	if t, err = p.Home.Tree(first, workspace.AreaWorkspace); err != nil {
		return err
	}
	p.began = append(p.began, startingState{state: first, tree: t})
	slices.Reverse(p.began)
	return nil
}

// broughtIn returns what a refresh brought into the cell.
func (p *publication) broughtIn(tx *store.Tx, source store.Checkpoint) (startingState, error) {
	before, err := tx.Checkpoint(source.Parent)
	if err != nil {
		return startingState{}, err
	}
	from, to, err := p.Home.Trees(before, source, workspace.AreaWorkspace)
	if err != nil {
		return startingState{}, err
	}
	changes, err := tree.Diff(from, to, tree.DiffOptions{})
	b := startingState{state: source, tree: to, changed: make(map[string]bool, len(changes))}
	for _, ch := range changes {
		b.changed[ch.Path] = true
	}
	return b, home.LongPath(p.Record, err)
}

// beganWith returns the state that the work on a path began with.
func (p *publication) beganWith(path string) startingState {
	for i := len(p.began) - 1; i > 0; i-- {
		if p.began[i].changed[path] {
			return p.began[i]
		}
	}
	return p.began[0]
}

// changes returns the accepted changes of files. The repository in the root of the
// workspace is no part of them.
func (p *publication) changes(ctx context.Context) ([]publish.Change, error) {
	theirs, err := p.Home.Tree(p.accepted, workspace.AreaWorkspace)
	if err != nil {
		return nil, err
	}
	same := func(path string, old, now tree.Entry) (bool, error) {
		return p.Home.SameBytes(ctx, []store.Checkpoint{p.began[0].state, p.accepted}, []store.Cell{p.Record, p.Record}, workspace.AreaWorkspace, path, old, now)
	}
	diff, err := tree.Diff(p.began[0].tree, theirs, tree.DiffOptions{SameBytes: same})
	if err != nil {
		return nil, home.LongPath(p.Record, err)
	}
	paths := map[string]bool{}
	for _, ch := range diff {
		paths[ch.Path] = true
	}
	for _, b := range p.began[1:] {
		for path := range b.changed {
			paths[path] = true
		}
	}
	var held *aside.Rules
	if err := p.Home.View(func(tx *store.Tx) (err error) { held, err = p.by.masks.Of(tx, p.Record); return err }); err != nil {
		return nil, err
	}
	var out []publish.Change
	for path := range paths {
		if aside, state := held.Has(path, false); aside || state || path == "." || path == ".git" || strings.HasPrefix(path, ".git/") {
			continue
		}
		c, err := p.change(path, theirs)
		if err != nil {
			return nil, err
		}
		if c != nil {
			out = append(out, *c)
		}
	}
	slices.SortFunc(out, func(a, b publish.Change) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// change compares a path with the state that the work on it began with. It returns
// nil if git would see no change.
func (p *publication) change(path string, theirs *tree.Tree) (*publish.Change, error) {
	from := p.beganWith(path)
	was, hadIt, err := from.tree.Lookup(path)
	if err != nil {
		return nil, err
	}
	is, hasIt, err := theirs.Lookup(path)
	if err != nil {
		return nil, err
	}
	c := &publish.Change{Path: path}
	if hadIt {
		c.Old = p.file(from.state, path, was)
	}
	if hasIt {
		c.New = p.file(p.accepted, path, is)
	}
	if c.Old == nil && c.New == nil || hadIt && hasIt && sameForGit(was, is) {
		return nil, nil //nolint:nilnil // no change
	}
	return c, nil
}

// sameForGit reports whether two entries are certainly the same file for git, which
// keeps of all attributes only whether a file can be executed.
func sameForGit(a, b tree.Entry) bool {
	return a.Kind == b.Kind && a.Size == b.Size && a.Digest == b.Digest && a.PlainDigest == b.PlainDigest && a.Target == b.Target &&
		executable(a) == executable(b)
}

func executable(e tree.Entry) bool { return e.Kind == tree.KindFile && e.Mode&0o100 != 0 }

// file returns an entry as git would keep it; nil for a directory.
func (p *publication) file(at store.Checkpoint, path string, e tree.Entry) *publish.File {
	switch e.Kind {
	case tree.KindDir:
		return nil
	case tree.KindFile:
		open := p.Home.FilesOf(p.Record, at)
		return &publish.File{Executable: executable(e), Open: func() (io.ReadCloser, error) { return open(path, e) }}
	case tree.KindSymlink:
		return &publish.File{Link: true, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(e.Target)), nil }}
	default:
	}
	return &publish.File{Other: true, Open: func() (io.ReadCloser, error) { return nil, errors.New("not a file") }}
}
