package engine

import (
	"context"
	"errors"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/held"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/receipt"
)

// holdPaused holds a cell to make it live again.
func (e *Engine) holdPaused(ctx context.Context, name string) (*heldCell, error) {
	return e.holdBy(ctx, held.Request{Name: name, For: home.HeldByStart, Resumes: true})
}

// pausedAlready describes a cell that is paused on disk.
func (e *Engine) pausedAlready(name string) (*api.PauseResult, error) {
	c, err := e.FindCell(name)
	if err != nil {
		return nil, err
	}
	if c.Paused == nil {
		return nil, home.PausedCell(c.Name) // it is being paused or resumed
	}
	return &api.PauseResult{Cell: c.Name, RunID: c.Paused.RunID, State: api.StatePaused, OnDisk: true, FSOnly: c.Paused.FSOnly}, nil
}

// stopPaused ends a cell that is paused on disk. Its files were sealed by the pause.
func (e *Engine) stopPaused(ctx context.Context, name string) (*api.RunResult, error) {
	s, err := e.hold(ctx, name, home.HeldByStop, 0)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	p := s.Record.Paused
	if p == nil {
		return nil, notStarted(s.Record, "")
	}
	if err := e.Store.Update(func(tx *store.Tx) error { return s.endPause(tx, receipt.OpStop) }); err != nil {
		return nil, err
	}
	e.dropPause(p)
	return e.pausedRun(ctx, p)
}

// pausedRun returns the result of the run that ended with a pause.
func (e *Engine) pausedRun(ctx context.Context, p *store.Pause) (*api.RunResult, error) {
	var r store.Run
	err := e.Store.View(func(tx *store.Tx) (err error) {
		r, err = tx.Run(p.RunID)
		return err
	})
	if err != nil {
		return nil, err
	}
	res, err := e.ResultOf(ctx, r)
	if err == nil {
		res.Notes = append(res.Notes, "the cell was paused: its run had ended with the pause")
	}
	return res, err
}

// Stop ends a live cell and returns the result of its run.
func (e *Engine) Stop(ctx context.Context, req api.StopRequest) (*api.RunResult, error) {
	client, err := e.DialLive(ctx, req.Cell)
	if pausedError(err) {
		return e.stopPaused(ctx, req.Cell)
	}
	if e, ok := errors.AsType[*api.Error](err); ok && e.Code == api.CodeNotStarted {
		e.Hint = "there is nothing to stop"
	}
	if err != nil {
		return nil, err
	}
	return client.Stop(ctx, req)
}

// stopFirst stops a live cell for an operation that may stop it, or waits for the end of
// one that is being stopped. The operation goes on with the engine that it returns: a
// stop changes the revision, so what the caller expects of that is checked before. why is
// one of api.EndedBy.
func (e *Engine) stopFirst(ctx context.Context, cell, why string) (*Engine, *api.RunResult, error) {
	c, err := e.FindCell(cell)
	if err != nil {
		return nil, nil, err
	}
	h, live := e.Supervisor(c)
	if !live {
		return e, nil, nil
	}
	if err := e.CheckRevision(c); err != nil {
		return nil, nil, err
	}
	who := e.Caller
	who.Expect = nil
	after := e.As(who)
	if h.Ending { // from now on its end can change the revision
		e = after
	}
	res, err := e.Stop(ctx, api.StopRequest{Cell: cell, Grace: -1, For: why})
	if code := api.CodeOf(err); code == api.CodeNotStarted || code == api.CodeBusy {
		if h, live = e.Supervisor(c); live && h.Ending {
			return after, nil, nil // it no longer answers: the operation waits for its lock
		}
		if !live {
			return e, nil, nil // it ended by itself meanwhile
		}
	}
	return after, res, err
}
