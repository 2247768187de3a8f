package cell

import (
	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/store"
)

// losesAccepted reports whether work that was accepted goes with a cell: its source does not
// have it, and no other cell that exists has made it.
func (e *Engine) losesAccepted(tx *store.Tx, c store.Cell) (bool, error) {
	head, err := tx.Checkpoint(c.Head)
	if err != nil {
		return false, err
	}
	state, _, err := newestAccepted(tx, c, head)
	if err != nil {
		return false, err
	}
	if state.CellID != c.ID {
		if other, err := tx.CellByID(state.CellID); err == nil && other.Name != "" {
			return false, nil
		}
	}
	s := &session{e: e, cell: c, head: head}
	base, err := s.shared(tx, state)
	if api.CodeOf(err) == api.CodeStateLost {
		return true, nil // what the source has is not known
	}
	return state.Root() != base.Root(), err
}

// mayRemove refuses to remove a cell with accepted work that its source does not have, for
// a caller who may not decide.
func (e *Engine) mayRemove(c store.Cell) error {
	if !e.Caller.CannotDecide {
		return nil
	}
	var loses bool
	err := e.Store.View(func(tx *store.Tx) (err error) {
		loses, err = e.losesAccepted(tx, c)
		return err
	})
	if err != nil || !loses {
		return err
	}
	return e.Caller.MayDecide("removing cell " + c.Name + ", whose accepted work its source does not have,")
}

// keptAccepted returns the reason why a cell whose time is up is not removed; nil if it is.
// A timer decides nothing.
func (s *session) keptAccepted() error {
	var loses bool
	err := s.e.Store.View(func(tx *store.Tx) (err error) {
		loses, err = s.e.losesAccepted(tx, s.cell)
		return err
	})
	if err != nil || !loses {
		return err
	}
	return &api.Error{
		Kind: api.Refused, Code: api.CodePending, Message: "cell " + s.cell.Name + " has accepted work that its source does not have",
		Hint: "`forkcell apply " + s.cell.Name + "` writes it, `forkcell rm " + s.cell.Name + "` removes the cell all the same",
	}
}
