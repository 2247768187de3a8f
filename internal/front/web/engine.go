package web

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/api/op"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/engine/transfer"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// Config has the parts of the pages.
type Config struct {
	// Sender returns the visitor that a request itself proves, without a session.
	Sender func(r *http.Request) (Visitor, error)
	// Secret returns the visitor who knows the secret of a token.
	Secret func(r *http.Request, secret string) (Visitor, error)
	// Visit gives a request the rights of a visitor. It fails if they have ended.
	Visit func(r *http.Request, v Visitor) (Visit, error)
	// Problem describes an error as the API would.
	Problem func(r *http.Request, err error) api.Problem
	// Address returns the address of the pages for a browser on this host, such as
	// http://NAME:PORT. It makes a listener if there is none.
	Address func() (string, error)
	// Host is the name of the pages on this host. Only who may sign in is told it.
	Host string
	Now  func() time.Time
}

// Visitor identifies a person. Token is "" for the daemon's own user.
type Visitor struct{ Name, Token string }

// Visit is a request of a visitor.
type Visit interface {
	Name() string
	May(scope op.Scope) bool
	// Allow refuses a request that has the operator's word in it, unless the visitor is the
	// operator.
	Allow(ctx context.Context, request any) error
	Sees(cell string) bool
	SeesAll() bool
	// Engine acts for the visitor. expect is the revision that a cell must have to be
	// changed; nil is any.
	Engine(expect *int64) Engine
	// Stream runs do until it returns or its context ends.
	Stream(ctx context.Context, do func(context.Context)) error
}

// Engine has the verbs that the pages use.
type Engine interface {
	looker
	comparer
	decider
	witness
	governor
}

type looker interface {
	List(ctx context.Context) ([]api.CellInfo, error)
	Status(ctx context.Context, cell string) (*api.StatusResult, error)
	RunInfo(ctx context.Context, id string) (*api.RunInfo, error)
	CountChanges(ctx context.Context, r api.DiffRequest) (int, error)
	CellRuns(ctx context.Context, cell string) ([]api.RunInfo, error)
	RecentRuns(ctx context.Context, cell string, before int64, limit int) ([]api.RunInfo, int64, error)
	RecentStates(ctx context.Context, cell string, limit int) ([]api.GraphNode, error)
	OpenStateFile(ctx context.Context, cell, checkpoint, path string) (*transfer.File, error)
	ListStateFiles(ctx context.Context, cell, checkpoint, path string, each func(api.FileInfo) error) error
	Races(ctx context.Context, cell string, forks []string) ([]api.PastRace, error)
	Turns(ctx context.Context, cell string) (*api.TurnList, error)
	RunLog(ctx context.Context, id string, stderr, follow bool, w io.Writer) error
}

type comparer interface {
	Diff(ctx context.Context, r api.DiffRequest) (*engine.DiffResult, error)
}

type decider interface {
	Accept(ctx context.Context, r api.AcceptRequest) (*api.AcceptResult, error)
	Reject(ctx context.Context, cell, run, reason string) (*api.MoveResult, error)
	Restore(ctx context.Context, r api.RestoreRequest) (*api.MoveResult, error)
	Rewind(ctx context.Context, r api.RewindRequest) (*api.RewindResult, error)
	Apply(ctx context.Context, r api.ApplyRequest) (*api.ApplyResult, error)
	Undo(ctx context.Context, r api.UndoRequest) (*api.ApplyResult, error)
	HasApply(ctx context.Context, cell string) (bool, error)
	Choose(ctx context.Context, r api.ChooseRequest) (*api.RaceResult, error)
}

type witness interface {
	Receipt(ctx context.Context, id, cell string, latest bool) (*api.ReceiptDoc, error)
	Bundle(ctx context.Context, receipt string) ([]byte, error)
	VerifyReceipts(ctx context.Context, r api.ReceiptVerifyRequest) (*api.ReceiptVerifyResult, error)
	Decisions(ctx context.Context, cell, run string) ([]api.DecisionInfo, error)
	Events(ctx context.Context, q api.EventQuery, fn func(event.Record) error) error
}

type governor interface {
	Policy(ctx context.Context, cell string) (*api.PolicyResult, error)
	RunPolicy(ctx context.Context, run string) (*api.PolicyResult, error)
	ApplyPolicy(ctx context.Context, cell string, f api.PolicyFile, given *api.LiveGrant) (*api.PolicyApplied, error)
	DiffPolicies(ctx context.Context, a, b engine.PolicyRef) (*api.PolicyDiff, error)
	ExplainPolicy(ctx context.Context, ref engine.PolicyRef, q engine.PolicyQuestion) (*policy.Explanation, error)
	SuggestPolicy(ctx context.Context, cell, run string) (*api.PolicySuggestion, error)
	Doctor(ctx context.Context) []driver.Check
	TokenList(ctx context.Context) ([]api.TokenInfo, error)
}
