package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/forkcell/forkcell/receipt"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/evidence/statements"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
)

// maxForks is the largest number of cells that one fork command makes.
const maxForks = 10_000

// Fork makes new cells on an existing state. Nothing is copied, and the forked cell
// may be busy: the fork starts from its head. A live cell is captured first, and
// the captured state is forked.
func (e *Engine) Fork(ctx context.Context, req api.ForkRequest) (*api.ForkResult, error) {
	names, err := forkNames(req)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := e.refuseTaken(req.Cell, names); err != nil {
		return nil, err
	}
	f, err := e.stateToFork(ctx, req, e.Caller.Expect)
	if err != nil {
		return nil, err
	}
	defer f.lock.Unlock()
	if req.NewHome {
		if err := e.emptyHome(ctx, &f); err != nil {
			return nil, err
		}
	}
	if err := e.makeForks(ctx, f, e.forkCells(f.from, f.at, names), func(*store.Tx) error { return nil }); err != nil {
		return nil, err
	}
	return &api.ForkResult{
		From: f.from.Name, CheckpointID: f.at.ID, Root: f.at.Root(), Cells: names, EngineUS: since(begin), PauseUS: f.pauseUS, PendingRuns: f.pending,
	}, nil
}

// forking is a state that is about to be forked.
type forking struct {
	from     store.Cell
	at       store.Checkpoint
	settings api.Settings
	pauseUS  int64       // of a live cell
	lock     *store.Lock // of the home; the caller releases it
	race     string      // id of the race that forks, if any
	expect   *int64      // the revision that the cell must have when it is forked; nil is any
	captured bool        // the state was captured for this, which changed the revision
	next     *nextState  // what the forks move to at once; nil to stay
	pending  []string    // undecided work that the state contains
}

// nextState is a state that was made of the forked one.
type nextState struct {
	kind   string
	sealed workspace.Sealed
}

// stateToFork finds the state that a request means, of a cell that has a revision; nil is
// any. It captures that of a live cell.
func (e *Engine) stateToFork(ctx context.Context, req api.ForkRequest, expect *int64) (f forking, err error) {
	f.settings, f.expect = req.Settings, expect
	if f.from, err = e.FindCell(req.Cell); err != nil {
		return f, err
	}
	if err := e.MayMakeLike(f.from); err != nil {
		return f, err
	}
	if _, err := newSettings(nil, req.Settings); err != nil {
		return f, err
	}
	accepted := req.Accepted && (f.from.Live == "" || f.from.Live != f.from.Source)
	if _, live := e.Supervisor(f.from); live && req.Checkpoint == "" && !accepted {
		now, err := e.checkpointLive(ctx, req.Cell, "")
		if err != nil {
			return f, err
		}
		if now != nil {
			req.Checkpoint, f.pauseUS = now.CheckpointID, now.PauseUS
			f.captured = true
		}
	}
	if f.lock, err = e.Store.LockHome(false); err != nil {
		return f, err
	}
	err = e.Store.View(func(tx *store.Tx) error {
		if f.from, err = tx.CellByID(f.from.ID); err != nil {
			return err
		}
		var missing error // perhaps because of the change
		f.at, missing = e.FindCheckpoint(tx, f.from, req.Checkpoint)
		if missing == nil {
			missing = e.findPending(tx, &f, accepted)
		}
		return cmp.Or(f.checkRevision(tx), missing)
	})
	if err != nil {
		f.lock.Unlock()
	}
	return f, err
}

// findPending finds the undecided work of the state, or goes back to before it.
func (e *Engine) findPending(tx *store.Tx, f *forking, accepted bool) error {
	before, work, err := e.UndecidedWork(tx, f.from, f.at.ID)
	if err != nil {
		return err
	}
	if accepted {
		f.at = before
		return nil
	}
	for _, w := range work {
		f.pending = append(f.pending, w.ID)
	}
	return nil
}

// checkRevision refuses a cell that does not have the revision that the caller expects. A
// capture that was made for the fork does not count.
func (f forking) checkRevision(tx *store.Tx) error {
	var own int
	if f.captured && f.at.ID != f.from.Head { // files that are as before get no new state
		own = 1
	}
	return home.UnchangedBut(tx, f.from, f.expect, own)
}

// makeForks makes the cells. also runs in the transaction that records them.
func (e *Engine) makeForks(ctx context.Context, f forking, cells []store.Cell, also func(*store.Tx) error) error {
	if err := e.forkLive(ctx, cells, f.at); err != nil {
		return err
	}
	err := e.Store.Update(func(tx *store.Tx) error {
		if err := e.commitForks(tx, f, cells); err != nil {
			return err
		}
		return also(tx)
	})
	if err != nil {
		return errors.Join(forkError(err), e.dropLive(cells))
	}
	return nil
}

func forkNames(req api.ForkRequest) ([]string, error) {
	if req.N < 0 || req.N > maxForks {
		return nil, api.Usagef("", "-n takes 1 to %d", maxForks)
	}
	if req.Name == "" {
		return nil, api.Usagef(`send {"name":"NAME"}`, "a fork needs a name")
	}
	names := []string{req.Name}
	if req.N > 0 {
		names = names[:0]
		for i := 1; i <= req.N; i++ {
			names = append(names, fmt.Sprintf("%s-%d", req.Name, i))
		}
	}
	for _, n := range names {
		if err := home.CheckName("cell", n); err != nil {
			return nil, err
		}
	}
	return names, nil
}

func (e *Engine) forkCells(from store.Cell, at store.Checkpoint, names []string) []store.Cell {
	cells := make([]store.Cell, len(names))
	for i, name := range names {
		c := from
		c.ID, c.Name, c.LastName, c.Head = store.NewID("cell"), name, name, at.ID
		c.ForkedCell, c.ForkedCheckpoint, c.CreatedAt = from.ID, at.ID, e.Now().UTC()
		c.Prefix = cmp.Or(e.Caller.Prefix, from.Prefix)
		c.Inherited, c.Paused, c.PolicyBytes = maps.Clone(from.Inherited), nil, 0
		if c.Live != "" {
			c.Live = e.Workspace.LivePath(c.ID)
		}
		cells[i] = c
	}
	return cells
}

// forkLive makes a new directory for each cell whose backend needs one.
func (e *Engine) forkLive(ctx context.Context, cells []store.Cell, at store.Checkpoint) error {
	for _, c := range cells {
		if c.Live == "" {
			return nil
		}
		w, err := e.Layout(c)
		if err != nil {
			return err
		}
		if err := e.Workspace.ForkLive(ctx, w, at.Layer); err != nil {
			return fmt.Errorf("make the working directory of %s: %w", c.Name, err)
		}
	}
	return nil
}

func (e *Engine) dropLive(cells []store.Cell) error {
	for _, c := range cells {
		if c.Live == "" {
			return nil
		}
		if err := e.Store.Dir().RemoveAll("live/" + c.ID); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) commitForks(tx *store.Tx, f forking, cells []store.Cell) error {
	if err := f.checkRevision(tx); err != nil {
		return err
	}
	// gc may have freed the state since it was looked up.
	at, err := tx.Checkpoint(f.at.ID)
	if err != nil {
		return err
	}
	if err := home.CheckUsable(at); err != nil {
		return err
	}
	// Labels are inherited, time limits are not: each fork has its own life. The fork of a
	// session is none.
	old, err := tx.Settings(f.from.ID)
	if err != nil {
		return err
	}
	delete(old.Labels, api.LabelAgent)
	settings, err := newSettings(old.Labels, f.settings)
	if err != nil {
		return err
	}
	for _, c := range cells {
		if err := tx.PutCell(c); err != nil {
			return err
		}
		if err := tx.PutSettings(c.ID, settings); err != nil {
			return err
		}
		if err := e.Evidence.Change(tx, c, at, receipt.OpFork, raceDetail(f.race)); err != nil {
			return err
		}
		if f.next != nil {
			if err := e.moveFork(tx, f, c); err != nil {
				return err
			}
		}
	}
	if f.race != "" {
		return nil // judging leaves no trace in the attempt
	}
	return e.decideFork(tx, f.from, at)
}

// moveFork moves a new fork to the state that was made of the forked one.
func (e *Engine) moveFork(tx *store.Tx, f forking, c store.Cell) error {
	next := e.NewCheckpoint(c, f.at.ID, f.next.kind, "", f.next.sealed)
	if err := tx.PutCheckpoint(next); err != nil {
		return err
	}
	c.Head = next.ID
	if err := tx.PutCell(c); err != nil {
		return err
	}
	return e.Evidence.Change(tx, c, next, receipt.OpCheckpoint, nil)
}

// decideFork records that a run's result was forked, if a run made the state.
func (e *Engine) decideFork(tx *store.Tx, from store.Cell, at store.Checkpoint) error {
	if at.RunID == "" || at.Kind == statements.PartialState || at.CellID != from.ID {
		return nil
	}
	r, err := tx.Run(at.RunID)
	if err != nil {
		return err
	}
	head, err := tx.Checkpoint(from.Head)
	if err != nil {
		return err
	}
	s := e.notHeld(from, head)
	_, err = s.decideRun(tx, r, forked, head, decision{})
	return err
}

// refuseTaken refuses names that cells have, before a live cell is captured for them. A
// cell without the expected revision is refused first, when it is forked.
func (e *Engine) refuseTaken(cell string, names []string) error {
	if e.Caller.Expect != nil {
		return nil
	}
	if _, err := e.FindCell(cell); err != nil {
		return err
	}
	taken, err := e.FirstTaken(names)
	if err == nil && taken != "" {
		err = api.Refusef(api.CodeNameTaken, "choose another --name", "cell %s exists already", taken)
	}
	return err
}

// forkError names the error of a name that another process has just taken.
func forkError(err error) error {
	if errors.Is(err, store.ErrTaken) {
		return &api.Error{Kind: api.Refused, Code: api.CodeNameTaken, Message: err.Error(), Hint: "choose another --name", Err: err}
	}
	return err
}
