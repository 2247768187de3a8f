package engine

import (
	"context"

	"github.com/forkcell/forkcell/internal/evidence/statements"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// kindRefresh is the kind of a state of a cell with changes of its source.
const kindRefresh = "refresh"

// recordSource records the state of the source, which was made from base, and moves the
// cell to the state that has it.
func (s *heldCell) recordSource(ctx context.Context, base, applied, next store.Checkpoint) error {
	s.Record.Applied = applied.ID
	return s.Move(ctx, next, func(tx *store.Tx) error {
		for _, c := range []store.Checkpoint{applied, next} {
			if c.ID == base.ID || c.ID == s.Head.ID {
				continue
			}
			if err := tx.PutCheckpoint(c); err != nil {
				return err
			}
		}
		moved := s.Record
		moved.Head = next.ID
		state, err := statements.StateDetail(applied)
		if err != nil {
			return err
		}
		return s.e.Evidence.Change(tx, moved, next, receipt.OpRefresh, map[string]string{"state": state})
	})
}
