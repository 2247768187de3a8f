package statements

import (
	"encoding/json"
	"errors"
	"strconv"

	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/receipt"
)

// checkpoint records a state, as freed where its layers are gone or the old
// database says so: a freed state does not come back.
func (b *rebuild) checkpoint(tx *store.Tx, cellID string, p receipt.Checkpoint, kind, runID string, at receipt.Predicate, own int64) error {
	layer, present := b.layers[p.Layer]
	if b.broken[p.Layer] != nil {
		present = true // its files may be all there
	}
	freed := !present || b.freed[p.ID]
	b.named[p.Layer] = true
	if b.seen[p.ID] != 0 {
		old, err := tx.Checkpoint(p.ID)
		if err != nil || old.Layer == p.Layer || p.Layer == "" {
			return err
		}
		// A squash: same state, other layer.
		old.Layer, old.Freed, old.Areas = p.Layer, freed, b.areas(p, layer)
		return tx.PutCheckpoint(old)
	}
	if kind == runState && runID == "" {
		kind = UnclaimedState // the receipt that gave it is lost
	}
	b.seen[p.ID] = at.Place().Seq
	b.res.Checkpoints++
	if own == 0 {
		own = layer.Bytes
	}
	memory, size := memoryOf(at)
	return tx.PutCheckpoint(store.Checkpoint{
		Source: sourceOf(at, p.ID), ID: p.ID, CellID: cellID, Parent: p.Parent, Layer: p.Layer, RunID: runID, Freed: freed, Kind: kind, Areas: b.areas(p, layer),
		OwnBytes: own, Memory: memory, MemoryBytes: size, CreatedAt: at.Place().CreatedAt,
	})
}

// memoryOf returns the digest and the size of the memory that was saved with the state
// of a statement.
func memoryOf(at receipt.Predicate) (digest string, size int64) {
	p, ok := at.(*receipt.Change)
	if !ok {
		return "", 0
	}
	size, _ = strconv.ParseInt(p.Details[DetailMemoryBytes], 10, 64) // 0 in older statements
	return p.Details[DetailMemory], size
}

// areas returns the signed roots of a state, with the figures of its layer.
func (b *rebuild) areas(p receipt.Checkpoint, layer workspace.Info) map[string]store.Area {
	areas := map[string]store.Area{}
	for name, roots := range p.Areas {
		a := store.Area{Root: roots.Root, MetaRoot: roots.MetaRoot}
		if info, ok := layer.Areas[name]; ok {
			a.Files, a.Dirs, a.Bytes = info.Files, info.Dirs, info.Bytes
			if info.Root != roots.Root {
				b.problem("layer %s does not have the signed root of %s", p.Layer, p.ID)
			}
		}
		areas[name] = a
	}
	return areas
}

// sourceOf returns the id of the state of the source that a refresh merged into this
// one.
func sourceOf(p receipt.Predicate, id string) string {
	change, ok := p.(*receipt.Change)
	if !ok || change.Op != receipt.OpRefresh || change.Checkpoint.ID != id {
		return ""
	}
	var state detailedState
	if json.Unmarshal([]byte(change.Details["state"]), &state) != nil || state.Checkpoint.ID == id {
		return ""
	}
	return state.Checkpoint.ID
}

// lostBeginning makes up for a cell's first statement if that is lost: the cell,
// as far as a receipt knows it, and the state before the run, by its identity.
func (b *rebuild) lostBeginning(tx *store.Tx, p *receipt.Run) error {
	_, err := tx.CellByID(p.CellID)
	if errors.Is(err, store.ErrNotFound) {
		err = tx.PutCell(store.Cell{
			ID: p.CellID, Name: p.Cell, LastName: p.Cell, Head: p.CheckpointBefore.ID, Applied: p.CheckpointBefore.ID,
			SourceKind: SourceLost, Backend: p.Backend, BackendReason: p.BackendReason, Runtime: p.Runtime,
			MountAt: p.Workdir, CreatedAt: p.StartedAt,
		})
	}
	if err != nil || b.seen[p.CheckpointBefore.ID] != 0 {
		return err
	}
	for _, layer := range b.layers {
		a := layer.Areas[workspace.AreaWorkspace]
		if a.Root != p.CheckpointBefore.Root || a.Meta != p.CheckpointBefore.MetaRoot {
			continue
		}
		roots := map[string]receipt.Roots{}
		for name, a := range layer.Areas {
			roots[name] = receipt.Roots{Root: a.Root, MetaRoot: a.Meta}
		}
		b.problemAt(b.gap(p.Seq), "the statement of checkpoint %s is lost; layer %s has its contents", p.CheckpointBefore.ID, layer.Layer)
		return b.checkpoint(tx, p.CellID, receipt.Checkpoint{
			ID: p.CheckpointBefore.ID, Layer: layer.Layer, Areas: roots,
		}, UnclaimedState, "", p, 0)
	}
	return nil
}
