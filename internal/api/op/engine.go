package op

import (
	"context"

	"github.com/forkcell/forkcell/internal/api"
)

// Engine carries out operations for one caller.
type Engine interface {
	Accept(ctx context.Context, r api.AcceptRequest) (*api.AcceptResult, error)
	AcceptedState(ctx context.Context, cell string, roots []string, receipts bool) (*api.AcceptedState, error)
	Disk(ctx context.Context, cell string) (*api.DiskResult, error)
	Eval(ctx context.Context, r api.EvalRequest) (*api.EvalResult, error)
	Key(ctx context.Context) (*api.KeyInfo, error)
	ListFiles(ctx context.Context, cell, path string, depth int, each func(api.FileInfo) error) error
	MakeDir(ctx context.Context, cell, path string) (*api.FileInfo, error)
	MoveFile(ctx context.Context, cell, from, to string) (*api.FileInfo, error)
	Policy(ctx context.Context, cell string) (*api.PolicyResult, error)
	RecordPublication(ctx context.Context, r api.PublicationRequest) error
	Refresh(ctx context.Context, r api.RefreshRequest) (*api.RefreshResult, error)
	Reject(ctx context.Context, cell, run, reason string) (*api.MoveResult, error)
	Restore(ctx context.Context, r api.RestoreRequest) (*api.MoveResult, error)
	StatFile(ctx context.Context, cell, path string) (*api.FileInfo, error)
	Undelete(ctx context.Context, cell string) (*api.CellInfo, error)
	Undo(ctx context.Context, r api.UndoRequest) (*api.ApplyResult, error)
	Verify(ctx context.Context, cell, checkpoint string, all bool) (*api.VerifyResult, error)
}

// Empty is the answer of an operation that has nothing to say.
type Empty struct{}

// None is the request of an operation that needs to know nothing.
type None struct{}
