package inventory

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// LiveCell is a live cell, who started it, and its limits; 0 for none.
type LiveCell struct {
	Cell, Actor string
	Memory      int64 // bytes
	CPUs        int64 // thousandths of a processor
}

// LiveCells returns the live cells of the home, of all callers.
func (inv *Inventory) LiveCells(context.Context) (live []LiveCell, err error) {
	if inv.Store == nil {
		return nil, nil
	}
	err = inv.Store.View(func(tx *store.Tx) error {
		cells, err := tx.Cells(false)
		if err != nil {
			return err
		}
		for _, c := range cells {
			if _, is := inv.Supervisor(c); !is {
				continue
			}
			runs, err := tx.UnfinishedRuns(c.ID)
			if err != nil {
				return err
			}
			for _, r := range runs {
				live = append(live, LiveCell{Cell: c.Name, Actor: r.Actor, Memory: r.Memory, CPUs: r.CPUsMilli})
			}
		}
		return nil
	})
	return live, err
}

// OwnBytes returns the disk space of the states of all cells that the caller may know
// of, also of removed ones that are kept, of the memory of those that are paused, and of the output and the events that are
// kept of their runs. Sizes of states are those that were
// recorded when the states were sealed, and are added up again only for cells that have
// changed.
func (inv *Inventory) OwnBytes(context.Context) (total int64, err error) {
	if inv.Store == nil {
		return 0, nil
	}
	err = inv.Store.View(func(tx *store.Tx) error {
		cells, err := home.OrdinaryCells(tx)
		if err != nil {
			return err
		}
		kept, err := inv.RemovedCells(tx)
		if err != nil {
			return err
		}
		for _, c := range append(cells, kept...) {
			if !inv.Caller.MaySee(c.LastName) {
				continue
			}
			history, err := tx.History(c.ID)
			if err != nil {
				return err
			}
			own, err := inv.ownBytes(tx, c, history)
			if err != nil {
				return err
			}
			evidence, err := tx.EvidenceBytes(c.ID)
			if err != nil {
				return err
			}
			total += own + inv.PausedBytes(c) + evidence
		}
		return nil
	})
	return total, err
}

// LentBytes returns how much disk space the caller's quota has lent to unfinished runs. Live
// cells are in processes of their own: what they may take is set aside when they start.
// The runs of one process share one loan.
func (inv *Inventory) LentBytes() (total int64, err error) {
	if inv.Store == nil || inv.Caller.ID == "" {
		return 0, nil
	}
	loans := map[string]int64{}
	err = inv.Store.View(func(tx *store.Tx) error {
		runs, err := tx.UnfinishedRuns("")
		for _, r := range runs {
			if r.Starter == inv.Caller.ID && r.Loan != nil {
				loans[r.Loan.ID] = r.Loan.Bytes
			}
		}
		return err
	})
	for _, bytes := range loans {
		total += bytes
	}
	return total, err
}

// PausedBytes returns the disk space of what a cell is paused with, if it is. That of a
// cell that is being resumed is about to be freed.
func (inv *Inventory) PausedBytes(c store.Cell) int64 {
	if c.Paused == nil {
		return 0
	}
	if _, resumed := inv.Supervisor(c); resumed {
		return 0
	}
	return c.Paused.Bytes
}

// PauseWrites reports whether a pause of a live cell writes the memory of its processes
// to the disk.
func (inv *Inventory) PauseWrites(_ context.Context, name string) (bool, error) {
	c, err := inv.FindCell(name)
	if err != nil {
		return false, err
	}
	runs, err := inv.UnfinishedRuns(c)
	for _, r := range runs {
		if r.Runtime != "" && r.Runtime != api.RuntimeNative {
			return true, err
		}
	}
	return false, err
}
