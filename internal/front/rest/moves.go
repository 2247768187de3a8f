package rest

import (
	"context"
	"net/http"
	"slices"

	"github.com/forkcell/forkcell/internal/api"
)

const tagDecisions = "decisions"

// addMoves adds the routes that move the head of a cell, or write what it has.
func (s *Server) addMoves() {
	move := func(verb, id, summary, command string, needs ...Scope) route {
		return route{method: http.MethodPost, path: "/v1/cells/{cell}/" + verb, id: id, tag: tagDecisions, summary: summary, command: command, needs: needs}
	}
	create := move("checkpoints", "createCheckpoint", "Name the present state", "checkpoint {cell}", Run)
	create.status = http.StatusCreated
	handle(s, create, s.checkpoint)
	handle(s, move("restore", "restore", "Go back to a state", "restore {cell} {checkpoint}", Run),
		func(ctx context.Context, c *call, in *moveInput[api.RestoreBody]) (*api.MoveResult, error) {
			b := in.body()
			return c.engine.Restore(ctx, api.RestoreRequest{Cell: in.Cell, Checkpoint: b.Checkpoint, Run: b.Run, Runs: b.Runs, Reason: b.Reason, Force: b.Force})
		})
	handle(s, move("accept", "accept", "Accept a run", "accept {cell}", Run, Decide), s.accept)
	handle(s, move("reject", "reject", "Reject a run", "reject {cell}", Run, Decide),
		func(ctx context.Context, c *call, in *moveInput[api.RejectBody]) (*api.MoveResult, error) {
			return c.engine.Reject(ctx, in.Cell, in.body().Run, in.body().Reason)
		})
	handle(s, move("choose", "choose", "Choose the winner of a race that has ended", "race {cell} --choose {attempt}", Run, Decide), s.choose)
	handle(s, move("apply", "apply", "Write accepted work to a directory", "apply {cell}", Run, Decide), s.apply)
	handle(s, move("undo", "undo", "Take the last apply back", "apply {cell} --undo", Run, Decide),
		func(ctx context.Context, c *call, in *moveInput[api.UndoBody]) (*api.ApplyResult, error) {
			b := in.body()
			return c.engine.Undo(ctx, api.UndoRequest{Cell: in.Cell, Except: b.Except, OnConflict: b.OnConflict, DryRun: b.DryRun})
		})
	handle(s, move("refresh", "refresh", "Take over what changed in the source directory", "refresh {cell}", Run),
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
	handle(s, route{
		method: http.MethodGet, path: "/v1/cells/{cell}/accepted", id: "getAccepted", tag: tagDecisions, summary: "Show the state that an apply would write", needs: []Scope{Read},
	}, func(ctx context.Context, c *call, in *acceptedInput) (*api.AcceptedState, error) {
		for _, scope := range []Scope{Run, Decide} {
			if in.Receipts && !c.caller.may(scope) {
				return nil, c.deny(scope) // who publishes must be able to say so
			}
		}
		return c.engine.Accepted(ctx, in.Cell, in.Roots, in.Receipts)
	})
	handle(s, move("publications", "reportPublication", "Record what the caller has published on its own machine", "publish {cell}", Run, Decide),
		func(ctx context.Context, c *call, in *publicationInput) (*empty, error) {
			return &empty{}, c.engine.RecordPublication(ctx, in.Cell, in.Body)
		})
	handle(s, move("verify", "verifyCell", "Recompute the hashes of states", "verify {cell} {checkpoint}", Read),
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
