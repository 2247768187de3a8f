package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/moments"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// Rename changes the name of a cell. Its id stays, and so does its evidence.
func (e *Engine) Rename(ctx context.Context, cell, to string) error {
	if err := home.CheckName("cell", to); err != nil {
		return err
	}
	_, err := e.Update(ctx, api.UpdateRequest{Cell: cell, Name: to})
	return err
}

// forceWait is how long a forced operation waits for a busy cell.
const forceWait = 10 * time.Second

// withForce adds the --force flag to the hint of a refusal about a live cell.
func withForce(err error) error {
	if e, ok := errors.AsType[*api.Error](err); ok && e.Code == api.CodeLive {
		c := *e
		c.Hint += "; --force stops it first"
		return &c
	}
	return err
}

// Remove removes a cell, as RemoveAll does.
func (e *Engine) Remove(ctx context.Context, cell string, force bool) error {
	return e.RemoveAll(ctx, []string{cell}, force)
}

// RemoveAll removes cells, all or none. Their receipts stay. Their states are kept for 7
// days, in which Undelete brings a cell back; then gc frees them unless something else
// needs them. The source directories are not
// touched. A cell with work that nothing else has is refused without force. force also
// stops live cells, and gives up an operation that was interrupted in a directory that no
// longer exists.
func (e *Engine) RemoveAll(ctx context.Context, cells []string, force bool) error {
	return e.RemoveCells(ctx, api.RemoveRequest{Cells: cells, Force: force})
}

// RemoveCells removes cells, as RemoveAll does.
func (e *Engine) RemoveCells(ctx context.Context, req api.RemoveRequest) error {
	req.Stop = req.Stop || req.Force
	cells := slices.Compact(slices.Sorted(slices.Values(req.Cells)))
	for _, name := range cells {
		c, err := e.FindCell(name)
		if err != nil {
			return err
		}
		if err := e.CheckRevision(c); err != nil {
			return err
		}
		if c.Paused != nil && !req.Stop {
			return api.Refusef(api.CodePaused, "`forkcell resume "+name+"` continues it; --force removes it, with what it was paused with", "cell %s is paused", name)
		}
		if err := e.mayRemove(ctx, c, req); err != nil {
			return err
		}
	}
	var held []*heldCell
	defer func() {
		for _, s := range held {
			s.Release()
		}
	}()
	for _, name := range cells {
		s, err := e.holdForRemoval(ctx, name, req)
		if err != nil {
			return err
		}
		held = append(held, s)
		if err := e.mayRemove(ctx, s.Record, req); err != nil {
			return err
		}
	}
	return e.removeHeld(held, "", req.Now, func(*store.Tx) error { return nil })
}

func (e *Engine) holdForRemoval(ctx context.Context, name string, req api.RemoveRequest) (*heldCell, error) {
	wait := time.Duration(0)
	if req.Stop {
		var err error
		if e, _, err = e.stopFirst(ctx, name, api.EndedByStop); err != nil {
			return nil, err
		}
		wait = forceWait
	}
	s, err := e.holdToRemove(ctx, name, wait, req.Force)
	if err != nil {
		return nil, withForce(err)
	}
	return s, nil
}

// Verify recomputes every hash of a state from the bytes on disk.
func (e *Engine) Verify(ctx context.Context, cell, checkpoint string, all bool) (*api.VerifyResult, error) {
	c, err := e.FindAny(cell)
	if err != nil {
		return nil, err
	}
	states, err := e.statesToVerify(c, checkpoint, all)
	if err == nil {
		states, err = e.withBases(states)
	}
	if err != nil {
		return nil, err
	}
	at, err := e.Layout(c)
	if err != nil {
		return nil, err
	}
	ctx = e.WithProgress(ctx)
	unsigned, err := e.unsignedStates()
	if err != nil {
		return nil, err
	}
	res := &api.VerifyResult{Cell: c.Name, Checkpoints: []api.VerifiedState{}, Differences: []api.VerifyProblem{}}
	for _, chk := range states {
		problems, err := e.verifyState(ctx, at, chk)
		if err != nil {
			return res, err
		}
		if len(problems) > 0 && e.WasFreed(chk) {
			if !all && chk.ID == states[0].ID {
				chk.Freed = true
				return nil, home.CheckUsable(chk)
			}
			continue // gc has freed it since the list was made
		}
		for _, text := range unsigned[chk.ID] {
			problems = append(problems, api.VerifyProblem{CheckpointID: chk.ID, What: text})
		}
		res.Checkpoints = append(res.Checkpoints, api.VerifiedState{CheckpointID: chk.ID, Root: chk.Root(), OK: len(problems) == 0})
		res.Differences = append(res.Differences, problems...)
	}
	problems, err := e.verifyPaused(ctx, c)
	if err != nil {
		return res, err
	}
	res.Differences = append(res.Differences, problems...)
	if len(res.Differences) > 0 {
		return res, api.Refusef(api.CodeDiffers, "", "%s in cell %s", api.Counted(len(res.Differences), "difference"), c.Name)
	}
	return res, nil
}

// verifyPaused compares the memory of a paused cell with its record.
func (e *Engine) verifyPaused(ctx context.Context, c store.Cell) ([]api.VerifyProblem, error) {
	if c.Paused == nil {
		return nil, nil
	}
	err := e.Images().Image(moments.PausedImage(c.Paused.RunID)).Verify(ctx, c.Paused.Image)
	if errors.Is(err, moments.ErrDamaged) && !e.isResumed(c) {
		return []api.VerifyProblem{{CheckpointID: c.Head, What: err.Error()}}, nil
	}
	if errors.Is(err, moments.ErrDamaged) {
		return nil, nil
	}
	return nil, err
}

// isResumed reports whether a paused cell is not paused any more as it was when its
// record was read.
func (e *Engine) isResumed(c store.Cell) bool {
	now := c
	err := e.View(func(tx *store.Tx) (err error) {
		now, err = tx.CellByID(c.ID)
		return err
	})
	return err == nil && (now.Paused == nil || now.Paused.RunID != c.Paused.RunID)
}

// unsignedStates lists, by checkpoint, the differences between its record and the
// signed statement.
func (e *Engine) unsignedStates() (map[string][]string, error) {
	found := map[string][]string{}
	err := e.Store.View(func(tx *store.Tx) error {
		known, err := tx.Statements("")
		if err != nil {
			return err
		}
		list, err := e.Evidence.Differences(tx, known)
		for _, d := range list {
			found[d.ID] = append(found[d.ID], d.Text)
		}
		return err
	})
	return found, err
}

func (e *Engine) statesToVerify(c store.Cell, ref string, every bool) ([]store.Checkpoint, error) {
	var states []store.Checkpoint
	err := e.Store.View(func(tx *store.Tx) error {
		if !every {
			chk, err := e.FindCheckpoint(tx, c, ref)
			states = []store.Checkpoint{chk}
			return errors.Join(err, home.CheckUsable(chk))
		}
		own, err := tx.Checkpoints(c.ID)
		if err != nil {
			return err
		}
		line, err := tx.Lineage(c.Head)
		for _, chk := range append(own, line...) {
			known := false
			for _, s := range states {
				known = known || s.ID == chk.ID
			}
			if !known && !chk.Freed {
				states = append(states, chk)
			}
		}
		return err
	})
	return states, err
}

// withBases adds the shared states that states are based on. A state whose record
// cannot be read is left to verifyState.
func (e *Engine) withBases(states []store.Checkpoint) ([]store.Checkpoint, error) {
	out, known := slices.Clone(states), map[string]bool{}
	for _, s := range states {
		known[s.ID] = true
	}
	err := e.Store.View(func(tx *store.Tx) error {
		for _, s := range states {
			bases, err := e.basesOf(s)
			if err != nil {
				continue
			}
			for _, b := range bases {
				base, err := tx.Checkpoint(b.Label)
				if err == nil && !base.Freed && !known[base.ID] {
					known[base.ID], out = true, append(out, base)
				}
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					return err
				}
			}
		}
		return nil
	})
	return out, err
}

// verifyState compares the files and the memory of a state with its record.
func (e *Engine) verifyState(ctx context.Context, at workspace.Cell, chk store.Checkpoint) ([]api.VerifyProblem, error) {
	problems, err := e.verifyFiles(ctx, at, chk)
	if err != nil || chk.Memory == "" || chk.Freed {
		return problems, err
	}
	err = e.Images().Image(chk.ID).Verify(ctx, chk.Memory)
	if errors.Is(err, moments.ErrDamaged) {
		return append(problems, api.VerifyProblem{CheckpointID: chk.ID, What: err.Error()}), nil
	}
	return problems, err
}

// verifyFiles compares the bytes with the manifest, and the manifest with the
// recorded and signed roots.
func (e *Engine) verifyFiles(ctx context.Context, at workspace.Cell, chk store.Checkpoint) ([]api.VerifyProblem, error) {
	var problems []api.VerifyProblem
	add := func(path, what string) {
		problems = append(problems, api.VerifyProblem{CheckpointID: chk.ID, Path: path, What: what})
	}
	diffs, err := e.Workspace.Verify(ctx, at, chk.Layer)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		add("", err.Error())
		return problems, nil
	}
	for _, d := range diffs {
		add(d.Path, strings.Join(d.What, ", "))
	}
	m, err := e.Workspace.Manifest(chk.Layer)
	if err != nil {
		add("", err.Error())
		return problems, nil
	}
	for _, area := range slices.Sorted(maps.Keys(chk.Areas)) {
		want := chk.Areas[area]
		t, ok := m.Area(area)
		if !ok {
			add(area, "the area is missing")
			continue
		}
		if root, meta := t.Roots(); root.String() != want.Root || meta.String() != want.MetaRoot {
			add(area, "the manifest's root is not the recorded one")
		}
	}
	return problems, nil
}
