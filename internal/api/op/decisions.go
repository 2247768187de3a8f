package op

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"
)

const tagDecisions = "decisions"

// Operations that move the head of a cell, or decide about its work.
var (
	Accept = Op[api.AcceptRequest, api.AcceptResult]{
		Verb: Verb{
			ID: "accept", Method: "POST", Path: "/v1/cells/{cell}/accept", Tag: tagDecisions, Command: "accept {cell}",
			Summary: "Accept a run", Needs: []Scope{ScopeRun, ScopeDecide}, Effect: Adds, Moment: true,
		},
		Do: Engine.Accept,
	}
	GetAccepted = Op[api.AcceptedRequest, api.AcceptedState]{
		Verb: Verb{
			ID: "getAccepted", Method: "GET", Path: "/v1/cells/{cell}/accepted", Tag: tagDecisions,
			Summary: "Show the state that an apply would write", Needs: []Scope{ScopeRead},
		},
		Do: func(e Engine, ctx context.Context, in api.AcceptedRequest) (*api.AcceptedState, error) {
			return e.AcceptedState(ctx, in.Cell, in.Roots, in.Receipts)
		},
	}
	Apply = Op[api.ApplyRequest, api.ApplyResult]{
		Verb: Verb{
			ID: "apply", Method: "POST", Path: "/v1/cells/{cell}/apply", Tag: tagDecisions, Command: "apply {cell}",
			Summary: "Write accepted work to a directory", Needs: []Scope{ScopeRun, ScopeDecide}, Effect: Destroys, Moment: true,
		},
	}
	ListCheckpoints = Verb{
		ID: "listCheckpoints", Method: "GET", Path: "/v1/cells/{cell}/checkpoints", Tag: tagDecisions,
		Summary: "List the states of a cell", Needs: []Scope{ScopeRead},
	}
	CreateCheckpoint = Op[api.CheckpointRequest, api.CheckpointResult]{
		Verb: Verb{
			ID: "createCheckpoint", Method: "POST", Path: "/v1/cells/{cell}/checkpoints", Tag: tagDecisions, Command: "checkpoint {cell}",
			Summary: "Name the present state", Needs: []Scope{ScopeRun}, Effect: Adds, Status: created, Moment: true,
		},
	}
	Choose = Op[api.ChooseRequest, api.RaceResult]{
		Verb: Verb{
			ID: "choose", Method: "POST", Path: "/v1/cells/{cell}/choose", Tag: tagDecisions, Command: "race {cell} --choose {attempt}",
			Summary: "Choose the winner of a race that has ended", Needs: []Scope{ScopeRun, ScopeDecide}, Effect: Adds, Moment: true,
		},
	}
	ReportPublication = Op[api.PublicationRequest, Empty]{
		Verb: Verb{
			ID: "reportPublication", Method: "POST", Path: "/v1/cells/{cell}/publications", Tag: tagDecisions, Command: "publish {cell}",
			Summary: "Record what the caller has published on its own machine", Needs: []Scope{ScopeRun, ScopeDecide}, Effect: Adds, Moment: true,
		},
		Do: func(e Engine, ctx context.Context, in api.PublicationRequest) (*Empty, error) {
			return &Empty{}, e.RecordPublication(ctx, in)
		},
	}
	Refresh = Op[api.RefreshRequest, api.RefreshResult]{
		Verb: Verb{
			ID: "refresh", Method: "POST", Path: "/v1/cells/{cell}/refresh", Tag: tagDecisions, Command: "refresh {cell}",
			Summary: "Take over what changed in the source directory", Needs: []Scope{ScopeRun}, Effect: Adds, Moment: true, Takes: true,
		},
		Do: Engine.Refresh,
	}
	Reject = Op[api.RejectRequest, api.MoveResult]{
		Verb: Verb{
			ID: "reject", Method: "POST", Path: "/v1/cells/{cell}/reject", Tag: tagDecisions, Command: "reject {cell}",
			Summary: "Reject a run", Needs: []Scope{ScopeRun, ScopeDecide}, Effect: Adds, Moment: true,
		},
		Do: func(e Engine, ctx context.Context, in api.RejectRequest) (*api.MoveResult, error) {
			return e.Reject(ctx, in.Cell, in.Run, in.Reason)
		},
	}
	Restore = Op[api.RestoreRequest, api.MoveResult]{
		Verb: Verb{
			ID: "restore", Method: "POST", Path: "/v1/cells/{cell}/restore", Tag: tagDecisions, Command: "restore {cell} {checkpoint}",
			Summary: "Go back to a state", Needs: []Scope{ScopeRun}, Effect: Adds, Idempotent: true, Moment: true,
		},
		Do: Engine.Restore,
	}
	Undo = Op[api.UndoRequest, api.ApplyResult]{
		Verb: Verb{
			ID: "undo", Method: "POST", Path: "/v1/cells/{cell}/undo", Tag: tagDecisions, Command: "apply {cell} --undo",
			Summary: "Take the last apply back", Needs: []Scope{ScopeRun, ScopeDecide}, Effect: Destroys, Moment: true,
		},
		Do: Engine.Undo,
	}
	VerifyCell = Op[api.VerifyRequest, api.VerifyResult]{
		Verb: Verb{
			ID: "verifyCell", Method: "POST", Path: "/v1/cells/{cell}/verify", Tag: tagDecisions, Command: "verify {cell} {checkpoint}",
			Summary: "Recompute the hashes of states", Needs: []Scope{ScopeRead}, Moment: true,
		},
		Do: func(e Engine, ctx context.Context, in api.VerifyRequest) (*api.VerifyResult, error) {
			return e.Verify(ctx, in.Cell, in.Checkpoint, in.All)
		},
	}
)
