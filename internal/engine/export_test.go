package engine

import (
	"context"
	"crypto/sha256"
	"io"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// SealOld makes a state in which a large file has a digest of version 1, as an
// older program would have sealed it, and moves the head of a cell there.
func (e *Engine) SealOld(ctx context.Context, cell, path, text string) error {
	s, err := e.hold(ctx, cell, "test", 0)
	if err != nil {
		return err
	}
	defer s.Release()
	area, err := e.Tree(s.Head, workspace.AreaWorkspace)
	if err != nil {
		return err
	}
	entry, _, err := area.Lookup(path)
	if err != nil {
		return err
	}
	entry.Size, entry.Digest, entry.PlainDigest = int64(len(text)), sha256.Sum256([]byte(text)), true
	edit := workspace.Edit{Path: path, New: &entry, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
	sealed, err := e.Workspace.Compose(ctx, s.At, s.Head.Layer, store.NewID("op"), []workspace.Edit{edit})
	if err != nil {
		return err
	}
	next := e.NewCheckpoint(s.Record, s.Head.ID, "refresh", "", sealed)
	return s.Move(ctx, next, func(tx *store.Tx) error { return tx.PutCheckpoint(next) })
}

// PlainDigest reports whether the head of a cell has a digest of version 1 for a
// file.
func (e *Engine) PlainDigest(cell, path string) (bool, error) {
	c, err := e.FindCell(cell)
	if err != nil {
		return false, err
	}
	var head store.Checkpoint
	err = e.View(func(tx *store.Tx) (err error) {
		head, err = tx.Checkpoint(c.Head)
		return err
	})
	if err != nil {
		return false, err
	}
	var area *tree.Tree
	if area, err = e.Tree(head, workspace.AreaWorkspace); err != nil {
		return false, err
	}
	entry, _, err := area.Lookup(path)
	return entry.PlainDigest, err
}

// ExpirerAt returns an Expirer with another steady clock.
func (e *Engine) ExpirerAt(steady func() time.Duration) *Expirer { return newExpirer(e, steady) }

// SetSteady gives the engine another steady clock.
func (e *Engine) SetSteady(steady func() time.Duration) { e.shared.steady = steady }

// Step does what Run does in one round, and waits for it.
func (x *Expirer) Step(ctx context.Context) time.Duration {
	wait := x.step(ctx)
	x.workers.Wait()
	return wait
}

// Flush records the last uses.
func (x *Expirer) Flush() { x.flush(0) }

// RowsRead returns how many rows of the database were read.
func (e *Engine) RowsRead() int64 { return e.Store.RowsRead() }
