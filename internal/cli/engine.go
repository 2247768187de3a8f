package cli

import (
	"context"
	"io"

	"github.com/forkcell/forkcell/internal/cell"
	"github.com/forkcell/forkcell/internal/driver"
	"github.com/forkcell/forkcell/internal/event"
	"github.com/forkcell/forkcell/internal/policy"
)

// Mode says what a command will do with the home, so that reading works on a
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

// OpenFunc opens the engine on a home; home is empty when no --home was given.
// The function that it returns releases the engine.
type OpenFunc func(home string, mode Mode) (Engine, func() error, error)

// Engine is everything that the commands ask for. Each command takes only the
// part of it that it needs.
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
	visitor
	copier
	follower
	portForwarder
	keyHolder
	rescuer
	examiner
	namer
	diskReader
	cacheKeeper
}

type maker interface {
	Init(ctx context.Context, r cell.InitRequest) (*cell.InitResult, error)
	Refresh(ctx context.Context, r cell.RefreshRequest) (*cell.RefreshResult, error)
	Fork(ctx context.Context, r cell.ForkRequest) (*cell.ForkResult, error)
}

type runner interface {
	Run(ctx context.Context, r cell.RunRequest, io cell.Stdio) (*cell.RunResult, error)
	Plan(ctx context.Context, r cell.RunRequest) (*cell.RunPlan, error)
	Status(ctx context.Context, cell string) (*cell.StatusResult, error)
}

type mover interface {
	Checkpoint(ctx context.Context, cell, name string) (*cell.CheckpointResult, error)
	Restore(ctx context.Context, r cell.RestoreRequest) (*cell.MoveResult, error)
	Reject(ctx context.Context, cell, run, reason string) (*cell.MoveResult, error)
}

type publisher interface {
	Accept(ctx context.Context, r cell.AcceptRequest) (*cell.AcceptResult, error)
	Apply(ctx context.Context, r cell.ApplyRequest) (*cell.ApplyResult, error)
	Undo(ctx context.Context, req cell.UndoRequest) (*cell.ApplyResult, error)
}

type differ interface {
	Diff(ctx context.Context, r cell.DiffRequest) (*cell.DiffResult, error)
}

type exporter interface {
	Export(ctx context.Context, r cell.ExportRequest) (*cell.ExportResult, error)
}

type lister interface {
	List(ctx context.Context) ([]cell.CellInfo, error)
}

type statusReader interface {
	Status(ctx context.Context, cell string) (*cell.StatusResult, error)
}

type historian interface {
	Log(ctx context.Context, cell string) ([]cell.LogEntry, error)
	Logs(ctx context.Context, cell, run string) (stdout, stderr io.ReadCloser, err error)
	Graph(ctx context.Context) ([]cell.GraphNode, error)
}

type viewer interface {
	differ
	exporter
	lister
	historian
}

type keeper interface {
	Rename(ctx context.Context, cell, to string) error
	RemoveAll(ctx context.Context, cells []string, force bool) error
	Verify(ctx context.Context, cell, checkpoint string, all bool, progress func(cell.Progress)) (*cell.VerifyResult, error)
	GC(ctx context.Context, r cell.GCRequest) (*cell.GCResult, error)
}

type receiptReader interface {
	ReceiptList(ctx context.Context, cell string) ([]cell.ReceiptInfo, error)
	Receipt(ctx context.Context, id, cell string, latest bool) (*cell.ReceiptDoc, error)
	ReceiptExport(ctx context.Context, id, output string) (int64, error)
}

type receiptVerifier interface {
	ReceiptVerify(ctx context.Context, id, cell string, all bool, keyFile string) (*cell.ReceiptVerifyResult, error)
	BundleVerify(ctx context.Context, file, keyFile string) (*cell.ReceiptVerifyResult, error)
}

type decisionReader interface {
	Decisions(ctx context.Context, cell, run string) ([]cell.DecisionInfo, error)
	Decision(ctx context.Context, id string) (*cell.DecisionInfo, error)
}

type eventReader interface {
	Events(ctx context.Context, q cell.EventQuery, fn func(event.Record) error) error
	FollowEvents(ctx context.Context, cell string, last int, fn func(event.Record) error) error
}

type policyKeeper interface {
	Policy(ctx context.Context, cell string) (*cell.PolicyResult, error)
	ApplyPolicy(ctx context.Context, cell string, f cell.PolicyFile, grant *cell.NetworkRequest) (*cell.PolicyApplied, error)
	SuggestPolicy(ctx context.Context, cell, run string) (*cell.PolicySuggestion, error)
	DiffPolicies(ctx context.Context, a, b cell.PolicyRef) (*cell.PolicyDiff, error)
	ExplainPolicy(ctx context.Context, ref cell.PolicyRef, q cell.PolicyQuestion) (*policy.Explanation, error)
}

type supervisor interface {
	Start(ctx context.Context, r cell.StartRequest) (*cell.StartResult, error)
	Stop(ctx context.Context, r cell.StopRequest) (*cell.RunResult, error)
	Processes(ctx context.Context, cell string) ([]cell.ProcessInfo, error)
}

type visitor interface {
	Exec(ctx context.Context, r cell.ExecRequest, io cell.Stdio) (*cell.ExecResult, error)
	Attach(ctx context.Context, r cell.ExecRequest, session string, io cell.Stdio) (*cell.ExecResult, error)
	Sessions(ctx context.Context, cell string) ([]cell.SessionInfo, error)
}

type copier interface {
	CopyIn(ctx context.Context, r cell.CopyRequest) (*cell.CopyResult, error)
	CopyOut(ctx context.Context, r cell.CopyRequest) (*cell.CopyResult, error)
}

type follower interface {
	FollowLogs(ctx context.Context, cell, run string, follow bool, stdout, stderr io.Writer) (bool, error)
}

type keyHolder interface {
	Key(ctx context.Context) (*cell.KeyInfo, error)
	KeyInit(ctx context.Context) (*cell.KeyInfo, error)
	KeyRotate(ctx context.Context) (*cell.KeyInfo, error)
	KeyLost(ctx context.Context) (*cell.KeyInfo, error)
	KeyTrust(ctx context.Context, file string) (string, error)
}

type rescuer interface {
	Recover(ctx context.Context, acceptLoss bool) (*cell.RecoverResult, error)
}

type examiner interface {
	Doctor(ctx context.Context) []driver.Check
}

type cacheKeeper interface {
	Promote(ctx context.Context, r cell.PromoteRequest) (*cell.PromoteResult, error)
	Caches(ctx context.Context) ([]cell.SharedCache, error)
	RemoveCaches(ctx context.Context, names []string, all bool) ([]string, error)
}

type namer interface {
	KnownNames(ctx context.Context, cell string) cell.KnownNames
	CellAt(ctx context.Context, dir string) (name, below string, err error)
}
