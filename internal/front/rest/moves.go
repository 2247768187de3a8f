package rest

import (
	"context"
	"slices"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/api/op"
)

// addMoves adds the routes that move the head of a cell, or write what it has.
func (s *Server) addMoves() {
	routeBy(s, op.CreateCheckpoint, s.checkpoint)
	route(s, op.Restore)
	route(s, op.Accept)
	route(s, op.Reject)
	routeBy(s, op.Choose, s.choose)
	routeBy(s, op.Apply, s.apply)
	route(s, op.Undo)
	route(s, op.Refresh)
	show(s, op.GetAccepted)
	route(s, op.ReportPublication)
	route(s, op.VerifyCell)
}

// moveInput is the input of a route that changes a cell. The body may be left out.
type moveInput[B any] struct {
	InCell
	IfMatch
	Body *B
}

// body returns the body, which may be left out.
func (in *moveInput[B]) body() (b B) {
	if in.Body != nil {
		b = *in.Body
	}
	return b
}

// checkpoint names the present state, of which it makes a copy if the cell is live.
func (s *Server) checkpoint(ctx context.Context, c *call, in *api.CheckpointRequest) (*api.CheckpointResult, error) {
	end, err := s.roomToCapture(ctx, c)
	if err != nil {
		return nil, err
	}
	defer end()
	if !in.Memory {
		return c.engine.Checkpoint(ctx, in.Cell, in.Name)
	}
	return c.engine.CheckpointMemory(ctx, in.Cell, in.Name)
}

// choose accepts an attempt of a race into the cell that was raced. Names that the caller
// may not know are left out of the answer.
func (s *Server) choose(ctx context.Context, c *call, in *api.ChooseRequest) (*api.RaceResult, error) {
	if err := c.visible(in.Attempt); err != nil {
		return nil, err
	}
	res, err := c.engine.Choose(ctx, *in)
	if err != nil {
		return nil, err
	}
	for i, a := range res.Attempts {
		if !c.caller.sees(a.Cell) {
			res.Attempts[i].Cell = ""
		}
	}
	res.Kept = slices.DeleteFunc(res.Kept, func(name string) bool { return !c.caller.sees(name) })
	return res, nil
}

func (s *Server) apply(ctx context.Context, c *call, in *api.ApplyRequest) (*api.ApplyResult, error) {
	if in.To != "" {
		if err := absolute(in.To); err != nil {
			return nil, err
		}
	}
	return c.engine.Apply(ctx, *in)
}
