package cli

import (
	"context"
	"io"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"

	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// Mode is the access that a command needs to the home, so that reading works on a
// home that cannot be written.
type Mode int

// The modes in which a home is opened.
const (
	Read   Mode = iota // an existing home; a missing one reads as empty
	Write              // an existing home that can be written; a missing one reads as empty
	Create             // made when missing
	Rescue             // without a usable database
	Run                // as Write, for a command that will start a cell
	Visit              // as Read, for a command that goes to a live cell
)

// OpenFunc opens the engine on a home for a caller; home is empty when no --home
// was given. The returned function releases the engine.
type OpenFunc func(home string, mode Mode, caller caller.Caller) (Engine, func() error, error)

// Engine has the methods that the commands use. Each command takes only the part
// that it needs.
type Engine interface {
	maker
	runner
	mover
	publisher
	viewer
	keeper
	receiptReader
	receiptVerifier
	decisionReader
	eventReader
	policyKeeper
	supervisor
	brancher
	turner
	visitor
	copier
	follower
	portForwarder
	keyHolder
	tokenKeeper
	rescuer
	examiner
	namer
	diskReader
	cacheKeeper
	racer
	runLister
}

type maker interface {
	Init(ctx context.Context, r api.InitRequest) (*api.InitResult, error)
	Refresh(ctx context.Context, r api.RefreshRequest) (*api.RefreshResult, error)
	Fork(ctx context.Context, r api.ForkRequest) (*api.ForkResult, error)
}

type runner interface {
	Run(ctx context.Context, r api.RunRequest, io engine.Stdio) (*api.RunResult, error)
	Plan(ctx context.Context, r api.RunRequest) (*api.RunPlan, error)
	Status(ctx context.Context, cell string) (*api.StatusResult, error)
}

type mover interface {
	Checkpoint(ctx context.Context, cell, name string) (*api.CheckpointResult, error)
	CheckpointMemory(ctx context.Context, cell, name string) (*api.CheckpointResult, error)
	Restore(ctx context.Context, r api.RestoreRequest) (*api.MoveResult, error)
	Reject(ctx context.Context, cell, run, reason string) (*api.MoveResult, error)
}

type publisher interface {
	Accept(ctx context.Context, r api.AcceptRequest) (*api.AcceptResult, error)
	Apply(ctx context.Context, r api.ApplyRequest) (*api.ApplyResult, error)
	Undo(ctx context.Context, req api.UndoRequest) (*api.ApplyResult, error)
	Publish(ctx context.Context, r api.PublishRequest) (*api.PublishResult, error)
}

type runLister interface {
	CellRuns(ctx context.Context, cell string) ([]api.RunInfo, error)
}

type differ interface {
	CountChanges(ctx context.Context, r api.DiffRequest) (int, error)
	Diff(ctx context.Context, r api.DiffRequest) (*engine.DiffResult, error)
}

type exporter interface {
	Export(ctx context.Context, r api.ExportRequest) (*api.ExportResult, error)
}

type lister interface {
	ListMatching(ctx context.Context, f api.CellFilter) ([]api.CellInfo, error)
}

type statusReader interface {
	Status(ctx context.Context, cell string) (*api.StatusResult, error)
}

type historian interface {
	Log(ctx context.Context, cell string) ([]api.LogEntry, error)
	Logs(ctx context.Context, cell, run string) (stdout, stderr io.ReadCloser, err error)
	Graph(ctx context.Context) ([]api.GraphNode, error)
}

type viewer interface {
	differ
	exporter
	lister
	historian
}

type keeper interface {
	Rename(ctx context.Context, cell, to string) error
	Update(ctx context.Context, r api.UpdateRequest) (*api.CellInfo, error)
	RemoveAll(ctx context.Context, cells []string, force bool) error
	RemoveCells(ctx context.Context, r api.RemoveRequest) error
	Undelete(ctx context.Context, cell string) (*api.CellInfo, error)
	Verify(ctx context.Context, cell, checkpoint string, all bool) (*api.VerifyResult, error)
	Expire(ctx context.Context, dryRun bool) (*api.ExpireResult, error)
	GC(ctx context.Context, r api.GCRequest) (*api.GCResult, error)
}

type receiptReader interface {
	ReceiptList(ctx context.Context, cell string) ([]api.ReceiptInfo, error)
	Receipt(ctx context.Context, id, cell string, latest bool) (*api.ReceiptDoc, error)
	ReceiptExport(ctx context.Context, id, output string) (int64, error)
}

type receiptVerifier interface {
	ReceiptVerify(ctx context.Context, id, cell string, all bool, keyFile string) (*api.ReceiptVerifyResult, error)
	BundleVerify(ctx context.Context, file, keyFile string) (*api.ReceiptVerifyResult, error)
}

type decisionReader interface {
	Decisions(ctx context.Context, cell, run string) ([]api.DecisionInfo, error)
	Decision(ctx context.Context, id string) (*api.DecisionInfo, error)
}

type eventReader interface {
	Events(ctx context.Context, q api.EventQuery, fn func(event.Record) error) error
	FollowEvents(ctx context.Context, cell string, last int, fn func(event.Record) error) error
}

type policyKeeper interface {
	Policy(ctx context.Context, cell string) (*api.PolicyResult, error)
	ApplyPolicy(ctx context.Context, cell string, f api.PolicyFile, given *api.LiveGrant) (*api.PolicyApplied, error)
	SuggestPolicy(ctx context.Context, cell, run string) (*api.PolicySuggestion, error)
	DiffPolicies(ctx context.Context, a, b engine.PolicyRef) (*api.PolicyDiff, error)
	ExplainPolicy(ctx context.Context, ref engine.PolicyRef, q engine.PolicyQuestion) (*policy.Explanation, error)
}

type supervisor interface {
	Start(ctx context.Context, r api.StartRequest) (*api.StartResult, error)
	Stop(ctx context.Context, r api.StopRequest) (*api.RunResult, error)
	Pause(ctx context.Context, req api.PauseRequest) (*api.PauseResult, error)
	Resume(ctx context.Context, req api.ResumeRequest) (*api.PauseResult, error)
	Processes(ctx context.Context, cell string) ([]api.ProcessInfo, error)
}

type brancher interface {
	Branch(ctx context.Context, r api.BranchRequest) (*api.BranchResult, error)
	Eval(ctx context.Context, r api.EvalRequest) (*api.EvalResult, error)
}

type turner interface {
	Turns(ctx context.Context, cell string) (*api.TurnList, error)
	Rewind(ctx context.Context, r api.RewindRequest) (*api.RewindResult, error)
}

type visitor interface {
	Exec(ctx context.Context, r api.ExecRequest, io engine.Stdio) (*api.ExecResult, error)
	Attach(ctx context.Context, r api.ExecRequest, session string, io engine.Stdio) (*api.ExecResult, error)
	Sessions(ctx context.Context, cell string) ([]api.SessionInfo, error)
}

type copier interface {
	CopyIn(ctx context.Context, r api.CopyRequest) (*api.CopyResult, error)
	CopyOut(ctx context.Context, r api.CopyRequest) (*api.CopyResult, error)
}

type follower interface {
	FollowLogs(ctx context.Context, cell, run string, follow bool, stdout, stderr io.Writer) (bool, error)
}

type keyHolder interface {
	Key(ctx context.Context) (*api.KeyInfo, error)
	KeyInit(ctx context.Context) (*api.KeyInfo, error)
	KeyRotate(ctx context.Context) (*api.KeyInfo, error)
	KeyLost(ctx context.Context) (*api.KeyInfo, error)
	KeyTrust(ctx context.Context, file string) (string, error)
}

type tokenKeeper interface {
	TokenCreate(ctx context.Context, r api.TokenRequest) (*api.TokenCreated, error)
	TokenEntry(ctx context.Context, r api.TokenRequest) (*api.TokenCreated, error)
	TokenList(ctx context.Context) ([]api.TokenInfo, error)
	TokenRevoke(ctx context.Context, ref string) (*api.TokenInfo, error)
}

type rescuer interface {
	Recover(ctx context.Context, acceptLoss bool) (*api.RecoverResult, error)
}

type examiner interface {
	Doctor(ctx context.Context) ([]driver.Check, error)
}

type cacheKeeper interface {
	Promote(ctx context.Context, r api.PromoteRequest) (*api.PromoteResult, error)
	Caches(ctx context.Context) ([]api.SharedCache, error)
	RemoveCaches(ctx context.Context, names []string, all bool) ([]string, error)
}

type namer interface {
	KnownNames(ctx context.Context, cell string) api.KnownNames
	CellAt(ctx context.Context, dir string) (name, below string, err error)
}
