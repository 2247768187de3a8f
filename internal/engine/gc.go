package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/held"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/moments"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
)

// GC frees data that nothing refers to. It first marks the states as freed, in one
// transaction, so that no command begins to use them. Then it deletes.
func (e *Engine) GC(ctx context.Context, req api.GCRequest) (*api.GCResult, error) {
	res := &api.GCResult{DryRun: req.DryRun, Checkpoints: []string{}, Layers: []string{}}
	if e.Store == nil {
		return res, nil
	}
	if err := e.Store.MakeRoom(); err != nil {
		return nil, err
	}
	if err := e.settleInits(ctx); err != nil {
		return nil, err
	}
	e.settleRaces(ctx)
	report, err := e.collect(ctx, req, res)
	if err != nil {
		return nil, err
	}
	// Other commands need not wait for the rest: the data to delete no longer has a
	// name.
	err = e.Workspace.Empty(ctx, report)
	res.Bytes = report.Bytes
	return res, err
}

// collect marks and moves away the data that nothing refers to, while no other
// process adds to the home.
func (e *Engine) collect(ctx context.Context, req api.GCRequest, res *api.GCResult) (*workspace.SweepReport, error) {
	lock, err := e.Store.LockHome(true)
	if errors.Is(err, store.ErrHomeBusy) {
		return nil, &api.Error{
			Kind: api.Busy, Code: api.CodeBusy, Err: err,
			Message: "gc waited for a minute, and other commands are still at work in this home",
			Hint:    "try again when they have ended",
		}
	}
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	var layers, images map[string]bool
	var outputs []string
	mark := func(tx *store.Tx) error {
		if err := e.Evidence.RefuseLostRows(tx); err != nil {
			return err
		}
		held, err := e.heldWork(tx)
		if err != nil {
			return err
		}
		freed, kept, err := e.partition(tx, req, held)
		if err != nil {
			return err
		}
		if layers, err = e.layersOf(kept); err != nil {
			return err
		}
		maps.Copy(layers, held.Layers)
		images = map[string]bool{}
		for _, c := range kept {
			images[c.ID] = c.Memory != ""
		}
		if err := pausedImages(tx, images); err != nil {
			return err
		}
		if outputs, err = e.freeOutputs(tx, req, res); err != nil {
			return err
		}
		for _, c := range freed {
			res.Checkpoints = append(res.Checkpoints, c.ID)
			c.Freed = true
			if req.DryRun {
				continue
			}
			if err := tx.PutCheckpoint(c); err != nil {
				return err
			}
		}
		return nil
	}
	if req.DryRun {
		err = e.Store.View(mark)
	} else {
		err = e.Store.Update(mark)
	}
	if err != nil {
		return nil, err
	}
	failpoint.Hit("gc.marked")
	report, err := e.sweep(ctx, req, layers, images, res)
	if err != nil {
		return nil, err
	}
	freed, err := e.sweepOutputs(outputs, req.DryRun)
	report.Bytes += freed
	return report, err
}

func (e *Engine) sweep(ctx context.Context, req api.GCRequest, layers, images map[string]bool, res *api.GCResult) (*workspace.SweepReport, error) {
	busy, err := e.pendingInUse(req)
	if err != nil {
		return nil, err
	}
	report, err := e.Workspace.Sweep(ctx,
		func(layer string) bool { return layers[layer] },
		func(op string) bool { return busy[op] }, req.DryRun)
	if home.IsDamage(err) {
		return nil, &api.Error{
			Kind: api.Refused, Code: api.CodeDamaged, Message: fmt.Sprintf("not freed, because it may be in use: %v", err), Hint: home.DamageHint, Err: err,
		}
	}
	if err != nil {
		return nil, err
	}
	res.Layers = append(res.Layers, report.Layers...)
	res.Objects = report.Objects
	var cells map[string]bool
	err = e.Store.View(func(tx *store.Tx) (err error) {
		cells, err = e.keptCells(tx, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	live, err := e.Workspace.SweepLive(ctx, func(id string) bool { return cells[id] }, req.DryRun)
	if err != nil {
		return nil, err
	}
	report.Add(live)
	memories, err := e.Workspace.SweepDir(ctx, moments.Dir, func(name string) bool { return busy[moments.Owner(name)] || images[name] }, req.DryRun)
	if err != nil {
		return nil, err
	}
	report.Add(memories)
	if req.DryRun {
		return &report, nil
	}
	return &report, e.Store.SweepTemps()
}

// pausedImages adds what cells are paused with.
func pausedImages(tx *store.Tx, images map[string]bool) error {
	cells, err := tx.Cells(false)
	for _, c := range cells {
		if c.Paused != nil {
			images[moments.PausedImage(c.Paused.RunID)] = true
		}
	}
	return err
}

// partition divides the states into those that can be freed and those that are
// needed.
func (e *Engine) partition(tx *store.Tx, req api.GCRequest, held held.Holdings) (freed, kept []store.Checkpoint, err error) {
	all, err := tx.Checkpoints("")
	if err != nil {
		return nil, nil, err
	}
	needed, err := e.neededStates(tx, req, all)
	if err != nil {
		return nil, nil, err
	}
	if err := e.needBases(needed, held, all); err != nil {
		return nil, nil, err
	}
	for _, c := range all {
		switch {
		case c.Freed:
		case needed[c.ID] || held.States[c.ID] || held.Layers[c.Layer]:
			kept = append(kept, c)
		default:
			freed = append(freed, c)
		}
	}
	return freed, kept, nil
}

// unfinishedWork lists the data that is needed until unfinished operations end or
// are settled: states that a run has sealed but not recorded, both states of the
// rewriting of a directory, and the states that an apply will record.
func (e *Engine) unfinishedWork(tx *store.Tx) (held.Holdings, error) {
	held := held.Holdings{States: map[string]bool{}, Layers: map[string]bool{}}
	runs, err := tx.UnfinishedRuns("")
	if err != nil {
		return held, err
	}
	for _, r := range runs {
		held.Layers[workspace.LayerOf(r.ID)] = true
	}
	intents, err := tx.Intents("")
	if err != nil {
		return held, err
	}
	for _, in := range intents {
		if err := e.holder.Left.AddNeeds(in, held); err != nil {
			return held, err
		}
	}
	return held, nil
}

// heldWork adds to unfinished work the data that a recorded loss protects.
func (e *Engine) heldWork(tx *store.Tx) (held.Holdings, error) {
	held, err := e.unfinishedWork(tx)
	if err != nil {
		return held, err
	}
	if err := e.cacheBases(tx, held); err != nil {
		return held, err
	}
	states, layers, err := e.Evidence.KeptRecords(tx)
	maps.Copy(held.States, states)
	maps.Copy(held.Layers, layers)
	return held, err
}

// layersOf lists every layer that the kept states need.
func (e *Engine) layersOf(kept []store.Checkpoint) (map[string]bool, error) {
	layers := map[string]bool{}
	for _, c := range kept {
		chain, err := e.Workspace.Chain(c.Layer)
		if err != nil {
			return nil, home.LayerError(c, err)
		}
		for _, l := range chain {
			layers[l] = true
		}
	}
	return layers, nil
}

// pendingInUse lists the operations whose unfinished files must stay: runs that are
// not finished, and imports.
func (e *Engine) pendingInUse(req api.GCRequest) (map[string]bool, error) {
	busy := map[string]bool{}
	err := e.Store.View(func(tx *store.Tx) error {
		runs, err := tx.UnfinishedRuns("")
		if err != nil {
			return err
		}
		for _, r := range runs {
			busy[r.ID] = true
		}
		intents, err := tx.Intents("")
		if err != nil {
			return err
		}
		for _, in := range intents {
			busy[in.ID] = true
		}
		return e.addUndoable(tx, req, busy)
	})
	return busy, err
}

// addUndoable adds the applies that can still be undone.
func (e *Engine) addUndoable(tx *store.Tx, req api.GCRequest, busy map[string]bool) error {
	exists, err := e.keptCells(tx, req)
	if err != nil {
		return err
	}
	applies, err := tx.Applies()
	for _, a := range applies {
		if !a.Undone && exists[a.CellID] {
			busy[a.ID] = true
		}
	}
	return err
}

// DefaultOlderThan is how long gc keeps the work of restored runs, and removed cells.
const DefaultOlderThan = home.RemovedFor
