package cell

import (
	"context"
	"slices"
	"time"

	"github.com/forkcell/forkcell/internal/failpoint"
	"github.com/forkcell/forkcell/internal/store"
)

// GC frees what nothing refers to. It first marks the states as freed, in one
// transaction, so that nobody can begin to use them; then it deletes.
func (e *Engine) GC(ctx context.Context, req GCRequest) (*GCResult, error) {
	res := &GCResult{DryRun: req.DryRun, Checkpoints: []string{}, Layers: []string{}}
	if e.store == nil {
		return res, nil
	}
	if err := e.settleInits(ctx); err != nil {
		return nil, err
	}
	lock, err := e.store.LockHome(true)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	var layers map[string]bool
	mark := func(tx *store.Tx) error {
		freed, kept, err := e.partition(tx, req)
		if err != nil {
			return err
		}
		if layers, err = e.layersOf(tx, kept); err != nil {
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
		err = e.store.View(mark)
	} else {
		err = e.store.Update(mark)
	}
	if err != nil {
		return nil, err
	}
	failpoint.Hit("gc.marked")
	return res, e.sweep(ctx, req, layers, res)
}

func (e *Engine) sweep(ctx context.Context, req GCRequest, layers map[string]bool, res *GCResult) error {
	busy, err := e.pendingInUse()
	if err != nil {
		return err
	}
	report, err := e.ws.Sweep(ctx,
		func(layer string) bool { return layers[layer] },
		func(op string) bool { return busy[op] }, req.DryRun)
	if err != nil {
		return err
	}
	res.Layers = append(res.Layers, report.Layers...)
	res.Objects, res.Bytes = report.Objects, report.Bytes
	cells, err := e.liveCells()
	if err != nil {
		return err
	}
	live, err := e.ws.SweepLive(ctx, func(id string) bool { return cells[id] }, req.DryRun)
	if err != nil {
		return err
	}
	res.Bytes += live.Bytes
	if req.DryRun {
		return nil
	}
	return e.store.SweepTemps()
}

// liveCells are the cells that exist.
func (e *Engine) liveCells() (map[string]bool, error) {
	exist := map[string]bool{}
	err := e.store.View(func(tx *store.Tx) error {
		cells, err := tx.Cells(false)
		for _, c := range cells {
			exist[c.ID] = true
		}
		return err
	})
	return exist, err
}

// partition sorts the states into those that may go and those that something
// needs.
func (e *Engine) partition(tx *store.Tx, req GCRequest) (freed, kept []store.Checkpoint, err error) {
	all, err := tx.Checkpoints("")
	if err != nil {
		return nil, nil, err
	}
	needed, err := e.neededStates(tx, req, all)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range all {
		switch {
		case c.Freed:
		case needed[c.ID]:
			kept = append(kept, c)
		default:
			freed = append(freed, c)
		}
	}
	return freed, kept, nil
}

// neededStates: heads, names, the states that an apply compares with, the origins
// of forks, both ends of undecided runs and of recently undone ones, and the last
// N where asked.
func (e *Engine) neededStates(tx *store.Tx, req GCRequest, all []store.Checkpoint) (map[string]bool, error) {
	needed := map[string]bool{}
	cells, err := tx.Cells(true)
	if err != nil {
		return nil, err
	}
	removed := map[string]bool{}
	for _, c := range cells {
		if c.Name == "" {
			removed[c.ID] = true
			continue
		}
		needed[c.Head], needed[c.Applied] = true, true
		if err := needOrigin(tx, needed, c.Applied); err != nil {
			return nil, err
		}
		needed[c.ForkedCheckpoint] = true
	}
	names, err := tx.Names("")
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if len(names[c.ID]) > 0 && !removed[c.CellID] {
			needed[c.ID] = true
		}
	}
	applies, err := tx.Applies()
	if err != nil {
		return nil, err
	}
	for _, a := range applies {
		// What an undo would go back to.
		needed[a.From] = needed[a.From] || !a.Undone && !removed[a.CellID]
	}
	runs, err := tx.Runs("")
	if err != nil {
		return nil, err
	}
	begun := map[string]bool{}
	for _, r := range runs {
		// A run that seems to have ended in the future is recent, unless all of
		// them are asked for.
		recent := req.OlderThan > 0 && e.now().Sub(r.FinishedAt) < req.OlderThan
		if r.State == "running" || !removed[r.CellID] && (r.Decision == pending || isUndone(r.Decision) && recent) {
			needed[r.Before], needed[r.After] = true, true
			begun[r.Before] = true
		}
	}
	for _, c := range all {
		// What was captured of a live cell is needed as long as its run is.
		needed[c.ID] = needed[c.ID] || c.Kind == kindLive && begun[c.Parent]
	}
	keepLast(needed, all, removed, req.KeepLast)
	return needed, nil
}

// needOrigin keeps what a refreshed source state was derived from: a cell that
// goes back behind the refresh is compared with it.
func needOrigin(tx *store.Tx, needed map[string]bool, id string) error {
	for {
		c, err := tx.Checkpoint(id)
		if err != nil || c.Kind != kindSource {
			return err
		}
		id = c.Parent
		needed[id] = true
	}
}

func keepLast(needed map[string]bool, all []store.Checkpoint, removed map[string]bool, n int) {
	count := map[string]int{}
	for _, c := range slices.Backward(all) {
		if !removed[c.CellID] && count[c.CellID] < n {
			count[c.CellID]++
			needed[c.ID] = true
		}
	}
}

// layersOf lists every layer that the kept states stand on.
func (e *Engine) layersOf(_ *store.Tx, kept []store.Checkpoint) (map[string]bool, error) {
	layers := map[string]bool{}
	for _, c := range kept {
		chain, err := e.ws.Chain(c.Layer)
		if err != nil {
			return nil, layerError(c, err)
		}
		for _, l := range chain {
			layers[l] = true
		}
	}
	return layers, nil
}

// pendingInUse lists the operations whose unfinished files must stay: of runs
// that go on or wait to be finished, and of imports under way.
func (e *Engine) pendingInUse() (map[string]bool, error) {
	busy := map[string]bool{}
	err := e.store.View(func(tx *store.Tx) error {
		runs, err := tx.UnfinishedRuns("")
		if err != nil {
			return err
		}
		for _, r := range runs {
			busy[r.ID] = true
		}
		intents, err := tx.Intents("")
		for _, in := range intents {
			busy[in.ID] = true
		}
		return err
	})
	return busy, err
}

// DefaultOlderThan is how long the work of restored runs counts as needed.
const DefaultOlderThan = 7 * 24 * time.Hour
