package rest

import (
	"context"
	"slices"

	"github.com/forkcell/forkcell/internal/api"

	"github.com/forkcell/forkcell/internal/api/op"
)

// addMoves adds the routes that move the head of a cell, or write what it has.
func (s *Server) addMoves() {
	handle(s, op.CreateCheckpoint, s.checkpoint)
	handle(s, op.Restore,
		func(ctx context.Context, c *call, in *moveInput[api.RestoreBody]) (*api.MoveResult, error) {
			b := in.body()
			return c.engine.Restore(ctx, api.RestoreRequest{Cell: in.Cell, Checkpoint: b.Checkpoint, Run: b.Run, Runs: b.Runs, Reason: b.Reason, Force: b.Force})
		})
	handle(s, op.Accept, s.accept)
	handle(s, op.Reject,
		func(ctx context.Context, c *call, in *moveInput[api.RejectBody]) (*api.MoveResult, error) {
			return c.engine.Reject(ctx, in.Cell, in.body().Run, in.body().Reason)
		})
	handle(s, op.Choose, s.choose)
	handle(s, op.Apply, s.apply)
	handle(s, op.Undo,
		func(ctx context.Context, c *call, in *moveInput[api.UndoBody]) (*api.ApplyResult, error) {
			b := in.body()
			return c.engine.Undo(ctx, api.UndoRequest{Cell: in.Cell, Except: b.Except, OnConflict: b.OnConflict, DryRun: b.DryRun})
		})
	handle(s, op.Refresh,
		func(ctx context.Context, c *call, in *moveInput[api.RefreshBody]) (*api.RefreshResult, error) {
			b := in.body()
			wait, err := duration("wait", b.Wait)
			if err != nil {
				return nil, err
			}
			if err := s.roomOnDisk(ctx, c); err != nil {
				return nil, err
			}
			return c.engine.Refresh(ctx, api.RefreshRequest{Cell: in.Cell, OnConflict: b.OnConflict, Upload: b.Upload, BasedOn: b.BasedOn, Wait: wait})
		})
	handle(s, op.GetAccepted, func(ctx context.Context, c *call, in *acceptedInput) (*api.AcceptedState, error) {
		if in.Receipts { // who publishes must be able to say so
			if err := c.need(op.ReportPublication.Needs...); err != nil {
				return nil, err
			}
		}
		return c.engine.AcceptedState(ctx, in.Cell, in.Roots, in.Receipts)
	})
	handle(s, op.ReportPublication,
		func(ctx context.Context, c *call, in *publicationInput) (*empty, error) {
			return &empty{}, c.engine.RecordPublication(ctx, in.Cell, in.Body)
		})
	handle(s, op.VerifyCell,
		func(ctx context.Context, c *call, in *moveInput[api.VerifyBody]) (*api.VerifyResult, error) {
			return c.engine.Verify(ctx, in.Cell, in.body().Checkpoint, in.body().All)
		})
}

type publicationInput struct {
	InCell
	IfMatch
	Body api.PublicationBody
}

type acceptedInput struct {
	InCell
	Receipts bool     `query:"receipts" doc:"Also list the receipts of the work in the state, for a publication; needs run and decide."`
	Roots    []string `query:"root,explode" doc:"Roots of states; the answer says which of them the state contains."`
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
func (s *Server) checkpoint(ctx context.Context, c *call, in *moveInput[api.CheckpointBody]) (*api.CheckpointResult, error) {
	b := in.body()
	end, err := s.roomToCapture(ctx, c)
	if err != nil {
		return nil, err
	}
	defer end()
	if !b.Memory {
		return c.engine.Checkpoint(ctx, in.Cell, b.Name)
	}
	return c.engine.CheckpointMemory(ctx, in.Cell, b.Name)
}

func (s *Server) accept(ctx context.Context, c *call, in *moveInput[api.AcceptBody]) (*api.AcceptResult, error) {
	b := in.body()
	return c.engine.Accept(ctx, api.AcceptRequest{
		Cell: in.Cell, Run: b.Run, Runs: b.Runs, LeaveOut: b.LeaveOut,
		Reason: b.Reason, Force: b.Force, Only: b.Only, Except: b.Except, Apply: b.Apply,
	})
}

// choose accepts an attempt of a race into the cell that was raced. Names that the caller
// may not know are left out of the answer.
func (s *Server) choose(ctx context.Context, c *call, in *moveInput[api.ChooseBody]) (*api.RaceResult, error) {
	b := in.body()
	if err := c.visible(b.Attempt); err != nil {
		return nil, err
	}
	res, err := c.engine.Choose(ctx, api.ChooseRequest{Cell: in.Cell, Attempt: b.Attempt, Reason: b.Reason, Force: b.Force, Apply: b.Apply})
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

func (s *Server) apply(ctx context.Context, c *call, in *moveInput[api.ApplyBody]) (*api.ApplyResult, error) {
	b := in.body()
	if b.To != "" {
		if err := absolute(b.To); err != nil {
			return nil, err
		}
	}
	return c.engine.Apply(ctx, api.ApplyRequest{
		Cell: in.Cell, To: b.To, DryRun: b.DryRun, Only: b.Only, Except: b.Except,
		OnConflict: b.OnConflict, AllowControl: b.AllowControl, AllowSetuid: b.AllowSetuid,
	})
}
