package home

import (
	"errors"
	"fmt"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/storage/store"
)

// What a cell is held for, as its lock says. HeldByStart is that of a live cell.
const (
	HeldByRemove   = "rm"
	HeldByUndelete = "rm --undo"
	HeldByExpiry   = "expire" // its time is up
	HeldByStop     = "stop"   // it is paused, and is ended
)

// BusyError names the process that holds a cell, and what the caller can do.
func (h *Home) BusyError(c store.Cell, wanted string, err error) error {
	name := c.Name
	if busy, ok := errors.AsType[*store.BusyError](err); ok {
		text := fmt.Sprintf("cell %s is busy: %v", name, busy)
		switch by := busy.Holder; {
		case by.What == HeldByStart && by.Ending:
			text = fmt.Sprintf("cell %s is being stopped by its supervisor, process %d", name, by.PID)
		case by.What == HeldByStart:
			return &api.Error{
				Kind: api.Busy, Code: api.CodeLive, Err: err,
				Message: fmt.Sprintf("cell %s is live: its supervisor is process %d, since %s", name, by.PID, by.Since.UTC().Format(time.RFC3339)),
				Hint:    fmt.Sprintf("%s, `forkcell stop %s` ends it", h.useOf(c), name),
			}
		}
		hint := "`forkcell status " + name + "` shows when it has ended"
		if wanted == "run" || wanted == HeldByStart {
			hint = "give --wait to wait for it"
		}
		return &api.Error{Kind: api.Busy, Code: api.CodeBusy, Message: text, Hint: hint, Err: err}
	}
	return err
}

// useOf names the command that works with a live cell: nothing is executed in one that
// is paused, or a template.
func (h *Home) useOf(c store.Cell) string {
	runs, err := h.UnfinishedRuns(c)
	switch {
	case err != nil || len(runs) == 0:
	case runs[len(runs)-1].Paused:
		return "`forkcell resume " + c.Name + "` continues it"
	case runs[len(runs)-1].Template:
		return "`forkcell branch " + c.Name + "` makes a cell to use"
	}
	return "`forkcell exec " + c.Name + " -- CMD` runs a command in it"
}

// MayRunIn refuses a caller who may not run commands in a cell with the backend delta:
// what they write is in its directory at once.
func (h *Home) MayRunIn(c store.Cell) error {
	if err := h.MayMakeLike(c); err != nil || c.Live == "" {
		return err
	}
	if c.Live == h.Workspace.LivePath(c.ID) {
		return nil // that of a fork is in the home
	}
	return h.Caller.MayUsePath(c.Live)
}

// MayMakeLike refuses a caller who may not make a cell with the backend of another one.
func (h *Home) MayMakeLike(c store.Cell) error {
	if c.Live == "" {
		return nil
	}
	return h.Caller.MayDecide("a cell with the backend delta")
}

// CheckRevision refuses a cell that does not have the revision that the caller expects.
func (h *Home) CheckRevision(c store.Cell) error {
	if h.Caller.Expect == nil {
		return nil
	}
	return h.Store.View(func(tx *store.Tx) error { return CheckRevision(tx, c, h.Caller.Expect) })
}

// CheckRevision refuses a cell that does not have a revision; nil is any.
func CheckRevision(tx *store.Tx, c store.Cell, expect *int64) error {
	return UnchangedBut(tx, c, expect, 0)
}

// UnchangedBut is CheckRevision for a cell about which the caller has made statements since.
func UnchangedBut(tx *store.Tx, c store.Cell, expect *int64, own int) error {
	if expect == nil {
		return nil
	}
	now, err := tx.LastOfCell(c.ID, own)
	if err == nil && now != *expect {
		err = api.Refusef(api.CodeChanged, "read the cell again", "cell %s changed: its revision is %d, not %d", c.Name, now, *expect)
	}
	return err
}
