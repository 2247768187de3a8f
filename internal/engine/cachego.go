package engine

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/forkcell/forkcell/internal/engine/gosum"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

const (
	// maxSums and maxSumDepth bound the bytes and the depth of the go.sum files that
	// are read. What they would list stays hidden.
	maxSums     = 32 << 20
	maxSumDepth = 16
	// maxGoMod bounds a go.mod, as the go command does.
	maxGoMod = 16 << 20
)

// goDownloads is where the go command keeps what it has downloaded, and goToolchain the
// name of the module that no go.sum lists.
const (
	goModules   = "go/mod"
	goDownloads = goModules + "/cache/download"
	goToolchain = "golang.org/toolchain"
)

// unlistedModules returns the paths in the layer of a shared state that a cell must not see: the modules of
// Go whose hashes, computed from the bytes, no go.sum of the cell's state has. The go
// command would use them unchecked, because only a hash that it finds there, or in the
// checksum database while it downloads, is compared.
func (e *Engine) unlistedModules(ctx context.Context, head store.Checkpoint, shared string) ([]string, error) {
	manifest, err := e.Workspace.Manifest(shared)
	if err != nil {
		return nil, err
	}
	t, ok := manifest.Area(workspace.AreaWorkspace)
	if !ok {
		return nil, nil
	}
	top, there, err := t.Lookup(goModules)
	if err != nil || !there || top.Kind != tree.KindDir {
		return nil, err
	}
	m := &moduleCache{ctx: ctx, t: t, sums: gosum.Sums{}, shown: map[string]bool{}}
	if err := e.readSums(ctx, head, m.sums); err != nil {
		return nil, home.StateError(head, err)
	}
	m.open = func(p string, entry tree.Entry) (*os.File, error) {
		return e.Workspace.OpenFile(workspace.BackendOverlay, shared, workspace.AreaWorkspace, p, entry)
	}
	err = m.hide(top)
	return m.hidden, err
}

// readSums reads the go.sum files of a state's workspace.
func (e *Engine) readSums(ctx context.Context, at store.Checkpoint, sums gosum.Sums) error {
	m, err := e.Workspace.Manifest(at.Layer)
	if err != nil {
		return err
	}
	t, ok := m.Area(workspace.AreaWorkspace)
	if !ok {
		return nil
	}
	left := int64(maxSums)
	return t.Walk(func(p string, entry tree.Entry) error {
		name := path.Base(p)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case entry.Kind == tree.KindDir && (name == ".git" || name == "node_modules" || strings.Count(p, "/") >= maxSumDepth):
			return fs.SkipDir
		case entry.Kind != tree.KindFile || name != "go.sum" && name != "go.work.sum":
			return nil
		}
		if left -= entry.Size; left < 0 {
			return fs.SkipAll
		}
		f, err := e.Workspace.OpenFile(workspace.BackendOverlay, at.Layer, workspace.AreaWorkspace, p, entry)
		if err != nil {
			return err
		}
		defer f.Close()
		return sums.Add(f)
	})
}

// moduleCache finds what is hidden of a module cache.
type moduleCache struct {
	ctx    context.Context //nolint:containedctx // lives as long as one call
	t      *tree.Tree
	open   func(p string, e tree.Entry) (*os.File, error)
	sums   gosum.Sums
	shown  map[string]bool // the archives that go.sum lists, as path@version in escaped form
	hidden []string
}

// hide goes through the downloads, and then through the unpacked modules.
func (m *moduleCache) hide(top tree.Entry) error {
	downloads, there, err := m.t.Lookup(goDownloads)
	if err == nil && there && downloads.Kind == tree.KindDir {
		var stays bool
		if stays, err = m.directory(goDownloads, downloads, m.download); err == nil && !stays {
			m.hidden = append(m.hidden, goDownloads)
		}
	}
	if err != nil {
		return err
	}
	_, err = m.directory(goModules, top, m.decideUnpacked)
	return err
}

// directory asks keep about each entry of a directory, and reports whether one of them
// stays. What does not stay is hidden, unless the directory is hidden as a whole.
func (m *moduleCache) directory(p string, e tree.Entry, keep func(p string, e tree.Entry) (bool, error)) (stays bool, err error) {
	if err := m.ctx.Err(); err != nil {
		return false, err
	}
	list, err := m.t.Children(e.Sub)
	if err != nil {
		return false, err
	}
	var gone []string
	for _, c := range list {
		name := path.Join(p, c.Name)
		kept, err := keep(name, c)
		if err != nil {
			return false, err
		}
		if stays = stays || kept; !kept {
			gone = append(gone, name)
		}
	}
	if stays || p == goModules {
		m.hidden = append(m.hidden, gone...)
	}
	return stays, nil
}

// download decides about an entry among the downloads.
func (m *moduleCache) download(p string, e tree.Entry) (bool, error) {
	switch {
	case e.Kind != tree.KindDir, fsx.Within(p, path.Join(goDownloads, goToolchain)):
		return true, nil
	case e.Name != "@v":
		return m.directory(p, e, m.download)
	}
	module, ok := gosum.Unescape(strings.TrimPrefix(path.Dir(p), goDownloads+"/"))
	if !ok {
		return false, nil
	}
	v := &versions{m: m, escaped: strings.TrimPrefix(path.Dir(p), goDownloads+"/"), module: module, archives: map[string]bool{}, mods: map[string]bool{}}
	return v.hide(p, e)
}

// decideUnpacked decides about an entry among the unpacked modules.
func (m *moduleCache) decideUnpacked(p string, e tree.Entry) (bool, error) {
	module := strings.TrimPrefix(p, goModules+"/")
	switch {
	case e.Kind != tree.KindDir, module == "cache", strings.HasPrefix(module, goToolchain+"@"):
		return true, nil
	case strings.Contains(e.Name, "@"):
		return m.shown[module], nil
	}
	return m.directory(p, e, m.decideUnpacked)
}

// versions are the files about the versions of one module.
type versions struct {
	m               *moduleCache
	escaped, module string
	archives, mods  map[string]bool // by version in escaped form: those that go.sum lists
}

// hide goes through the files, and reports whether one of them stays.
func (v *versions) hide(p string, e tree.Entry) (bool, error) {
	_, err := v.m.directory(p, e, func(p string, e tree.Entry) (bool, error) { return false, v.read(p, e) })
	if err != nil || len(v.archives)+len(v.mods) == 0 {
		return false, err
	}
	return v.m.directory(p, e, func(_ string, e tree.Entry) (bool, error) { return v.isVisible(e), nil })
}

// read hashes a file that go.sum may list.
func (v *versions) read(p string, e tree.Entry) error {
	name, kind := cutKind(e.Name)
	version, ok := gosum.Unescape(name)
	if !ok || e.Kind != tree.KindFile {
		return nil
	}
	switch kind {
	case ".mod":
		version += "/go.mod"
		if !v.m.sums.Lists(v.module, version) || e.Size > maxGoMod {
			return nil
		}
	case ".zip":
		if !v.m.sums.Lists(v.module, version) {
			return nil
		}
	default:
		return nil
	}
	f, err := v.m.open(p, e)
	if err != nil {
		return err
	}
	defer f.Close()
	if kind == ".mod" {
		data, err := io.ReadAll(f)
		if err == nil && v.m.sums.Has(v.module, version, gosum.Mod(data)) {
			v.mods[name] = true
		}
		return err
	}
	hash, err := gosum.Archive(v.m.ctx, f, e.Size)
	if errors.Is(err, gosum.ErrArchive) {
		return nil
	}
	if err == nil && v.m.sums.Has(v.module, version, hash) {
		v.archives[name], v.m.shown[v.escaped+"@"+name] = true, true
	}
	return err
}

// isVisible reports whether the cell sees a file.
func (v *versions) isVisible(e tree.Entry) bool {
	name, kind := cutKind(e.Name)
	switch kind {
	case ".zip", ".ziphash":
		return v.archives[name]
	case ".mod":
		return v.mods[name]
	case ".info":
		return v.archives[name] || v.mods[name]
	}
	return true // lists and locks
}

// cutKind cuts a file name of the download cache into the version and what follows it.
func cutKind(name string) (version, kind string) {
	kind = path.Ext(name)
	return strings.TrimSuffix(name, kind), kind
}
