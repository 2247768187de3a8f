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

// held is one cell held under its lock, without unfinished work.
type held struct {
	e    *Engine
	cell store.Cell
	head store.Checkpoint
	at   workspace.Cell

	cellLock *store.Lock
	homeLock *store.Lock

	// abandon reports whether to give up an operation that cannot be finished
	// because its directory is gone.
	abandon bool

	// resumes reports whether the cell is held to end its pause.
	resumes bool

	// races reports whether a race is under way in the home, or was cut off.
	races bool

	// budget is the disk space that a run may take; nil is any amount.
	budget caller.Budget
}

func (s *held) read(tx *store.Tx) (err error) {
	if s.cell, err = tx.CellByID(s.cell.ID); err != nil {
		return err
	}
	s.head, err = tx.Checkpoint(s.cell.Head)
	return err
}

// reload reads the cell again: another process may have changed it before this one
// got the lock.
func (s *held) reload() error {
	err := s.e.Store.View(s.read)
	if err != nil {
		return fmt.Errorf("read cell %s: %w", s.cell.LastName, err)
	}
	s.at, err = s.e.Layout(s.cell)
	return err
}

// unlockHome allows deletions while a long command runs: the record of the run
// protects what it needs. The key may be replaced meanwhile, too.
func (s *held) unlockHome() {
	s.e.Evidence.ForgetKey()
	s.homeLock.Unlock()
	s.homeLock = nil
}

func (s *held) relockHome() (err error) {
	if s.homeLock != nil {
		return nil
	}
	s.homeLock, err = s.e.Store.LockHome(false)
	return err
}

func (s *held) release() {
	if s.budget != nil {
		s.budget.Close()
	}
	// Restore the reserve of disk space as far as there is room. If that fails, the
	// finished operation is still a success.
	if err := s.e.Store.TakeReserve(); err != nil {
		s.e.Logger.Warn("no disk space for the reserve", "error", err)
	}
	s.homeLock.Unlock()
	s.cellLock.Unlock()
}

func (s *held) liveError(err error) error {
	return fmt.Errorf("rewrite %s: %w", s.cell.Live, err)
}

// catchUp seals changes in a live directory since the last seal, outside of any
// run, as a separate checkpoint. So they are not lost and not attributed to a run.
func (s *held) catchUp(ctx context.Context) error {
	if s.cell.Live == "" {
		return nil
	}
	next, err := s.drift(ctx, s.head)
	if err != nil || next == nil {
		return err
	}
	err = s.e.Store.Update(func(tx *store.Tx) error {
		s.cell.Head = next.ID
		if err := tx.PutCell(s.cell); err != nil {
			return err
		}
		return s.recordDrift(tx, next)
	})
	if err == nil {
		s.head = next.Checkpoint
	}
	return err
}

type drifted struct {
	store.Checkpoint
	changed int
}

// drift seals a live directory if it differs from a state, and returns nil if it
// does not. Nothing is recorded yet.
func (s *held) drift(ctx context.Context, at store.Checkpoint) (*drifted, error) {
	sealed, err := s.e.Workspace.Drift(ctx, s.at, at.Layer, store.NewID("op"))
	if err != nil {
		return nil, driftError(s.cell.Live, err)
	}
	if sealed.Unchanged {
		return nil, nil //nolint:nilnil // as documented
	}
	return &drifted{s.e.NewCheckpoint(s.cell, at.ID, home.KindDrift, "", sealed), sealed.Changed}, nil
}

func (s *held) recordDrift(tx *store.Tx, next *drifted) error {
	if err := tx.PutCheckpoint(next.Checkpoint); err != nil {
		return err
	}
	return s.e.Evidence.Change(tx, s.cell, next.Checkpoint, receipt.OpRefresh, map[string]string{"changed_files": fmt.Sprint(next.changed)})
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

// squash replaces a state's deep stack of layers by one layer, so that mounts stay
// fast. The checkpoint keeps its identity.
func (s *held) squash(ctx context.Context) error {
	deep, err := s.e.Workspace.NeedsSquash(s.head.Layer)
	if err != nil || !deep {
		return err
	}
	sealed, err := s.e.Workspace.Squash(ctx, s.at, s.head.Layer, store.NewID("op"))
	if err != nil {
		return fmt.Errorf("squash %s: %w", s.head.ID, err)
	}
	s.head.Layer, s.head.OwnBytes = sealed.Layer, sealed.Bytes
	return s.e.Store.Update(func(tx *store.Tx) error {
		if err := tx.PutCheckpoint(s.head); err != nil {
			return err
		}
		return s.e.Evidence.Change(tx, s.cell, s.head, receipt.OpSquash, nil)
	})
}

// dropSocket removes the socket of a killed supervisor. The caller holds the cell's
// lock.
func (s *held) dropSocket() error {
	err := s.e.Store.Dir().Remove(home.SocketDir + "/" + s.cell.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// name gives the head a name. A name never moves silently from one state to
// another.
func (s *held) name(tx *store.Tx, name string) error {
	old, err := tx.FindNamed(s.cell.ID, name)
	if err == nil && old.ID == s.head.ID {
		return nil
	}
	if err := s.claim(tx, name); err != nil {
		return err
	}
	return s.e.Evidence.Change(tx, s.cell, s.head, receipt.OpCheckpoint, map[string]string{"name": name})
}

// claim takes a name for the head, unless another state has it.
func (s *held) claim(tx *store.Tx, name string) error {
	old, err := tx.FindNamed(s.cell.ID, name)
	if err == nil {
		return api.Refusef(api.CodeNameTaken, "choose another name", "checkpoint name %s is in use for %s", name, old.ID)
	}
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return tx.Name(s.cell.ID, name, s.head.ID)
}
