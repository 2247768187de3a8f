package rest

import (
	"context"
	"io"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/transfer"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// Engine has the verbs that the routes use. It acts for one caller.
type Engine interface {
	cellKeeper
	runner
	differ
	decider
	witness
	policyKeeper
	operator
	liver
	forwarder
	eventReader
	logReader
	fileKeeper
	archivist
	requestKeeper
	tokenKeeper
	racer
	settler
	consumer
	describer
	planner
	sessionKeeper
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
	Run(ctx context.Context, r api.RunRequest, io engine.Stdio) (*api.RunResult, error)
	RunInfo(ctx context.Context, id string) (*api.RunInfo, error)
	Runs(ctx context.Context, cell string, after int64, limit int) ([]api.RunInfo, int64, error)
}

type witness interface {
	ReceiptList(ctx context.Context, cell string) ([]api.ReceiptInfo, error)
	Receipt(ctx context.Context, id, cell string, latest bool) (*api.ReceiptDoc, error)
	Bundle(ctx context.Context, receipt string) ([]byte, error)
	VerifyReceipts(ctx context.Context, r api.ReceiptVerifyRequest) (*api.ReceiptVerifyResult, error)
	Decisions(ctx context.Context, cell, run string) ([]api.DecisionInfo, error)
	Graph(ctx context.Context) ([]api.GraphNode, error)
}

type policyKeeper interface {
	Policy(ctx context.Context, cell string) (*api.PolicyResult, error)
	CheckPolicy(ctx context.Context, f api.PolicyFile) (*api.PolicyResult, error)
	ApplyPolicy(ctx context.Context, cell string, f api.PolicyFile, given *api.LiveGrant) (*api.PolicyApplied, error)
	ExplainPolicy(ctx context.Context, ref engine.PolicyRef, q engine.PolicyQuestion) (*policy.Explanation, error)
	SuggestPolicy(ctx context.Context, cell, run string) (*api.PolicySuggestion, error)
}

type operator interface {
	Doctor(ctx context.Context) []driver.Check
	Key(ctx context.Context) (*api.KeyInfo, error)
	GC(ctx context.Context, r api.GCRequest) (*api.GCResult, error)
}

type decider interface {
	Checkpoint(ctx context.Context, cell, name string) (*api.CheckpointResult, error)
	CheckpointMemory(ctx context.Context, cell, name string) (*api.CheckpointResult, error)
	Restore(ctx context.Context, r api.RestoreRequest) (*api.MoveResult, error)
	Reject(ctx context.Context, cell, run, reason string) (*api.MoveResult, error)
	Accept(ctx context.Context, r api.AcceptRequest) (*api.AcceptResult, error)
	Apply(ctx context.Context, r api.ApplyRequest) (*api.ApplyResult, error)
	AcceptedState(ctx context.Context, cell string, roots []string, receipts bool) (*api.AcceptedState, error)
	RecordPublication(ctx context.Context, r api.PublicationRequest) error
	Undo(ctx context.Context, r api.UndoRequest) (*api.ApplyResult, error)
	Choose(ctx context.Context, r api.ChooseRequest) (*api.RaceResult, error)
}

type liver interface {
	Start(ctx context.Context, r api.StartRequest) (*api.StartResult, error)
	Stop(ctx context.Context, r api.StopRequest) (*api.RunResult, error)
	Pause(ctx context.Context, req api.PauseRequest) (*api.PauseResult, error)
	Resume(ctx context.Context, req api.ResumeRequest) (*api.PauseResult, error)
	Branch(ctx context.Context, r api.BranchRequest) (*api.BranchResult, error)
	Eval(ctx context.Context, r api.EvalRequest) (*api.EvalResult, error)
	Exec(ctx context.Context, r api.ExecRequest, io engine.Stdio) (*api.ExecResult, error)
	Attach(ctx context.Context, r api.ExecRequest, session string, io engine.Stdio) (*api.ExecResult, error)
}

type fileKeeper interface {
	OpenFile(ctx context.Context, cell, path string) (*transfer.File, error)
	StatFile(ctx context.Context, cell, path string) (*api.FileInfo, error)
	ListFiles(ctx context.Context, cell, path string, depth int, each func(api.FileInfo) error) error
	SendCopy(ctx context.Context, cell, path string, begin func() io.Writer) (notes []string, err error)
	TakeCopy(ctx context.Context, cell, path, name string, stream io.Reader) (notes []string, err error)
	TarFiles(ctx context.Context, cell, path string, begin func() io.Writer) error
	WriteFile(ctx context.Context, cell, path, mode string, contents io.Reader) (*api.FileInfo, error)
	RemoveFile(ctx context.Context, cell, path string, recursive bool) error
	MakeDir(ctx context.Context, cell, path string) (*api.FileInfo, error)
	MoveFile(ctx context.Context, cell, from, to string) (*api.FileInfo, error)
	WatchFiles(ctx context.Context, cell, path string, recursive bool, each func(api.FileEvent) error) error
}
