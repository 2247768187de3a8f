// Package session plans sessions of coding agents, starts them in cells, and describes
// them afterwards. A session is a fork of the workspace's cell with one live run; its
// record is what the receipts say.
//
// It knows cells by what an engine does with them. It must not know flags, the
// terminal or HTTP.
package session

import (
	"context"
	"io"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine"
	"github.com/forkcell/forkcell/internal/evidence/event"
)

// Engine makes cells and runs commands in them.
type Engine interface {
	CellAt(ctx context.Context, dir string) (name, below string, err error)
	Init(ctx context.Context, r api.InitRequest) (*api.InitResult, error)
	Refresh(ctx context.Context, r api.RefreshRequest) (*api.RefreshResult, error)
	Status(ctx context.Context, cell string) (*api.StatusResult, error)
	Fork(ctx context.Context, r api.ForkRequest) (*api.ForkResult, error)
	RemoveAll(ctx context.Context, cells []string, force bool) error
	Start(ctx context.Context, r api.StartRequest) (*api.StartResult, error)
	Stop(ctx context.Context, r api.StopRequest) (*api.RunResult, error)
	Exec(ctx context.Context, r api.ExecRequest, io engine.Stdio) (*api.ExecResult, error)
}

// Describer reads what describes a session.
type Describer interface {
	Status(ctx context.Context, cell string) (*api.StatusResult, error)
	CellRuns(ctx context.Context, cell string) ([]api.RunInfo, error)
	CountChanges(ctx context.Context, r api.DiffRequest) (int, error)
}

// Reader reads what is known of cells and their runs.
type Reader interface {
	Describer
	ListMatching(ctx context.Context, f api.CellFilter) ([]api.CellInfo, error)
	Events(ctx context.Context, q api.EventQuery, fn func(event.Record) error) error
	Decisions(ctx context.Context, cell, run string) ([]api.DecisionInfo, error)
	Log(ctx context.Context, cell string) ([]api.LogEntry, error)
	Logs(ctx context.Context, cell, run string) (stdout, stderr io.ReadCloser, err error)
}

// Home is the home directory in a cell.
const Home = "/home/sandbox"
