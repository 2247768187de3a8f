package server

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/cell"
)

// Engine has the verbs that the routes use. It acts for one caller.
type Engine interface {
	cellKeeper
	runner
	decider
}

type cellKeeper interface {
	Init(ctx context.Context, r api.InitRequest) (*api.InitResult, error)
	Fork(ctx context.Context, r api.ForkRequest) (*api.ForkResult, error)
	Refresh(ctx context.Context, r api.RefreshRequest) (*api.RefreshResult, error)
	List(ctx context.Context) ([]api.CellInfo, error)
	Status(ctx context.Context, cell string) (*api.StatusResult, error)
	Remove(ctx context.Context, cell string, force bool) error
	Verify(ctx context.Context, cell, checkpoint string, all bool) (*api.VerifyResult, error)
}

type runner interface {
	Run(ctx context.Context, r api.RunRequest, io cell.Stdio) (*api.RunResult, error)
	RunInfo(ctx context.Context, id string) (*api.RunInfo, error)
	Runs(ctx context.Context, cell string, after int64, limit int) ([]api.RunInfo, int64, error)
}

type decider interface {
	Checkpoint(ctx context.Context, cell, name string) (*api.CheckpointResult, error)
	Restore(ctx context.Context, r api.RestoreRequest) (*api.MoveResult, error)
	Reject(ctx context.Context, cell, run, reason string) (*api.MoveResult, error)
	Accept(ctx context.Context, r api.AcceptRequest) (*api.AcceptResult, error)
	Apply(ctx context.Context, r api.ApplyRequest) (*api.ApplyResult, error)
	Undo(ctx context.Context, r api.UndoRequest) (*api.ApplyResult, error)
}
