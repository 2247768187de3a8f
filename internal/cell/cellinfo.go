package cell

import (
	"cmp"
	"errors"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/internal/workspace"
)

func (e *Engine) info(tx *store.Tx, c store.Cell, left abandonedWork) (api.CellInfo, error) {
	head, err := tx.Checkpoint(c.Head)
	if err != nil {
		return api.CellInfo{}, err
	}
	area := head.Areas[workspace.AreaWorkspace]
	info := api.CellInfo{
		Cell: c.Name, Name: c.Name, CellID: c.ID, Backend: c.Backend, Runtime: c.Runtime, Source: c.Source, MountAt: c.MountAt, Head: head.ID,
		Root: head.Root(), MetaRoot: head.MetaRoot(), Files: area.Files, Bytes: area.Bytes, CreatedAt: c.CreatedAt,
		Cache: cmp.Or(c.Cache, CacheOff),
	}
	if info.State, err = e.state(tx, c); err != nil {
		return info, err
	}
	history, err := tx.History(c.ID)
	if err != nil {
		return info, err
	}
	info.Revision = history.Revision
	if err := showSettings(tx, &info); err != nil {
		return info, err
	}
	if info.OwnBytes, err = e.ownBytes(tx, c, history); err != nil {
		return info, err
	}
	if depth, err := e.ws.Depth(head.Layer); err == nil {
		info.Layers = depth
	}
	if c.ForkedCell != "" {
		parent, err := tx.CellByID(c.ForkedCell)
		if err != nil {
			return info, err
		}
		if e.caller.sees(parent.LastName) {
			info.ForkedFrom = parent.LastName
		}
	}
	last, err := tx.LastRun(c.ID)
	if err == nil {
		info.LastRun, info.LastOutcome, info.LastDecision = last.ID, last.Outcome, last.Decision
	} else if !errors.Is(err, store.ErrNotFound) {
		return info, err
	}
	return info, left.show(tx, &info)
}

// state returns whether a process works on a cell. It does not look for unfinished
// work.
func (e *Engine) state(tx *store.Tx, c store.Cell) (string, error) {
	h, busy := e.store.CellHolder(c.ID)
	switch {
	case !busy && c.Paused != nil:
		return api.StatePaused, nil
	case !busy:
		return e.idleState(tx, c)
	case h.What != heldByStart:
		return api.StateRunning, nil
	case c.Paused != nil:
		return api.StatePaused, nil // it is being resumed
	}
	runs, err := tx.UnfinishedRuns(c.ID)
	for _, r := range runs {
		if r.Paused {
			return api.StatePaused, nil
		}
	}
	return api.StateLive, err
}

// idleState returns the state of a cell that no process works on. A cell that was being
// paused when its process died is paused: the next verb that changes it concludes that.
func (e *Engine) idleState(tx *store.Tx, c store.Cell) (string, error) {
	runs, err := tx.UnfinishedRuns(c.ID)
	for _, r := range runs {
		if r.Pause != nil {
			return api.StatePaused, nil
		}
	}
	return api.StateIdle, err
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
func (e *Engine) ownBytes(tx *store.Tx, c store.Cell, h store.History) (int64, error) {
	return e.shared.memos.ownBytes.get(c.ID, memoStamp{history: h}, func() (int64, error) {
		own, err := tx.Checkpoints(c.ID)
		return ownBytes(own), err
	})
}
