package engine

import (
	"context"
	"crypto/sha512"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/held"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/receipt"
)

// isGoDownload reports whether a path in the module cache is a module's archive or
// go.mod, but not a toolchain.
func isGoDownload(p string) bool {
	dir, name := path.Split(p)
	return fsx.Within(p, "cache/download") && path.Base(dir) == "@v" && !fsx.Within(p, "cache/download/golang.org/toolchain") &&
		(strings.HasSuffix(name, ".zip") || strings.HasSuffix(name, ".mod"))
}

// isNPMContent reports whether a path in npm's cache is named by a SHA-512.
func isNPMContent(p string) bool {
	digest, ok := strings.CutPrefix(p, "_cacache/content-v2/sha512/")
	plain := strings.ReplaceAll(digest, "/", "")
	return ok && len(digest) == len(plain)+2 && len(plain) == 2*sha512.Size && strings.Trim(plain, "0123456789abcdef") == "" &&
		digest[2] == '/' && digest[5] == '/'
}

// toolOf returns the tool that a path of the area belongs to, and the path in the
// tool's directory.
func toolOf(p string) (t cacheTool, rel string, ok bool) {
	for _, t := range cacheTools() {
		if rel, ok := strings.CutPrefix(p, t.dir+"/"); ok {
			return t, rel, true
		}
	}
	return t, "", false
}

// cacheOn reports whether a run has the cache, by its request or else by the cell's
// setting.
func cacheOn(c store.Cell, req runRequest) (bool, error) {
	setting := req.Cache
	if setting == "" {
		setting = c.Cache
	}
	return setting == api.CacheStandard, checkCacheSetting(setting)
}

func checkCacheSetting(setting string) error {
	if slices.Contains([]string{"", api.CacheOff, api.CacheStandard}, setting) {
		return nil
	}
	return api.Usagef("one of: off, standard", "unknown cache %s", quote.Arg(setting))
}

// checkCache refuses the cache for cells that cannot have one.
func checkCache(c store.Cell, shown []string) error {
	if !workspace.Backend(c.Backend).Overlays() {
		return api.Refusef(api.CodeBackend, overlayHint, "--cache standard: only the overlay backend can share caches, and cell %s has %s", c.Name, c.Backend)
	}
	for _, p := range append([]string{c.MountAt}, shown...) {
		if fsx.Within(p, home.CachePath) || fsx.Within(home.CachePath, p) {
			return api.Refusef(api.CodeMount, "choose another place for it, or leave the cache off", "--cache standard: %s is where the cell's caches are, and %s is there", home.CachePath, quote.Path(p))
		}
	}
	return nil
}

// cacheArea returns the area of the caches for a generation on a state. A state
// that has the area keeps its base. Any other gets the newest shared state of its
// source directory, or else of the home.
func (e *Engine) cacheArea(tx *store.Tx, c store.Cell, head store.Checkpoint) (area workspace.Area, had bool, _ *api.CacheUse, _ error) {
	area = workspace.Area{Name: home.AreaCache, Target: home.CachePath}
	info, err := e.Workspace.Info(head.Layer)
	if err != nil {
		return area, false, nil, home.LayerError(head, err)
	}
	old, had := info.Areas[home.AreaCache]
	if had {
		area.Base = old.Base
	} else if at, err := sharedFor(tx, c); err == nil {
		area.Base = workspace.Base{Layer: at.Layer, Label: at.ID}
	} else if !errors.Is(err, store.ErrNotFound) {
		return area, false, nil, err
	}
	use, err := e.cacheUse(tx, area.Base)
	return area, had, use, err
}

// cacheUse describes the shared state that the area is based on.
func (e *Engine) cacheUse(tx *store.Tx, base workspace.Base) (*api.CacheUse, error) {
	use := &api.CacheUse{Setting: api.CacheStandard, Path: home.CachePath, CheckpointID: base.Label}
	at, err := tx.Checkpoint(base.Label)
	if errors.Is(err, store.ErrNotFound) {
		return use, nil // no base, or its record is lost
	}
	if err != nil {
		return nil, err
	}
	use.Root = at.Root()
	of, err := tx.CellByID(at.CellID)
	if err != nil {
		return nil, err
	}
	use.From = of.LastName
	use.Statement, err = e.madeBy(tx, at)
	return use, err
}

// madeBy returns the number of the statement that recorded a shared state.
func (e *Engine) madeBy(tx *store.Tx, at store.Checkpoint) (int64, error) {
	list, err := tx.Statements(at.CellID)
	if err != nil {
		return 0, err
	}
	for _, st := range slices.Backward(list) { // usually the last
		env, err := e.Evidence.Envelope(st.Seq)
		if err != nil {
			return 0, err
		}
		p, ok := env.Statement.Predicate.(*receipt.Change)
		if ok && p.Checkpoint.ID == at.ID && (p.Op == receipt.OpPromote || p.Op == receipt.OpInit) {
			return st.Seq, nil
		}
	}
	return 0, nil
}

// plannedCache returns the shared state that the caches of a run would be based on,
// or nil if the run has no caches.
func (e *Engine) plannedCache(c store.Cell, head store.Checkpoint, req runRequest) (use *api.CacheUse, err error) {
	on, err := cacheOn(c, req)
	if err != nil || !on {
		return nil, err
	}
	err = e.View(func(tx *store.Tx) error {
		_, _, use, err = e.cacheArea(tx, c, head)
		return err
	})
	return use, err
}

// addCache adds the area of the caches to a run that uses them.
func (r *run) addCache(ctx context.Context, req runRequest) error {
	on, err := cacheOn(r.Record, req)
	if err != nil || !on {
		return err
	}
	var area workspace.Area
	var had bool
	err = r.e.Store.View(func(tx *store.Tx) (err error) {
		area, had, r.cache, err = r.e.cacheArea(tx, r.Record, r.Head)
		return err
	})
	if err == nil && !had && area.Base.Layer != "" {
		area.Without, err = r.e.unlistedModules(ctx, r.Head, area.Base.Layer)
	}
	r.areas = append(r.areas, area)
	return err
}

// basesOf lists the shared states that a state is based on.
func (e *Engine) basesOf(at store.Checkpoint) ([]workspace.Base, error) {
	info, err := e.Workspace.Info(at.Layer)
	if err != nil {
		return nil, home.LayerError(at, err)
	}
	return info.Bases(), nil
}

// needBases adds the shared states that needed states are based on.
func (e *Engine) needBases(needed map[string]bool, held held.Holdings, all []store.Checkpoint) error {
	for _, c := range all {
		if c.Freed || !needed[c.ID] && !held.States[c.ID] && !held.Layers[c.Layer] {
			continue
		}
		bases, err := e.basesOf(c)
		if err != nil {
			return err
		}
		for _, b := range bases {
			needed[b.Label] = true
		}
	}
	return nil
}

// cacheBases protects the shared states that unfinished runs are based on from gc:
// no sealed state refers to them yet.
func (e *Engine) cacheBases(tx *store.Tx, held held.Holdings) error {
	runs, err := tx.UnfinishedRuns("")
	if err != nil {
		return err
	}
	for _, r := range runs {
		bases, err := e.Workspace.BaseStates(r.ID)
		if err != nil {
			return err
		}
		for _, b := range bases {
			if b.Layer == "" {
				continue
			}
			held.States[b.Label] = true
			chain, err := e.Workspace.Chain(b.Layer)
			if err != nil {
				return err
			}
			for _, l := range chain {
				held.Layers[l] = true
			}
		}
	}
	return nil
}
