package engine

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

// heldCell is one cell held under its lock, without unfinished work.
type heldCell struct {
	e      *Engine
	Record store.Cell
	Head   store.Checkpoint
	At     workspace.Cell

	cellLock *store.Lock
	homeLock *store.Lock

	// Abandon reports whether to give up an operation that cannot be finished
	// because its directory is gone.
	Abandon bool

	// resumes reports whether the cell is held to end its pause.
	resumes bool

	// races reports whether a race is under way in the home, or was cut off.
	races bool

	// Budget is the disk space that a run may take; nil is any amount.
	Budget caller.Budget
}

func (s *heldCell) read(tx *store.Tx) (err error) {
	if s.Record, err = tx.CellByID(s.Record.ID); err != nil {
		return err
	}
	s.Head, err = tx.Checkpoint(s.Record.Head)
	return err
}

// Reload reads the cell again: another process may have changed it before this one
// got the lock.
func (s *heldCell) Reload() error {
	err := s.e.Store.View(s.read)
	if err != nil {
		return fmt.Errorf("read cell %s: %w", s.Record.LastName, err)
	}
	s.At, err = s.e.Layout(s.Record)
	return err
}

// UnlockHome allows deletions while a long command runs: the record of the run
// protects what it needs. The key may be replaced meanwhile, too.
func (s *heldCell) UnlockHome() {
	s.e.Evidence.ForgetKey()
	s.homeLock.Unlock()
	s.homeLock = nil
}

func (s *heldCell) RelockHome() (err error) {
	if s.homeLock != nil {
		return nil
	}
	s.homeLock, err = s.e.Store.LockHome(false)
	return err
}

func (s *heldCell) Release() {
	if s.Budget != nil {
		s.Budget.Close()
	}
	// Restore the reserve of disk space as far as there is room. If that fails, the
	// finished operation is still a success.
	if err := s.e.Store.TakeReserve(); err != nil {
		s.e.Logger.Warn("no disk space for the reserve", "error", err)
	}
	s.homeLock.Unlock()
	s.cellLock.Unlock()
}

func (s *heldCell) LiveError(err error) error {
	return fmt.Errorf("rewrite %s: %w", s.Record.Live, err)
}

// CatchUp seals changes in a live directory since the last seal, outside of any
// run, as a separate checkpoint. So they are not lost and not attributed to a run.
func (s *heldCell) CatchUp(ctx context.Context) error {
	if s.Record.Live == "" {
		return nil
	}
	next, err := s.Drift(ctx, s.Head)
	if err != nil || next == nil {
		return err
	}
	err = s.e.Store.Update(func(tx *store.Tx) error {
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

type Drifted struct {
	store.Checkpoint
	changed int
}

// Drift seals a live directory if it differs from a state, and returns nil if it
// does not. Nothing is recorded yet.
func (s *heldCell) Drift(ctx context.Context, at store.Checkpoint) (*Drifted, error) {
	sealed, err := s.e.Workspace.Drift(ctx, s.At, at.Layer, store.NewID("op"))
	if err != nil {
		return nil, driftError(s.Record.Live, err)
	}
	if sealed.Unchanged {
		return nil, nil //nolint:nilnil // as documented
	}
	return &Drifted{s.e.NewCheckpoint(s.Record, at.ID, home.KindDrift, "", sealed), sealed.Changed}, nil
}

func (s *heldCell) RecordDrift(tx *store.Tx, next *Drifted) error {
	if err := tx.PutCheckpoint(next.Checkpoint); err != nil {
		return err
	}
	return s.e.Evidence.Change(tx, s.Record, next.Checkpoint, receipt.OpRefresh, map[string]string{"changed_files": fmt.Sprint(next.changed)})
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
func (s *heldCell) Squash(ctx context.Context) error {
	deep, err := s.e.Workspace.NeedsSquash(s.Head.Layer)
	if err != nil || !deep {
		return err
	}
	sealed, err := s.e.Workspace.Squash(ctx, s.At, s.Head.Layer, store.NewID("op"))
	if err != nil {
		return fmt.Errorf("squash %s: %w", s.Head.ID, err)
	}
	s.Head.Layer, s.Head.OwnBytes = sealed.Layer, sealed.Bytes
	return s.e.Store.Update(func(tx *store.Tx) error {
		if err := tx.PutCheckpoint(s.Head); err != nil {
			return err
		}
		return s.e.Evidence.Change(tx, s.Record, s.Head, receipt.OpSquash, nil)
	})
}

// DropSocket removes the socket of a killed supervisor. The caller holds the cell's
// lock.
func (s *heldCell) DropSocket() error {
	err := s.e.Store.Dir().Remove(home.SocketDir + "/" + s.Record.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Name gives the head a name. A name never moves silently from one state to
// another.
func (s *heldCell) Name(tx *store.Tx, name string) error {
	old, err := tx.FindNamed(s.Record.ID, name)
	if err == nil && old.ID == s.Head.ID {
		return nil
	}
	if err := s.Claim(tx, name); err != nil {
		return err
	}
	return s.e.Evidence.Change(tx, s.Record, s.Head, receipt.OpCheckpoint, map[string]string{"name": name})
}

// Claim takes a name for the head, unless another state has it.
func (s *heldCell) Claim(tx *store.Tx, name string) error {
	old, err := tx.FindNamed(s.Record.ID, name)
	if err == nil {
		return api.Refusef(api.CodeNameTaken, "choose another name", "checkpoint name %s is in use for %s", name, old.ID)
	}
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return tx.Name(s.Record.ID, name, s.Head.ID)
}
