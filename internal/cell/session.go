package cell

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/forkcell/forkcell/receipt"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/internal/tree"
	"github.com/forkcell/forkcell/internal/workspace"
)

// session is one cell, held under its lock with nothing left half done.
type session struct {
	e    *Engine
	cell store.Cell
	head store.Checkpoint
	at   workspace.Cell

	cellLock *store.Lock
	homeLock *store.Lock

	// abandon says that what cannot be finished, because its directory is gone,
	// is given up instead.
	abandon bool
}

// hold takes a cell's lock and first finishes, or undoes, what a process that
// died there had begun.
func (e *Engine) hold(ctx context.Context, name, what string, wait time.Duration) (*session, error) {
	return e.holdFor(ctx, name, what, wait, false)
}

func (e *Engine) holdFor(ctx context.Context, name, what string, wait time.Duration, abandon bool) (*session, error) {
	c, err := e.findCell(name)
	if err != nil {
		return nil, err
	}
	if err := e.makeRoom(what); err != nil {
		return nil, err
	}
	lock, err := e.store.LockCell(ctx, c.ID, c.Name, what, wait)
	if err != nil {
		return nil, busyError(name, what, err)
	}
	s := &session{e: e, cell: c, cellLock: lock, abandon: abandon}
	if err := s.open(ctx, name); err != nil {
		s.release()
		return nil, err
	}
	return s, nil
}

// makeRoom sees to the space on the disk. A new command needs more of it than the
// reserve is for; everything else may use the reserve.
func (e *Engine) makeRoom(what string) error {
	if what == "run" || what == heldByStart {
		return Explain(e.store.RefuseFull())
	}
	return e.store.MakeRoom()
}

// codeLive is the code of errors about a cell that is live.
const codeLive = api.CodeLive

// busyError names the process that holds a cell, and what the caller, who wanted
// to do something else with it, can do.
func busyError(name, wanted string, err error) error {
	if busy, ok := errors.AsType[*store.BusyError](err); ok {
		if h := busy.Holder; h.What == heldByStart {
			return &api.Error{
				Kind: api.Busy, Code: codeLive, Err: err,
				Message: fmt.Sprintf("cell %s is live: process %d has kept it so since %s", name, h.PID, h.Since.UTC().Format(time.RFC3339)),
				Hint:    fmt.Sprintf("`forkcell exec %s -- CMD` runs a command in it, `forkcell stop %s` ends it", name, name),
			}
		}
		hint := "`forkcell status " + name + "` shows when it has ended"
		if wanted == "run" || wanted == heldByStart {
			hint = "give --wait to wait for it"
		}
		return &api.Error{Kind: api.Busy, Code: api.CodeBusy, Message: fmt.Sprintf("cell %s is busy: %v", name, busy), Hint: hint, Err: err}
	}
	return err
}

func (s *session) open(ctx context.Context, name string) error {
	var err error
	if s.homeLock, err = s.e.store.LockHome(false); err != nil {
		return err
	}
	unfinished, err := s.look()
	if err != nil {
		return err
	}
	if s.cell.Name != name {
		return api.Missing("cell", name, "it was renamed or removed meanwhile")
	}
	if !unfinished {
		return nil
	}
	return s.settle(ctx)
}

// look reads the cell again, and whether somebody died while at work on it.
func (s *session) look() (unfinished bool, err error) {
	err = s.e.store.View(func(tx *store.Tx) error {
		if err := s.read(tx); err != nil {
			return err
		}
		if unfinished, err = tx.Unfinished(s.cell.ID); err != nil {
			return err
		}
		return s.e.log.KeyUsable(tx)
	})
	if err == nil {
		s.at, err = s.e.layout(s.cell)
	}
	return unfinished, err
}

func (s *session) read(tx *store.Tx) (err error) {
	if s.cell, err = tx.CellByID(s.cell.ID); err != nil {
		return err
	}
	s.head, err = tx.Checkpoint(s.cell.Head)
	return err
}

// reload reads the cell again: another process may have changed it before the
// lock was ours.
func (s *session) reload() error {
	err := s.e.store.View(s.read)
	if err != nil {
		return fmt.Errorf("read cell %s: %w", s.cell.LastName, err)
	}
	s.at, err = s.e.layout(s.cell)
	return err
}

// unlockHome lets deletions happen while a long command runs: what the run needs
// is protected by its record. The key may be replaced meanwhile, too.
func (s *session) unlockHome() {
	s.e.log.ForgetKey()
	s.homeLock.Unlock()
	s.homeLock = nil
}

func (s *session) relockHome() (err error) {
	if s.homeLock != nil {
		return nil
	}
	s.homeLock, err = s.e.store.LockHome(false)
	return err
}

func (s *session) release() {
	// What was given back to finish this is taken again, as far as there is room.
	// A failure of that is no failure of what was done.
	_ = s.e.store.TakeReserve()
	s.homeLock.Unlock()
	s.cellLock.Unlock()
}

// moveHead makes to the cell's state and commits, in this order: intent, live
// directory (for backends that have one), database. commit runs in the same
// transaction as the move.
func (s *session) moveHead(ctx context.Context, to store.Checkpoint, commit func(*store.Tx) error) error {
	from := s.head
	live := s.cell.Live != "" && from.Layer != to.Layer
	op, sw := store.NewID("op"), switchIntent{From: from.Layer, To: to.Layer}
	// Of what is unfinished on this cell only the switch is ours to settle: the
	// run that is being concluded is unfinished, too.
	undo := func(err error) error {
		return errors.Join(err, s.resumeSwitch(context.WithoutCancel(ctx), op, sw))
	}
	if live {
		if err := s.e.ws.CheckSwitch(s.at, from.Layer, to.Layer); err != nil {
			return longPath(s.cell, s.liveError(err))
		}
		err := s.e.store.Update(func(tx *store.Tx) error { return tx.PutIntent(op, s.cell.ID, intentSwitch, sw) })
		if err != nil {
			return err
		}
		if err := s.e.ws.Switch(ctx, s.at, from.Layer, to.Layer, op); err != nil {
			return undo(s.liveError(err))
		}
	}
	err := s.e.store.Update(func(tx *store.Tx) error {
		if live {
			if err := tx.DropIntent(op); err != nil {
				return err
			}
		}
		if err := commit(tx); err != nil {
			return err
		}
		s.cell.Head = to.ID
		return tx.PutCell(s.cell)
	})
	if err != nil {
		s.cell.Head = from.ID
		if live {
			err = undo(err)
		}
		return err
	}
	s.head = to
	if live {
		return s.e.ws.ForgetSwitch(op)
	}
	return nil
}

// longPath words the refusal of paths that are too long to be listed.
func longPath(c store.Cell, err error) error {
	long, ok := errors.AsType[*tree.LongPathError](err)
	if !ok {
		return err
	}
	hint := fmt.Sprintf("`forkcell run %s -- rm -r %s` removes it in the cell", c.Name, quote.Arg("./"+long.Top()))
	if c.Live != "" {
		hint = fmt.Sprintf("`rm -r %s` removes it", quote.Arg(c.Live+"/"+long.Top()))
	}
	return &api.Error{Kind: api.Refused, Code: api.CodeLongPath, Message: long.Error(), Hint: hint, Err: err}
}

func (s *session) liveError(err error) error {
	return fmt.Errorf("rewrite %s: %w", s.cell.Live, err)
}

// catchUp seals what changed in a live directory since the last seal, outside
// any run, as a checkpoint of its own: it is neither lost nor charged to a run.
func (s *session) catchUp(ctx context.Context) error {
	if s.cell.Live == "" {
		return nil
	}
	next, err := s.drift(ctx, s.head)
	if err != nil || next == nil {
		return err
	}
	err = s.e.store.Update(func(tx *store.Tx) error {
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

// kindDrift is a state that a live directory was found in.
const kindDrift = "drift"

type drifted struct {
	store.Checkpoint
	changed int
}

// drift seals a live directory if it is not as a state has it; nil if it is.
// Nothing is recorded yet.
func (s *session) drift(ctx context.Context, at store.Checkpoint) (*drifted, error) {
	sealed, err := s.e.ws.Drift(ctx, s.at, at.Layer, store.NewID("op"))
	if err != nil {
		return nil, driftError(s.cell.Live, err)
	}
	if sealed.Unchanged {
		return nil, nil //nolint:nilnil // as documented
	}
	return &drifted{s.e.newCheckpoint(s.cell, at.ID, kindDrift, "", sealed), sealed.Changed}, nil
}

func (s *session) recordDrift(tx *store.Tx, next *drifted) error {
	if err := tx.PutCheckpoint(next.Checkpoint); err != nil {
		return err
	}
	return s.e.log.Change(tx, s.cell, next.Checkpoint, receipt.OpRefresh, map[string]string{"changed_files": fmt.Sprint(next.changed)})
}

func driftError(live string, err error) error {
	if bad, ok := errors.AsType[*workspace.UnsealableError](err); ok {
		return &api.Error{
			Kind: api.Refused, Code: api.CodeUnsealable, Message: fmt.Sprintf("%s holds what cannot be kept: %v", quote.Path(live), bad),
			Hint: "remove it there first", Details: bad.Problems, Err: err,
		}
	}
	return api.Failf(api.CodeLook, err, "look at %s", quote.Path(live))
}

// squash replaces a state's deep stack by one layer, so that mounts stay quick.
// The checkpoint keeps its identity.
func (s *session) squash(ctx context.Context) error {
	deep, err := s.e.ws.NeedsSquash(s.head.Layer)
	if err != nil || !deep {
		return err
	}
	sealed, err := s.e.ws.Squash(ctx, s.at, s.head.Layer, store.NewID("op"))
	if err != nil {
		return fmt.Errorf("squash %s: %w", s.head.ID, err)
	}
	s.head.Layer, s.head.OwnBytes = sealed.Layer, sealed.Bytes
	return s.e.store.Update(func(tx *store.Tx) error {
		if err := tx.PutCheckpoint(s.head); err != nil {
			return err
		}
		return s.e.log.Change(tx, s.cell, s.head, receipt.OpSquash, nil)
	})
}
