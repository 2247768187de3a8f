package engine

import (
	"context"
	"errors"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
)

// The states in the events of a cell that is paused and resumed.
const (
	cellPaused  = "cell paused"
	cellResumed = "cell resumed"
)

// Pause stops the processes of a live cell until it is resumed. A paused cell stays
// paused.
func (e *Engine) Pause(ctx context.Context, req api.PauseRequest) (*api.PauseResult, error) {
	client, err := e.DialLive(ctx, req.Cell)
	if pausedError(err) {
		return e.pausedAlready(req.Cell)
	}
	if err != nil {
		return nil, err
	}
	return client.Pause(ctx, req.FSOnly)
}

// pause freezes the cell, or keeps it on disk, in which case it ends.
func (l *liveRun) pause(ctx context.Context, fsOnly bool) (ends bool, err error) {
	c, saves := l.cell.(driver.Saver)
	agent := l.isSession()
	switch {
	case fsOnly && agent:
		return false, api.Refusef(api.CodeRuntime, "pause it without --fs-only, or stop it",
			"the processes of cell %s are a session of an agent, which would end", l.r.Record.Name)
	case fsOnly:
		return true, l.suspendFiles(ctx)
	case saves && !agent:
		return true, l.suspend(ctx, c, nothingElse)
	}
	return false, l.freeze(ctx)
}

// isSession reports whether the run is a session of an agent.
func (l *liveRun) isSession() bool {
	l.r.recording.Lock()
	defer l.r.recording.Unlock()
	return l.r.rec.Session != nil
}

// freeze stops the processes and records it, so that other processes see it.
func (l *liveRun) freeze(ctx context.Context) error {
	if err := l.cell.Freeze(ctx); err != nil {
		return freezeError("paused", "`forkcell pause "+l.r.Record.Name+" --fs-only` ends its processes and keeps its files", err)
	}
	failpoint.Hit("live.frozen")
	if err := l.recordPaused(true); err != nil {
		return errors.Join(err, l.cell.Thaw())
	}
	l.r.recordEvent(event.Config(event.Subject{Message: "its processes were stopped"}, cellPaused))
	return nil
}

func (l *liveRun) resume() error {
	if err := l.recordPaused(false); err != nil {
		return err
	}
	if err := l.cell.Thaw(); err != nil {
		return errors.Join(api.Failf(api.CodeThaw, err, "resume the cell"), l.recordPaused(true))
	}
	l.r.recordEvent(event.Config(event.Subject{Message: "its processes go on"}, cellResumed))
	return nil
}

// recordPaused records whether the processes are stopped.
func (l *liveRun) recordPaused(paused bool) error {
	return l.recordLive(func(rec *store.Run) { rec.Paused = paused })
}
