package cell

import (
	"context"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/home"

	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/receipt"
)

// cacheLock is the lock that every change of shared caches takes.
const cacheLock = "cache"

// cacheOf returns the name of the cache that cells of the same source share. It is
// "" for a cell made from an archive, or from a directory whose name is not valid
// text.
func cacheOf(c store.Cell) string {
	if c.SourceKind != "dir" || !utf8.ValidString(c.Source) {
		return ""
	}
	return home.CachePrefix + c.Source
}

// sharedFor finds the state of a shared cache to base a new state of a cell on.
func sharedFor(tx *store.Tx, c store.Cell) (store.Checkpoint, error) {
	for _, name := range []string{cacheOf(c), home.HomeCache} {
		if name == "" {
			continue
		}
		shared, err := tx.Cell(name)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return store.Checkpoint{}, err
		}
		return tx.Checkpoint(shared.Head)
	}
	return store.Checkpoint{}, store.ErrNotFound
}

// RemoveCaches removes shared caches by their names, or all of them. Cells based on
// one keep its files; new states do not get them.
func (e *Engine) RemoveCaches(ctx context.Context, names []string, all bool) ([]string, error) {
	release, err := e.holdCaches(ctx, "cache rm")
	if err != nil {
		return nil, err
	}
	defer release()
	removed := []string{}
	err = e.Store.Update(func(tx *store.Tx) error {
		cells, err := tx.Cells(false)
		if err != nil {
			return err
		}
		for _, name := range names {
			if !slices.ContainsFunc(cells, func(c store.Cell) bool { return home.IsShared(c) && c.Name == name }) {
				return home.NoSharedCache(name)
			}
		}
		for _, c := range cells {
			if !home.IsShared(c) || !all && !slices.Contains(names, c.Name) {
				continue
			}
			head, err := tx.Checkpoint(c.Head)
			if err != nil {
				return err
			}
			removed = append(removed, c.Name)
			c.Name = ""
			if err := tx.PutCell(c); err != nil {
				return err
			}
			if err := e.Evidence.Change(tx, c, head, receipt.OpRemove, nil); err != nil {
				return err
			}
		}
		return nil
	})
	return removed, err
}

// holdCaches waits for the lock of the shared caches, and takes it and the home's
// lock.
func (e *Engine) holdCaches(ctx context.Context, what string) (release func(), err error) {
	if e.Store == nil {
		return nil, api.Missing("home", quote.Path(e.Path), "`forkcell init NAME --from DIR` makes one")
	}
	if err := e.Store.MakeRoom(); err != nil {
		return nil, err
	}
	lock, err := e.Store.LockCell(ctx, cacheLock, "the shared caches", what, -1)
	if err != nil {
		return nil, err
	}
	home, err := e.Store.LockHome(false)
	if err != nil {
		lock.Unlock()
		return nil, err
	}
	return func() {
		_ = e.Store.TakeReserve() // as session.release does
		home.Unlock()
		lock.Unlock()
	}, nil
}
