package engine

import (
	"context"
	"fmt"

	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
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
	f.next = &nextState{kindNewHome, sealed}
	return nil
}
