// Package held is a cell that is held: its lock, its head, and what every change of a
// cell is made of.
//
// It knows the home only, and none of what is done with a cell: who holds one gives it
// the list of those who finish what a process that died had begun.
package held

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/text/quote"
	"github.com/forkcell/forkcell/receipt"
)

// Cell is one cell held under its lock, without unfinished work.
type Cell struct {
	Home   *home.Home
	Record store.Cell       // of the database
	Head   store.Checkpoint // its state
	At     workspace.Cell   // as the workspace describes it

	// Abandon reports whether to give up an operation that cannot be finished
	// because its directory is gone.
	Abandon bool
	// Budget is the disk space that a run may take; nil is any amount.
	Budget caller.Budget

	resumes  bool // the cell is held to end its pause
	cellLock *store.Lock
	homeLock *store.Lock
}

func (s *Cell) read(tx *store.Tx) (err error) {
	if s.Record, err = tx.CellByID(s.Record.ID); err != nil {
		return err
	}
	s.Head, err = tx.Checkpoint(s.Record.Head)
	return err
}

// Reload reads the cell again: another process may have changed it before this one
// got the lock.
func (s *Cell) Reload() error {
	err := s.Home.Store.View(s.read)
	if err != nil {
		return fmt.Errorf("read cell %s: %w", s.Record.LastName, err)
	}
	s.At, err = s.Home.Layout(s.Record)
	return err
}

// UnlockHome allows deletions while a long command runs: the record of the run
// protects what it needs. The key may be replaced meanwhile, too.
func (s *Cell) UnlockHome() {
	s.Home.Evidence.ForgetKey()
	s.homeLock.Unlock()
	s.homeLock = nil
}

// RelockHome undoes UnlockHome.
func (s *Cell) RelockHome() (err error) {
	if s.homeLock != nil {
		return nil
	}
	s.homeLock, err = s.Home.Store.LockHome(false)
	return err
}

// Release ends the hold of the cell.
func (s *Cell) Release() {
	if s.Budget != nil {
		s.Budget.Close()
	}
	// Restore the reserve of disk space as far as there is room. If that fails, the
	// finished operation is still a success.
	if err := s.Home.Store.TakeReserve(); err != nil {
		s.Home.Logger.Warn("no disk space for the reserve", "error", err)
	}
	s.homeLock.Unlock()
	s.cellLock.Unlock()
}

// Ends marks the lock of a live cell: from now on it is being stopped.
func (s *Cell) Ends() { s.cellLock.End() }

// LiveError is the error of a live directory that could not be rewritten.
func (s *Cell) LiveError(err error) error {
	return fmt.Errorf("rewrite %s: %w", s.Record.Live, err)
}

// CatchUp seals changes in a live directory since the last seal, outside of any
// run, as a separate checkpoint. So they are not lost and not attributed to a run.
func (s *Cell) CatchUp(ctx context.Context) error {
	if s.Record.Live == "" {
		return nil
	}
	next, err := s.Drift(ctx, s.Head)
	if err != nil || next == nil {
		return err
	}
	err = s.Home.Store.Update(func(tx *store.Tx) error {
		s.Record.Head = next.ID
		if err := tx.PutCell(s.Record); err != nil {
			return err
		}
		return s.RecordDrift(tx, next)
	})
	if err == nil {
		s.Head = next.Checkpoint
	}
	return err
}

// Drifted is the sealed state of a live directory that others have changed.
type Drifted struct {
	store.Checkpoint
	changed int
}

// Drift seals a live directory if it differs from a state, and returns nil if it
// does not. Nothing is recorded yet.
func (s *Cell) Drift(ctx context.Context, at store.Checkpoint) (*Drifted, error) {
	sealed, err := s.Home.Workspace.Drift(ctx, s.At, at.Layer, store.NewID("op"))
	if err != nil {
		return nil, driftError(s.Record.Live, err)
	}
	if sealed.Unchanged {
		return nil, nil //nolint:nilnil // as documented
	}
	return &Drifted{s.Home.NewCheckpoint(s.Record, at.ID, home.KindDrift, "", sealed), sealed.Changed}, nil
}

// RecordDrift records what Drift has sealed.
func (s *Cell) RecordDrift(tx *store.Tx, next *Drifted) error {
	if err := tx.PutCheckpoint(next.Checkpoint); err != nil {
		return err
	}
	return s.Home.Evidence.Change(tx, s.Record, next.Checkpoint, receipt.OpRefresh, map[string]string{"changed_files": fmt.Sprint(next.changed)})
}

func driftError(live string, err error) error {
	if bad, ok := errors.AsType[*workspace.UnsealableError](err); ok {
		return &api.Error{
			Kind: api.Refused, Code: api.CodeUnsealable, Message: fmt.Sprintf("%s has an entry that cannot be kept: %v", quote.Path(live), bad),
			Hint: "remove it there first", Details: bad.Problems, Err: err,
		}
	}
	return api.Failf(api.CodeLook, err, "look at %s", quote.Path(live))
}

// Squash replaces a state's deep stack of layers by one layer, so that mounts stay
// fast. The checkpoint keeps its identity.
func (s *Cell) Squash(ctx context.Context) error {
	deep, err := s.Home.Workspace.NeedsSquash(s.Head.Layer)
	if err != nil || !deep {
		return err
	}
	sealed, err := s.Home.Workspace.Squash(ctx, s.At, s.Head.Layer, store.NewID("op"))
	if err != nil {
		return fmt.Errorf("squash %s: %w", s.Head.ID, err)
	}
	s.Head.Layer, s.Head.OwnBytes = sealed.Layer, sealed.Bytes
	return s.Home.Store.Update(func(tx *store.Tx) error {
		if err := tx.PutCheckpoint(s.Head); err != nil {
			return err
		}
		return s.Home.Evidence.Change(tx, s.Record, s.Head, receipt.OpSquash, nil)
	})
}

// DropSocket removes the socket of a killed supervisor. The caller holds the cell's
// lock.
func (s *Cell) DropSocket() error {
	err := s.Home.Store.Dir().Remove(home.SocketDir + "/" + s.Record.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Name gives the head a name. A name never moves silently from one state to
// another.
func (s *Cell) Name(tx *store.Tx, name string) error {
	old, err := tx.FindNamed(s.Record.ID, name)
	if err == nil && old.ID == s.Head.ID {
		return nil
	}
	if err := s.Claim(tx, name); err != nil {
		return err
	}
	return s.Home.Evidence.Change(tx, s.Record, s.Head, receipt.OpCheckpoint, map[string]string{"name": name})
}

// Claim takes a name for the head, unless another state has it.
func (s *Cell) Claim(tx *store.Tx, name string) error {
	old, err := tx.FindNamed(s.Record.ID, name)
	if err == nil {
		return api.Refusef(api.CodeNameTaken, "choose another name", "checkpoint name %s is in use for %s", name, old.ID)
	}
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return tx.Name(s.Record.ID, name, s.Head.ID)
}

// State reads a checkpoint.
func (s *Cell) State(id string) (c store.Checkpoint, err error) {
	err = s.Home.Store.View(func(tx *store.Tx) error {
		c, err = tx.Checkpoint(id)
		return err
	})
	return c, err
}

// Derive seals a state made from another by edits. If the edits change nothing it
// returns the other state. The caller records the new state together with the
// statement about it.
func (s *Cell) Derive(ctx context.Context, from store.Checkpoint, kind string, edits []workspace.Edit) (store.Checkpoint, error) {
	sealed, err := s.Home.Workspace.Compose(ctx, s.At, from.Layer, store.NewID("op"), edits)
	if err != nil || sealed.Unchanged {
		return from, err
	}
	return s.Home.NewCheckpoint(s.Record, from.ID, kind, "", sealed), nil
}

// DropIntent ends a change that left nothing to finish.
func (s *Cell) DropIntent(id string) error {
	return s.Home.Store.Update(func(tx *store.Tx) error { return tx.DropIntent(id) })
}
