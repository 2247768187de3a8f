package rest

import (
	"context"
	"strings"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine/token"
)

// addLive adds the routes that start, stop and use live cells.
func (s *Server) addLive() {
	handle(s, op.Start, s.start)
	handle(s, op.Stop, s.stopCell)
	routeBy(s, op.Pause, s.pause)
	handle(s, op.Resume, s.resume)
	s.addBranches()
	s.addExec()
	s.addExecSockets()
}

func (s *Server) start(ctx context.Context, c *call, in *moveInput[api.StartBody]) (*api.StartResult, error) {
	set, err := s.runSettings(ctx, c, in.body().RunSettings)
	if err != nil {
		return nil, err
	}
	expect, err := expectation(in.Match)
	if err != nil {
		return nil, err
	}
	req := api.StartRequest{Cell: in.Cell, RunOptions: set.options}
	if req.Warm, err = warmRequest(ctx, c, in); err != nil {
		return nil, err
	}
	if err := s.roomOnDisk(ctx, c); err != nil {
		return nil, err
	}
	release, err := s.acquireStart(ctx, c, in.Cell, token.Amount{LiveCells: 1, Memory: set.options.Memory, CPUs: set.options.CPUs})
	if err != nil {
		return nil, err
	}
	defer release()
	return s.actFor(c, expect, set.env).Start(ctx, req)
}

// pause stops the processes of a live cell. If that would write their memory to the disk,
// and the caller has no room for it, the cell goes on.
func (s *Server) pause(ctx context.Context, c *call, in *api.PauseRequest) (*api.PauseResult, error) {
	writes, err := c.engine.PauseWrites(ctx, in.Cell)
	if err == nil && writes && !in.FSOnly {
		err = s.roomOnDisk(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	return c.engine.Pause(ctx, *in)
}

// resume makes a paused cell live. One that is paused on disk counts as live from then on,
// and what it was paused with no longer counts. What only an operator could give to the
// run that was paused ended with that run for other callers.
func (s *Server) resume(ctx context.Context, c *call, in *moveInput[api.ResumeBody]) (*api.PauseResult, error) {
	b := in.body()
	set, err := s.runSettings(ctx, c, api.RunSettings{Credentials: b.Credentials})
	if err != nil {
		return nil, err
	}
	expect, err := expectation(in.Match)
	if err != nil {
		return nil, err
	}
	paused, err := c.engine.PausedCell(ctx, in.Cell)
	if err != nil {
		return nil, err
	}
	if paused != nil {
		if len(paused.Loose) > 0 && !c.caller.isOperator() {
			return nil, api.Refusef(api.CodeForbidden, "stop it, and start it without them",
				"cell %s was started with %s, which only the operator may give it", in.Cell, strings.Join(paused.Loose, ", "))
		}
		c.frees = paused.Disk
		if err := s.roomOnDisk(ctx, c); err != nil {
			return nil, err
		}
		release, err := s.acquireStart(ctx, c, in.Cell, token.Amount{LiveCells: 1, Memory: paused.Memory, CPUs: paused.CPUs})
		if err != nil {
			return nil, err
		}
		defer release()
	}
	n := set.options.Network
	return s.actFor(c, expect, set.env).Resume(ctx, api.ResumeRequest{
		Cell: in.Cell, FSOnly: b.FSOnly, Credentials: n.Credentials, CredentialsFile: n.CredentialsFile,
	})
}

// stopCell ends a live cell. Once it has begun, it goes on without the caller.
func (s *Server) stopCell(ctx context.Context, c *call, in *moveInput[api.StopBody]) (*api.RunResult, error) {
	req := api.StopRequest{Cell: in.Cell, Grace: -1}
	if text := in.body().Grace; text != "" {
		var err error
		if req.Grace, err = duration("grace", text); err != nil {
			return nil, err
		}
	}
	res, err := c.engine.Stop(ctx, req)
	s.metrics.run(res)
	return res, err
}
