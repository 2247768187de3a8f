package engine

import (
	"context"
	"errors"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/storage/moments"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
)

// This file pauses a live cell on disk. What it needs to be live again is kept first,
// and recorded with its run. From then on the cell is paused, whatever becomes of this
// process: the run is concluded by it, or by the next one that changes the cell.

// suspend keeps the memory of the cell, whose processes stand still from that moment on.
// also runs in the transaction that records the pause.
func (l *liveRun) suspend(ctx context.Context, c driver.Saver, also func(*store.Tx) error) error {
	home, image, err := l.newPause()
	if err != nil {
		return err
	}
	defer home.Unlock()
	still := func() error {
		// The files are sealed when the processes have ended. What cannot be kept must be
		// known while they can still go on.
		captured, err := l.captureWith(ctx, image)
		if err != nil {
			return err
		}
		return captured.Discard()
	}
	_, err = c.Suspend(ctx, image.Processes(), still, func() error {
		failpoint.Hit("pause.saved")
		return l.keepPause(ctx, image, false, also)
	})
	if err != nil {
		return errors.Join(saveError(l.r.Record.Name, err), image.Remove())
	}
	return nil
}

// suspendFiles keeps only how the cell was started: its processes end.
func (l *liveRun) suspendFiles(ctx context.Context) error {
	home, image, err := l.newPause()
	if err != nil {
		return err
	}
	defer home.Unlock()
	if err := l.keepPause(ctx, image, true, nothingElse); err != nil {
		return errors.Join(err, image.Remove())
	}
	return nil
}

// nothingElse is recorded with a pause that a caller asked for.
func nothingElse(*store.Tx) error { return nil }

// newPause makes the image that a cell is paused with. It is removed with the run until
// it is kept. The caller unlocks the home.
func (l *liveRun) newPause() (*store.Lock, moments.Image, error) {
	if err := home.Explain(l.r.e.Store.RefuseFull()); err != nil {
		return nil, moments.Image{}, err
	}
	lock, err := l.r.e.Store.LockHome(false)
	if err != nil {
		return nil, moments.Image{}, err
	}
	image, err := l.r.e.Images().New(l.r.rec.ID)
	if err != nil {
		lock.Unlock()
		return nil, image, home.Explain(err)
	}
	return lock, image, nil
}

// keepPause makes the image durable, and records that the cell is paused with it.
func (l *liveRun) keepPause(ctx context.Context, image moments.Image, fsOnly bool, also func(*store.Tx) error) error {
	e, id := l.r.e, moments.PausedImage(l.r.rec.ID)
	digest, err := l.keepImage(ctx, image, id, l.remaining(), !fsOnly && l.r.gateway != nil)
	if err != nil {
		return err
	}
	size, err := e.Images().Image(id).Size(ctx)
	if err != nil {
		return errors.Join(saveError(l.r.Record.Name, err), e.Images().Image(id).Remove())
	}
	rec := l.r.rec
	rec.Pause = &store.Pause{RunID: rec.ID, At: e.Now().UTC(), Image: digest, FSOnly: fsOnly, Bytes: size, Runtime: rec.Runtime, Memory: rec.Memory, CPUsMilli: rec.CPUsMilli}
	failpoint.Hit("pause.kept")
	err = e.Store.Update(func(tx *store.Tx) error {
		if err := also(tx); err != nil {
			return err
		}
		return tx.PutRun(rec)
	})
	if err != nil {
		return errors.Join(api.Failf(api.CodeFailed, err, "record the pause of cell %s", l.r.Record.Name), e.Images().Image(id).Remove())
	}
	l.r.rec, l.suspended = rec, true
	failpoint.Hit("pause.recorded")
	text := "its processes and their memory are on disk"
	if fsOnly {
		text = "its processes end, its files stay"
	}
	l.r.recordEvent(event.Config(event.Subject{Message: text}, cellPaused))
	return nil
}

// remaining returns the options of the run, with the time that is left of its limit.
func (l *liveRun) remaining() api.RunOptions {
	o := l.options()
	if limit := l.r.spec.Timeout; limit > 0 {
		o.Timeout = max(1, limit-time.Since(l.began))
	}
	o.Wait = 0
	return o
}

// pauseError returns the error of a pause that could not be concluded.
func (l *liveRun) pauseError() error {
	if !l.suspended || l.r.Record.Paused != nil {
		return nil
	}
	return api.Failf(api.CodeSeal, l.r.startError, "pause cell %s", l.r.Record.Name)
}
