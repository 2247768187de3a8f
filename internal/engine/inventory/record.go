package inventory

import (
	"cmp"
	"errors"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// cellRecord has the rows of the database about a cell. It is shared, and never changed.
type cellRecord struct {
	cell    store.Cell
	history store.History
	// info lacks what the caller may not see, and what depends on processes.
	info       api.CellInfo
	forkedFrom string      // the last name of that cell
	running    []store.Run // without a receipt
	unfinished bool        // there are such runs, or intents
}

// record reads what the database has about a cell.
func (inv *Inventory) record(tx *store.Tx, c store.Cell) (*cellRecord, error) {
	head, err := tx.Checkpoint(c.Head)
	if err != nil {
		return nil, err
	}
	area := head.Areas[workspace.AreaWorkspace]
	r := &cellRecord{cell: c, info: api.CellInfo{
		Cell: c.Name, Name: c.Name, CellID: c.ID, Backend: c.Backend, Runtime: c.Runtime, Source: c.Source, MountAt: c.MountAt, Head: head.ID,
		Root: head.Root(), MetaRoot: head.MetaRoot(), Files: area.Files, Bytes: area.Bytes, CreatedAt: c.CreatedAt,
		Cache: cmp.Or(c.Cache, api.CacheOff),
	}}
	if r.history, err = tx.History(c.ID); err != nil {
		return nil, err
	}
	r.info.Revision = r.history.Revision
	if err := showSettings(tx, &r.info); err != nil {
		return nil, err
	}
	if r.info.OwnBytes, err = inv.ownBytes(tx, c, r.history); err != nil {
		return nil, err
	}
	if depth, err := inv.Workspace.Depth(head.Layer); err == nil {
		r.info.Layers = depth
	}
	if c.ForkedCell != "" {
		if r.forkedFrom, err = tx.LastName(c.ForkedCell); err != nil {
			return nil, err
		}
	}
	return r, r.addRuns(tx)
}

// addRuns adds the last run of the cell, and those that are not finished.
func (r *cellRecord) addRuns(tx *store.Tx) (err error) {
	last, err := tx.LastRun(r.cell.ID)
	if err == nil {
		r.info.LastRun, r.info.LastOutcome, r.info.LastDecision = last.ID, last.Outcome, last.Decision
	} else if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if r.unfinished, err = tx.HasUnfinished(r.cell.ID); err != nil || !r.unfinished {
		return err
	}
	r.running, err = tx.UnfinishedRuns(r.cell.ID)
	return err
}

// describe describes a cell as it is now for the caller.
func (inv *Inventory) describe(r *cellRecord, left abandonedWork) api.CellInfo {
	info := r.info
	info.OwnBytes += inv.PausedBytes(r.cell)
	info.State = inv.state(r.cell, r.running)
	if inv.Caller.MaySee(r.forkedFrom) {
		info.ForkedFrom = r.forkedFrom
	}
	left.show(r, &info)
	return info
}

// Describe describes a cell, by its id.
func (inv *Inventory) Describe(id string) (*api.CellInfo, error) {
	left, err := inv.findAbandoned(id)
	if err != nil {
		return nil, err
	}
	var r *cellRecord
	err = inv.Store.View(func(tx *store.Tx) error {
		c, err := tx.CellByID(id)
		if err != nil {
			return err
		}
		r, err = inv.record(tx, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	info := inv.describe(r, left)
	return &info, nil
}

// state returns whether a process works on a cell with the given unfinished runs. It
// does not look for unfinished work.
func (inv *Inventory) state(c store.Cell, running []store.Run) string {
	h, busy := inv.Store.CellHolder(c.ID)
	switch {
	case !busy && c.Paused != nil:
		return api.StatePaused
	case !busy:
		return idleState(running)
	case h.What != home.HeldByStart:
		return api.StateRunning
	case c.Paused != nil:
		return api.StatePaused // it is being resumed
	case slices.ContainsFunc(running, func(r store.Run) bool { return r.Paused }):
		return api.StatePaused
	}
	return api.StateLive
}

// idleState returns the state of a cell that no process works on. A cell that was being
// paused when its process died is paused: the next verb that changes it concludes that.
func idleState(running []store.Run) string {
	if slices.ContainsFunc(running, func(r store.Run) bool { return r.Pause != nil }) {
		return api.StatePaused
	}
	return api.StateIdle
}

// ownBytes returns the disk space of the layers that states were sealed in, and of the
// memory that was saved with them. States may share a layer.
func ownBytes(states []store.Checkpoint) (total int64) {
	seen := map[string]bool{}
	for _, c := range states {
		if c.Freed {
			continue
		}
		total += c.MemoryBytes
		if !seen[c.Layer] {
			seen[c.Layer] = true
			total += c.OwnBytes
		}
	}
	return total
}

// ownBytes returns the disk space of a cell's own states.
func (inv *Inventory) ownBytes(tx *store.Tx, c store.Cell, h store.History) (int64, error) {
	return inv.kept.memos.ownBytes.get(c.ID, memoStamp{history: h}, func() (int64, error) {
		own, err := tx.Checkpoints(c.ID)
		return ownBytes(own), err
	})
}
