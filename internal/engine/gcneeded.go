package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/evidence/statements"

	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// neededStates returns the states to keep: heads, named states, the states that an
// apply compares with, the origins of forks, both states of undecided runs and of those
// that were undone recently, in whole or in part, and the last N if requested.
func (e *Engine) neededStates(tx *store.Tx, req api.GCRequest, all []store.Checkpoint) (map[string]bool, error) {
	needed := map[string]bool{}
	cells, err := tx.Cells(true)
	if err != nil {
		return nil, err
	}
	removed := map[string]bool{}
	for _, c := range cells {
		if !e.keeps(req, c) {
			removed[c.ID] = true
			continue
		}
		needed[c.Head], needed[c.Applied] = true, true
		if err := needOrigin(tx, needed, c.Applied); err != nil {
			return nil, err
		}
		needed[c.ForkedCheckpoint] = true
		if req.KeepSources {
			if err := e.needSources(tx, needed, c); err != nil {
				return nil, err
			}
		}
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
		// The state that an undo would go back to.
		needed[a.From] = needed[a.From] || !a.Undone && !removed[a.CellID]
	}
	runs, err := tx.Runs("")
	if err != nil {
		return nil, err
	}
	begun, ended := map[string]bool{}, map[string]bool{}
	for _, r := range runs {
		need := r.State == "running" || !removed[r.CellID] && r.Decision == pending
		if !need && !removed[r.CellID] && leavesWork(r.Decision) {
			if need, err = e.recentlyUndone(tx, req, r, needed); err != nil {
				return nil, err
			}
		}
		if need {
			needed[r.Before], needed[r.After] = true, true
			begun[r.Before], ended[r.After] = true, true
		}
	}
	for _, c := range all {
		// A captured state of a live cell is needed as long as its run is. So is the
		// state of a directory that others had changed when a run was undone there.
		needed[c.ID] = needed[c.ID] || c.Kind == home.KindLive && begun[c.Parent] || c.Kind == home.KindDrift && ended[c.Parent]
	}
	keepLast(needed, all, removed, req.KeepLast)
	return needed, e.needRecentlyLeft(tx, req, removed, needed)
}

// keeps reports whether the states of a cell are those of one that exists: it does, or it
// was removed recently and can be brought back.
func (e *Engine) keeps(req api.GCRequest, c store.Cell) bool {
	return c.Name != "" || !c.RemovedAt.IsZero() && !req.Removed && e.isRecent(req, c.RemovedAt)
}

// keptCells returns the ids of the cells that exist, and of those that can be brought back.
func (e *Engine) keptCells(tx *store.Tx, req api.GCRequest) (map[string]bool, error) {
	ids := map[string]bool{}
	cells, err := tx.Cells(true)
	for _, c := range cells {
		ids[c.ID] = e.keeps(req, c)
	}
	return ids, err
}

// needSources keeps the states that the source of a cell has had.
func (e *Engine) needSources(tx *store.Tx, needed map[string]bool, c store.Cell) error {
	states, err := e.pastSources(tx, c)
	for _, s := range states {
		needed[s.ID] = true
	}
	return err
}

// isRecent reports whether t is so recent that the work of that time is still
// needed. A time in the future counts as recent, unless the request is for
// everything.
func (e *Engine) isRecent(req api.GCRequest, t time.Time) bool {
	return req.OlderThan > 0 && e.Now().Sub(t) < req.OlderThan
}

// needRecentlyLeft keeps the states that cells were in before a restore that undid
// no run.
func (e *Engine) needRecentlyLeft(tx *store.Tx, req api.GCRequest, removed, needed map[string]bool) error {
	restores, err := statements.Restores(tx)
	if err != nil {
		return err
	}
	for _, st := range restores {
		if removed[st.CellID] {
			continue
		}
		env, err := e.Evidence.Envelope(st.Seq)
		if err != nil {
			return err
		}
		if p, ok := env.Statement.Predicate.(*receipt.Change); ok && e.isRecent(req, p.CreatedAt) {
			needed[p.Details[detailLeft]] = true
		}
	}
	return nil
}

// leavesWork reports whether a cell is without the work of a run, or a part of it, after a
// decision.
func leavesWork(decision string) bool { return home.IsUndone(decision) || decision == partial }

// recentlyUndone reports whether a run has ended or was undone recently. The state
// that the cell left when the run was undone is then needed too: work that was kept
// for months is freed no sooner than that of yesterday.
func (e *Engine) recentlyUndone(tx *store.Tx, req api.GCRequest, r store.Run, needed map[string]bool) (bool, error) {
	found := e.isRecent(req, r.FinishedAt)
	after, err := tx.Checkpoint(r.After)
	if errors.Is(err, store.ErrNotFound) || err == nil && after.Freed {
		return found, nil // nothing to keep
	}
	if err != nil {
		return false, err
	}
	recorded, err := tx.RunStatements(r.ID)
	if err != nil {
		return false, err
	}
	for _, st := range recorded {
		if st.Kind != statements.KindDecision {
			continue
		}
		env, err := e.Evidence.Envelope(st.Seq)
		if err != nil {
			return false, err
		}
		if d, ok := statements.DecisionInfo(env.Statement); ok && leavesWork(d.Result) && e.isRecent(req, d.CreatedAt) {
			found, needed[d.HeadBefore] = true, true
		}
	}
	return found, nil
}

// needOrigin keeps the state that a refreshed source state was derived from: a cell
// that is restored to before the refresh is compared with it.
func needOrigin(tx *store.Tx, needed map[string]bool, id string) error {
	for {
		c, err := tx.Checkpoint(id)
		if errors.Is(err, store.ErrNotFound) {
			return nil // it is lost, and so is its origin
		}
		if err != nil || c.Kind != home.KindSource {
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
