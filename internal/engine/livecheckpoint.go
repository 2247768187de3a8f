package engine

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/forkcell/forkcell/receipt"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/evidence/statements"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
)

// checkpointLive asks the supervisor of a live cell for a checkpoint. It returns
// nil if the cell is not live.
func (e *Engine) checkpointLive(ctx context.Context, cell, name string) (*api.CheckpointResult, error) {
	c, err := e.FindCell(cell)
	if err != nil {
		return nil, err
	}
	if _, ok := e.Supervisor(c); !ok {
		return nil, nil //nolint:nilnil // as the comment says
	}
	client, err := e.DialLive(ctx, cell)
	if err != nil {
		return nil, err
	}
	return client.Checkpoint(ctx, name)
}

// CheckpointMemory captures the files and the memory of a live cell, and keeps both.
func (e *Engine) CheckpointMemory(ctx context.Context, cell, name string) (*api.CheckpointResult, error) {
	client, err := e.DialLive(ctx, cell)
	if err != nil {
		return nil, err
	}
	return client.Save(ctx, name)
}

// checkpoint seals the files of the cell at one moment. Its processes are frozen
// while the files are copied, and continue while the copy is hashed and made
// durable.
func (l *liveRun) checkpoint(ctx context.Context, name string) (*api.CheckpointResult, error) {
	if name != "" {
		if err := home.CheckName("checkpoint", name); err != nil {
			return nil, err
		}
	}
	home, err := l.r.e.Store.LockHome(false)
	if err != nil {
		return nil, err
	}
	defer home.Unlock()
	captured, pause, err := l.capture(ctx)
	if err != nil {
		return nil, err
	}
	res, err := l.keepCapture(ctx, captured, name, nil)
	if err != nil {
		return nil, err
	}
	res.PauseUS = pause.Microseconds()
	return res, nil
}

// keepCapture makes a capture a state of the cell, with memory if keep is set: keep
// keeps it for a checkpoint, and returns its digest. The caller holds the home's lock.
func (l *liveRun) keepCapture(ctx context.Context, captured *workspace.Capture, name string, keep func(checkpoint string) (string, error)) (*api.CheckpointResult, error) {
	e := l.r.e
	failpoint.Hit("live.captured")
	sealed, err := captured.Seal(ctx)
	if err != nil {
		return nil, captureError(err)
	}
	chk := l.r.before
	if !sealed.Unchanged || keep != nil {
		chk = e.NewCheckpoint(l.r.Record, l.r.before.ID, home.KindLive, "", sealed)
	}
	if keep != nil {
		if chk.Memory, err = keep(chk.ID); err != nil {
			return nil, err
		}
		if chk.MemoryBytes, err = e.Images().Image(chk.ID).Size(ctx); err != nil {
			return nil, err
		}
	}
	e.Evidence.ForgetKey()
	err = e.Store.Update(func(tx *store.Tx) error { return l.record(tx, chk, name) })
	if err != nil {
		return nil, err
	}
	return &api.CheckpointResult{
		Cell: l.r.Record.Name, CheckpointID: chk.ID, Root: chk.Root(), MetaRoot: chk.MetaRoot(), Name: name,
		Live: true, Memory: chk.Memory,
	}, nil
}

// capture copies the cell's files while the cell is frozen, and returns how long
// that took. A paused cell stays paused.
func (l *liveRun) capture(ctx context.Context) (*workspace.Capture, time.Duration, error) {
	begin := time.Now()
	thaw := l.cell.Thaw
	if l.r.rec.Paused {
		thaw = func() error { return nil }
	} else if err := l.cell.Freeze(ctx); err != nil {
		return nil, 0, freezeError("captured", "stop the cell: stopping it makes a checkpoint", err)
	}
	captured, err := l.r.work.Capture(ctx, store.NewID("op"))
	thawed := thaw()
	pause := time.Since(begin)
	if err != nil {
		return nil, pause, errors.Join(captureError(err), thawed)
	}
	if thawed != nil {
		return nil, pause, errors.Join(api.Failf(api.CodeThaw, thawed, "resume the cell"), captured.Discard())
	}
	return captured, pause, nil
}

// freezeError returns the error of a cell that could not be frozen. hint says what can be
// done instead.
func freezeError(done, hint string, err error) error {
	if no, ok := errors.AsType[*driver.UnenforceableError](err); ok {
		if no.Remedy != "" {
			hint = no.Remedy + "; or " + hint
		}
		return &api.Error{Kind: api.Refused, Code: api.CodeFreezer, Message: "a live cell cannot be " + done + " here: " + no.Reason, Hint: hint, Err: err}
	}
	return api.Failf(api.CodeFreeze, err, "freeze the cell")
}

func captureError(err error) error {
	if bad, ok := errors.AsType[*workspace.UnsealableError](err); ok {
		return &api.Error{
			Kind: api.Refused, Code: api.CodeUnsealable, Message: "the cell has files that no checkpoint can keep",
			Hint: "remove it in the cell first", Details: bad.Problems, Err: err,
		}
	}
	return api.Failf(api.CodeCapture, err, "capture the cell")
}

// record records the state. The head does not move: the result of the run is
// decided when the cell is stopped.
func (l *liveRun) record(tx *store.Tx, chk store.Checkpoint, name string) error {
	s := l.r.e.notHeld(l.r.Record, chk)
	if chk.ID == l.r.before.ID { // nothing has changed, and it is recorded
		if name == "" {
			return nil
		}
		return s.Name(tx, name)
	}
	if err := tx.PutCheckpoint(chk); err != nil {
		return err
	}
	details := map[string]string{statements.DetailLive: l.r.rec.ID}
	if chk.Memory != "" {
		details[statements.DetailMemory], details[statements.DetailMemoryBytes] = chk.Memory, strconv.FormatInt(chk.MemoryBytes, 10)
	}
	if name != "" {
		if err := s.Claim(tx, name); err != nil {
			return err
		}
		details["name"] = name
	}
	return l.r.e.Evidence.Change(tx, l.r.Record, chk, receipt.OpCheckpoint, details)
}
