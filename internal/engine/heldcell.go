package engine

import (
	"context"
	"time"

	"github.com/forkcell/forkcell/internal/engine/held"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// heldCell is a cell that is held, with the engine that works on it.
type heldCell struct {
	*held.Cell
	e *Engine
}

// hold takes a cell's lock, and first finishes or undoes the work of a process that
// died.
func (e *Engine) hold(ctx context.Context, name, what string, wait time.Duration) (*heldCell, error) {
	return e.holdBy(ctx, held.Request{Name: name, For: what, Wait: wait})
}

func (e *Engine) holdBy(ctx context.Context, req held.Request) (*heldCell, error) {
	c, err := e.holder.Hold(ctx, req)
	if err != nil {
		return nil, err
	}
	return &heldCell{c, e}, nil
}

// notHeld returns a cell that is not held, for what needs no lock.
func (e *Engine) notHeld(c store.Cell, head store.Checkpoint) *heldCell {
	return &heldCell{&held.Cell{Home: e.Home, Record: c, Head: head}, e}
}

// actAs has another engine of the home work on the cell.
func (s *heldCell) actAs(e *Engine) { s.e, s.Home = e, e.Home }
