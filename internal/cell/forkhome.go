package cell

import (
	"context"
	"fmt"

	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/internal/workspace"
	"github.com/forkcell/forkcell/receipt"
)

// kindNewHome is the kind of a state that was made from another one, with an empty home.
const kindNewHome = "new-home"

// emptyHome seals the state that is forked with an empty home, unless its home is empty.
func (e *Engine) emptyHome(ctx context.Context, f *forking) error {
	layout, err := e.Layout(f.from)
	if err != nil {
		return err
	}
	old, err := e.Tree(f.at, workspace.AreaHome)
	if err != nil {
		return err
	}
	list, err := old.Children(old.Root().Sub)
	if err != nil || len(list) == 0 {
		return err
	}
	sealed, err := e.Workspace.NewHome(ctx, layout, f.at.Layer, store.NewID("op"))
	if err != nil {
		return fmt.Errorf("empty the home of the fork: %w", err)
	}
	f.newHome = &sealed
	return nil
}

// leaveHome moves a new fork to the state with an empty home.
func (e *Engine) leaveHome(tx *store.Tx, f forking, c store.Cell) error {
	next := e.NewCheckpoint(c, f.at.ID, kindNewHome, "", *f.newHome)
	if err := tx.PutCheckpoint(next); err != nil {
		return err
	}
	c.Head = next.ID
	if err := tx.PutCell(c); err != nil {
		return err
	}
	return e.Evidence.Change(tx, c, next, receipt.OpCheckpoint, nil)
}
