package engine

import (
	"context"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"

	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/receipt"
)

// cacheLock is the lock that every change of shared caches takes.
const cacheLock = "cache"

// cachesOf returns the names of the shared caches of a cell: that which all cells
// share, and that of its source. The second is "" for a cell made from an archive, or
// from a directory whose name is not valid text. Cells of tokens that are bound to a
// prefix have caches of their own, so that no holder of a token gets what others built.
func cachesOf(c store.Cell) (all, source string) {
	own := home.CachePrefix
	if c.Prefix != "" {
		own += c.Prefix + ":"
	}
	if c.SourceKind == "dir" && utf8.ValidString(c.Source) {
		source = own + c.Source
	}
	return own + home.AllCells, source
}

// sharedFor finds the state of a shared cache to base a new state of a cell on.
func sharedFor(tx *store.Tx, c store.Cell) (store.Checkpoint, error) {
	all, source := cachesOf(c)
	for _, name := range []string{source, all} {
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
