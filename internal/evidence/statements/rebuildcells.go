package statements

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

func (b *rebuild) change(tx *store.Tx, p *receipt.Change) error {
	c, settings, err := cellFromStatement(p)
	if err != nil {
		return err
	}
	if old, err := tx.CellByID(c.ID); err == nil {
		c.CreatedAt, c.Inherited = old.CreatedAt, old.Inherited
		if p.Details[DetailLive] != "" {
			c.Head = old.Head
		}
	}
	if p.Op == receipt.OpFork {
		if parent, err := tx.CellByID(c.ForkedCell); err == nil {
			c.Inherited = maps.Clone(parent.Inherited)
		}
	}
	if ids := acceptedStates(p); len(ids) > 0 {
		RecordAccepted(&c, ids)
	}
	if err := tx.PutCell(c); err != nil {
		return err
	}
	if err := tx.PutSettings(c.ID, settings); err != nil {
		return err
	}
	if err := b.otherState(tx, c.ID, p); err != nil {
		return err
	}
	own, _ := strconv.ParseInt(p.Details["own_bytes"], 10, 64)
	if err := b.checkpoint(tx, c.ID, p.Checkpoint, p.Details["checkpoint_kind"], "", p, own); err != nil {
		return err
	}
	if p.Op == receipt.OpCheckpoint && p.Checkpoint.Name != "" {
		return tx.Name(c.ID, p.Checkpoint.Name, p.Checkpoint.ID)
	}
	if p.Op == receipt.OpApply || p.Op == receipt.OpUndo {
		return b.replayApply(tx, c, p)
	}
	return nil
}

func cellFromStatement(p *receipt.Change) (store.Cell, store.Settings, error) {
	var extra cellRecord
	if err := json.Unmarshal([]byte(p.Details["record"]), &extra); err != nil {
		return store.Cell{}, store.Settings{}, fmt.Errorf("record of cell %s: %w", p.CellID, err)
	}
	of := p.Of
	c := store.Cell{
		ID: of.ID, Name: of.Name, LastName: of.Name, Head: p.Checkpoint.ID, Applied: extra.Applied, Source: of.Source,
		SourceKind: extra.SourceKind, Backend: of.Backend, BackendReason: of.BackendReason, Runtime: of.Runtime,
		MountAt: of.MountAt, Live: extra.Live, ReadOnly: of.ReadOnly, Rules: extra.Rules, LeftOut: extra.LeftOut,
		Kept: extra.Kept, Policy: extra.Policy, Pins: extra.Pins, Cache: extra.Cache, Prefix: extra.Prefix, CreatedAt: p.CreatedAt, Paused: extra.Paused, RemovedAt: extra.RemovedAt,
	}
	if p.Op == receipt.OpRemove || p.Op == receipt.OpExpire && p.Details[DetailAction] == actionRemove {
		c.Name = ""
	}
	if of.ForkedFrom != nil {
		c.ForkedCell, c.ForkedCheckpoint = of.ForkedFrom.CellID, of.ForkedFrom.Checkpoint
	}
	if extra.Settings == nil {
		return c, store.Settings{}, nil
	}
	return c, *extra.Settings, nil
}

// otherState records the state that the source corresponds to.
func (b *rebuild) otherState(tx *store.Tx, cellID string, p *receipt.Change) error {
	text := p.Details["state"]
	if text == "" {
		return nil
	}
	var state detailedState
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		return fmt.Errorf("state in a statement: %w", err)
	}
	return b.checkpoint(tx, cellID, state.Checkpoint, state.Kind, "", p, 0)
}

// replayApply replays an apply, or takes one back.
func (b *rebuild) replayApply(tx *store.Tx, c store.Cell, p *receipt.Change) error {
	if p.Details["apply_id"] == "" {
		return nil // nothing had to be written
	}
	var a store.Apply
	if err := json.Unmarshal([]byte(p.Details["apply"]), &a); err != nil {
		return fmt.Errorf("record of an apply: %w", err)
	}
	a.ID, a.CellID, a.Undone = p.Details["apply_id"], c.ID, p.Op == receipt.OpUndo
	return tx.PutApply(a)
}
