package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/engine/race"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// Local is an engine of this process, with what is built on top of it.
type Local struct {
	*engine.Engine
	// Home is the path of its home, and Caller who uses it.
	Home   string
	Caller caller.Caller
}

// GC frees states that nothing needs, also of the mirrors of daemons' cells.
func (l Local) GC(ctx context.Context, req api.GCRequest) (*api.GCResult, error) {
	res, err := l.Engine.GC(ctx, req)
	if err != nil {
		return nil, err
	}
	res.MirrorBytes, err = l.collectMirrors(ctx, req)
	return res, err
}

func (l Local) collectMirrors(ctx context.Context, req api.GCRequest) (freed int64, err error) {
	homes, err := mirrorHomes(l.Home)
	if err != nil {
		return 0, err
	}
	req.KeepSources = true
	mode := Write
	if req.DryRun {
		mode = Read
	}
	for _, home := range homes {
		e, release, err := Open(home, mode, l.Caller)
		if err != nil {
			return freed, fmt.Errorf("mirrors in %s: %w", home, err)
		}
		res, err := e.GC(ctx, req)
		if err = errors.Join(err, release()); err != nil {
			return freed, err
		}
		freed += res.Bytes
	}
	return freed, nil
}

// Doctor reports what this host can enforce.
func (l Local) Doctor(ctx context.Context) ([]driver.Check, error) { return l.Engine.Doctor(ctx), nil }

// Race makes several attempts in forks of a cell, and chooses one.
func (l Local) Race(ctx context.Context, req api.RaceRequest, events func(api.RaceEvent)) (*api.RaceResult, error) {
	return race.Run(ctx, l.Engine, req, events)
}
