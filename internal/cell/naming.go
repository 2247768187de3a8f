package cell

import (
	"errors"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/receipt"
)

// name gives the head a name; a name never moves silently from one state to
// another.
func (s *session) name(tx *store.Tx, name string) error {
	old, err := tx.Named(s.cell.ID, name)
	if err == nil && old.ID == s.head.ID {
		return nil
	}
	if err := s.claim(tx, name); err != nil {
		return err
	}
	return s.e.log.Change(tx, s.cell, s.head, receipt.OpCheckpoint, map[string]string{"name": name})
}

// claim takes a name for the head, unless it is another's.
func (s *session) claim(tx *store.Tx, name string) error {
	old, err := tx.Named(s.cell.ID, name)
	if err == nil {
		return api.Refusef(api.CodeNameTaken, "choose another name", "checkpoint name %s is in use for %s", name, old.ID)
	}
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return tx.Name(s.cell.ID, name, s.head.ID)
}
