package engine

import (
	"context"
	"errors"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// Undelete brings back a removed cell as it was: with its states, decisions, settings and
// policy. Its processes are gone. Of several removed cells that had the name it is the one
// that was removed last. It is one change of the database, as the removal was.
func (e *Engine) Undelete(ctx context.Context, name string) (*api.CellInfo, error) {
	c, err := e.findRemoved(name)
	if err != nil {
		return nil, err
	}
	if err := e.Store.MakeRoom(); err != nil {
		return nil, err
	}
	lock, err := e.Store.LockCell(ctx, c.ID, c.LastName, home.HeldByUndelete, 0)
	if err != nil {
		return nil, e.BusyError(c, home.HeldByUndelete, err)
	}
	defer lock.Unlock()
	shared, err := e.Store.LockHome(false) // no gc frees its states meanwhile
	if err != nil {
		return nil, err
	}
	defer shared.Unlock()
	err = e.Store.Update(func(tx *store.Tx) error {
		if c, err = tx.CellByID(c.ID); err != nil {
			return err
		}
		if c.Name != "" {
			return api.Refusef(api.CodeExists, "`forkcell status "+c.Name+"` shows it", "cell %s is not removed", c.Name)
		}
		head, err := tx.Checkpoint(c.Head)
		if err == nil {
			err = home.CheckUsable(head)
		}
		if err != nil {
			return err
		}
		c.Name = c.LastName
		c.RemovedAt = store.Cell{}.RemovedAt
		if err := tx.PutCell(c); errors.Is(err, store.ErrTaken) {
			return api.Refusef(api.CodeNameTaken, "`forkcell rename "+c.Name+" NAME` gives that one another name, then try again", "there is another cell %s", c.Name)
		} else if err != nil {
			return err
		}
		return e.Evidence.Change(tx, c, head, receipt.OpUndelete, nil)
	})
	if err != nil {
		return nil, err
	}
	return e.Describe(c.ID)
}

// findRemoved returns the cell that was removed last of those that had a name.
func (e *Engine) findRemoved(name string) (found store.Cell, err error) {
	if err := home.CheckName("cell", name); err != nil {
		return found, err
	}
	err = e.View(func(tx *store.Tx) error {
		cells, err := e.RemovedCells(tx)
		for _, c := range cells {
			if c.LastName == name {
				found = c
			}
		}
		return err
	})
	if err == nil && found.ID == "" || errors.Is(err, store.ErrNotFound) {
		return found, api.Missing("removed cell", name, "`forkcell ls --removed` shows those that can be brought back")
	}
	return found, err
}
