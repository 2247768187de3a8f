package engine

import (
	"context"
	"time"

	"github.com/forkcell/forkcell/internal/storage/store"
)

// heldCell is a cell that is held, with the engine that works on it.
type heldCell struct {
	*Cell
	e *Engine
}

// hold takes a cell's lock, and first finishes or undoes the work of a process that
// died.
func (e *Engine) hold(ctx context.Context, name, what string, wait time.Duration) (*heldCell, error) {
	return e.holdBy(ctx, Request{Name: name, For: what, Wait: wait})
}

func (e *Engine) holdBy(ctx context.Context, req Request) (*heldCell, error) {
	c, err := e.holder.Hold(ctx, req)
	if err != nil {
		return nil, err
	}
	return &heldCell{c, e}, nil
}

// notHeld returns a cell that is not held, for what needs no lock.
func (e *Engine) notHeld(c store.Cell, head store.Checkpoint) *heldCell {
	return &heldCell{&Cell{Home: e.Home, Record: c, Head: head}, e}
}

// actAs has another engine of the home work on the cell.
func (s *heldCell) actAs(e *Engine) { s.e, s.Home = e, e.Home }
