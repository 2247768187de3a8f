package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

const (
	// maxPromoted and maxPromotedDepth bound the number and the depth of the files
	// in one promote.
	maxPromoted      = 500_000
	maxPromotedDepth = 64
)

// Modes of everything in a shared cache.
const (
	sharedFile    = 0o644
	sharedProgram = 0o755
	sharedDir     = 0o755
)

// kindPromoted is the kind of a state that a promotion made.
const kindPromoted = "promote"

// Further details of the statement about a promotion.
const (
	detailFromCellID     = "from_cell_id"
	detailFromCheckpoint = "from_checkpoint"
	detailFromRoot       = "from_root"
	detailFiles          = "files"
	detailBytes          = "bytes"
)

// Promote adds the caches of a cell's accepted state to the cache of its source
// directory, and the files that tools check themselves to the cache of the home.
func (e *Engine) Promote(ctx context.Context, req api.PromoteRequest) (*api.PromoteResult, error) {
	c, err := e.FindCell(req.Cell)
	if err != nil {
		return nil, err
	}
	p := &promotion{e: e, ctx: ctx, cell: c, req: req, res: &api.PromoteResult{Cell: c.Name, DryRun: req.DryRun, Skipped: map[string]int64{}}}
	if !req.DryRun {
		release, err := e.holdCaches(ctx, "cache promote")
		if err != nil {
			return nil, err
		}
		defer release()
	}
	if err := p.gather(); err != nil {
		return nil, err
	}
	var ofHome *sharing
	all, source := cachesOf(c)
	for _, name := range []string{all, source} {
		if name == "" {
			continue
		}
		s, err := p.plan(name, ofHome)
		if err != nil {
			return nil, err
		}
		if name == all {
			ofHome = s
		}
		p.sharings = append(p.sharings, s)
	}
	if !req.DryRun {
		err = p.carryOut()
	}
	for _, s := range p.sharings {
		p.res.Caches = append(p.res.Caches, s.result)
	}
	return p.res, err
}

// promotion is the state of one promote while it is carried out.
type promotion struct {
	e    *Engine
	ctx  context.Context //nolint:containedctx // lives as long as one call
	cell store.Cell
	head store.Checkpoint
	req  api.PromoteRequest
	res  *api.PromoteResult

	files    []cachedFile
	dirs     map[string]tree.Entry // above the files
	sharings []*sharing
	done     api.Progress
}

// cachedFile is a file of the cell's caches that may be shared.
type cachedFile struct {
	path  string
	entry tree.Entry
	tool  string
	home  bool // shared with all cells of the home
	// open opens it. A weak file never replaces an existing one.
	open func() (io.ReadCloser, error)
	weak bool
}

// sharing is the planned addition to one shared cache.
type sharing struct {
	cell   store.Cell
	head   store.Checkpoint // before; without an id if the cache is new
	base   *sharing         // the cache that a new one starts from, if any
	edits  []workspace.Edit
	result api.Promoted

	added map[string]bool   // paths of edits; made by adds
	made  *store.Checkpoint // the first state of a new cache without a base
	next  store.Checkpoint
}

// gather lists the files of the cell's accepted state that may be shared.
func (p *promotion) gather() error {
	err := p.e.View(func(tx *store.Tx) (err error) {
		if p.cell, err = tx.CellByID(p.cell.ID); err != nil {
			return err
		}
		if p.head, err = tx.Checkpoint(p.cell.Head); err != nil {
			return err
		}
		return p.checkAccepted(tx)
	})
	if err != nil {
		return err
	}
	p.res.CheckpointID = p.head.ID
	m, err := p.e.Workspace.Manifest(p.head.Layer)
	if err != nil {
		return home.LayerError(p.head, err)
	}
	t, ok := m.Area(home.AreaCache)
	if !ok {
		return api.Refusef(api.CodeNoCache, fmt.Sprintf("`forkcell run --cache standard --accept-on-success %s -- CMD` gives it one", p.cell.Name),
			"the state of cell %s has nothing in a cache", p.cell.Name)
	}
	p.dirs = map[string]tree.Entry{}
	return t.Walk(p.classifyEntry)
}

// checkAccepted refuses a state that the operator has not accepted.
func (p *promotion) checkAccepted(tx *store.Tx) error {
	runs, err := home.UndecidedRuns(tx, p.cell, p.cell.Head)
	if err != nil {
		return err
	}
	for _, r := range runs {
		if r.Before != r.After { // a run without changes does not matter
			return api.Refusef(api.CodePending, fmt.Sprintf("`forkcell accept %s --force` or `forkcell restore %s` first", p.cell.Name, p.cell.Name),
				"the state of cell %s is not accepted: run %s is pending", p.cell.Name, r.ID)
		}
	}
	waiting, err := home.UnacceptedStates(tx, p.cell, p.cell.Head)
	if err == nil && len(waiting) > 0 {
		err = api.Refusef(api.CodePending, fmt.Sprintf("`forkcell accept %s` first", p.cell.Name),
			"the state of cell %s is not accepted: %s was captured of a live cell", p.cell.Name, waiting[0].ID)
	}
	return err
}

// classifyEntry decides whether one entry of the cell's caches is shared.
func (p *promotion) classifyEntry(name string, e tree.Entry) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	if e.Kind == tree.KindDir {
		if strings.Count(name, "/") >= maxPromotedDepth {
			p.res.Skipped["deeper than "+strconv.Itoa(maxPromotedDepth)+" directories"]++
			return fs.SkipDir
		}
		p.dirs[name] = e
		return nil
	}
	tool, rel, ok := toolOf(name)
	var source, inHome bool
	if ok {
		source, inHome = tool.sharedIn(rel)
	}
	switch {
	case e.Kind == tree.KindWhiteout:
		return nil // nothing is removed
	case !source:
		p.res.Skipped["not part of a cache that is shared"]++
		return nil
	case e.Kind != tree.KindFile:
		p.res.Skipped["not a regular file"]++
		return nil
	}
	if len(p.files) == maxPromoted {
		return api.Refusef(api.CodeTooLarge, "remove what is not needed from the caches in the cell first, such as with `go clean -cache`",
			"cell %s has more than %d files in its caches", p.cell.Name, maxPromoted)
	}
	f := cachedFile{path: name, entry: e, tool: tool.name, home: inHome, open: p.e.Opener(p.cell, p.head, home.AreaCache, name, e)}
	p.files = append(p.files, f)
	return nil
}

// plan compares the files with those of a shared cache. base is the home's cache,
// from which a new cache starts.
func (p *promotion) plan(name string, base *sharing) (*sharing, error) {
	s := &sharing{result: api.Promoted{Cache: name, Tools: map[string]api.CacheFiles{}}}
	if base != nil {
		s.result.Source = p.cell.Source
	}
	err := p.e.View(func(tx *store.Tx) (err error) {
		if s.cell, err = tx.Cell(name); err == nil {
			s.head, err = tx.Checkpoint(s.cell.Head)
		}
		return err
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	files, from := p.files, s.head
	switch {
	case base == nil:
	case from.ID != "" && base.head.ID != "":
		if files, err = p.withHome(base); err != nil {
			return nil, err
		}
	case from.ID == "" && base.hasState():
		s.base, from = base, base.head
	}
	var have *tree.Tree
	if from.ID != "" {
		if have, err = p.e.sharedTree(from); err != nil {
			return nil, err
		}
	}
	return s, p.compare(s, base == nil, files, have)
}

// hasState reports whether a shared cache will have a state.
func (s *sharing) hasState() bool { return s.head.ID != "" || len(s.edits) > 0 }

// withHome adds the files of the home's cache to the cell's, so that the cache of a
// source directory gets them too.
func (p *promotion) withHome(home *sharing) ([]cachedFile, error) {
	t, err := p.e.sharedTree(home.head)
	if err != nil {
		return nil, err
	}
	files, mine := slices.Clone(p.files), map[string]bool{}
	for _, f := range files {
		mine[f.path] = true
	}
	err = t.Walk(func(name string, e tree.Entry) error {
		if _, has := p.dirs[name]; e.Kind == tree.KindDir && !has {
			p.dirs[name] = e
		}
		if tool, _, ok := toolOf(name); ok && e.Kind == tree.KindFile && !mine[name] {
			open := p.e.Opener(home.cell, home.head, workspace.AreaWorkspace, name, e)
			files = append(files, cachedFile{path: name, entry: e, tool: tool.name, open: open, weak: true})
		}
		return nil
	})
	return files, err
}

func (e *Engine) sharedTree(at store.Checkpoint) (*tree.Tree, error) {
	m, err := e.Workspace.Manifest(at.Layer)
	if err != nil {
		return nil, home.LayerError(at, err)
	}
	t, ok := m.Area(workspace.AreaWorkspace)
	if !ok {
		return nil, fmt.Errorf("shared cache %s has no files", at.ID)
	}
	return t, nil
}

// compare makes the edits that add missing files to a shared cache. With forHome it
// takes only files that all cells share, and never changes existing ones.
func (p *promotion) compare(s *sharing, forHome bool, files []cachedFile, have *tree.Tree) error {
	dirs := map[string]bool{".": true}
	for _, f := range files {
		if forHome && !f.home || s.base != nil && s.base.adds(f.path) { // comes with the home's cache
			continue
		}
		old, there, err := lookup(have, f.path)
		if err != nil {
			return err
		}
		now := p.sharedEntry(f.entry)
		switch {
		case there && (f.weak || old.Kind == tree.KindFile && old.Digest == now.Digest && old.Mode == now.Mode):
			continue
		case there && (forHome || old.Kind != tree.KindFile):
			s.result.Kept++
			continue
		}
		made, err := p.parents(s, f.path, dirs, have)
		if err != nil {
			return err
		}
		if !made {
			s.result.Kept++
			continue
		}
		s.edits = append(s.edits, workspace.Edit{Path: f.path, New: &now, Open: p.open(f)})
		addPromoted(&s.result, f.tool, now.Size)
	}
	return nil
}

// lookup finds a path in a tree, which may be nil.
func lookup(t *tree.Tree, name string) (tree.Entry, bool, error) {
	if t == nil {
		return tree.Entry{}, false, nil
	}
	return t.Lookup(name)
}

// adds reports whether a file is among those that a shared cache gets.
func (s *sharing) adds(name string) bool {
	if s.added == nil {
		s.added = map[string]bool{}
		for _, ed := range s.edits {
			s.added[ed.Path] = true
		}
	}
	return s.added[name]
}

// parents adds the directories above a path that a shared cache does not have. It
// returns false if one of them is not a directory there.
func (p *promotion) parents(s *sharing, name string, dirs map[string]bool, have *tree.Tree) (bool, error) {
	dir := path.Dir(name)
	if dirs[dir] {
		return true, nil
	}
	if made, err := p.parents(s, dir, dirs, have); err != nil || !made {
		return made, err
	}
	e, there, err := lookup(have, dir)
	if err != nil || there && e.Kind != tree.KindDir {
		return false, err
	}
	if !there && (s.base == nil || !s.base.adds(dir)) {
		now := p.sharedEntry(p.dirs[dir])
		s.edits = append(s.edits, workspace.Edit{Path: dir, New: &now})
	}
	dirs[dir] = true
	return true, nil
}

// sharedEntry returns an entry with only its name, contents and time: without
// owner, ACL or mode bits of the cell.
func (p *promotion) sharedEntry(e tree.Entry) tree.Entry {
	now := tree.Entry{
		Kind: e.Kind, Mode: sharedFile, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), MTime: e.MTime,
		Size: e.Size, Digest: e.Digest, PlainDigest: e.PlainDigest,
	}
	switch {
	case e.Kind == tree.KindDir:
		now.Mode = sharedDir
	case e.Mode&0o111 != 0:
		now.Mode = sharedProgram
	}
	if now.MTime == (fsx.Time{}) {
		now.MTime = fsx.Time{Sec: p.e.Now().Unix()}
	}
	return now
}

// open returns a function that opens a file of the cell and reports progress.
func (p *promotion) open(f cachedFile) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		p.done.Files, p.done.Bytes, p.done.CurrentPath = p.done.Files+1, p.done.Bytes+f.entry.Size, f.path
		p.e.Caller.Report(p.done)
		return f.open()
	}
}

func addPromoted(r *api.Promoted, tool string, size int64) {
	of := r.Tools[tool]
	r.Tools[tool] = api.CacheFiles{Files: of.Files + 1, Bytes: of.Bytes + size}
	r.Files, r.Bytes = r.Files+1, r.Bytes+size
}
