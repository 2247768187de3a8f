// Package cell implements the transaction: checkpoint, governed run, signed receipt,
// then accept, restore or fork.
//
// It is the only place where the store, the workspaces and the driver meet. It
// knows no backend, driver or database by name, and prints nothing.
package cell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/driver"
	"github.com/forkcell/forkcell/internal/eventquery"
	"github.com/forkcell/forkcell/internal/evidence"
	"github.com/forkcell/forkcell/internal/leftout"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/internal/tree"
	"github.com/forkcell/forkcell/internal/workspace"
)

// Config has the parts of an Engine.
type Config struct {
	Store     *store.Store // nil for a home that does not exist, which reads as empty
	Workspace *workspace.Store
	// Late, if set, opens the database and the workspaces of a home of which only
	// the locks are open. Only a visit can do without them.
	Late   func() (*workspace.Store, error)
	Driver driver.Driver // of the runtime native
	// Runtimes are the drivers of further runtimes, by their names.
	Runtimes map[string]driver.Driver
	Launcher Launcher         // starts supervisors of live cells
	Caller   Caller           // the caller, unless As sets another
	Version  string           // of this program, for events
	Home     string           // the path of the home, which may not exist
	Now      func() time.Time // the wall clock; it may jump
	// Hide, if set, prevents dumps of this process's memory, and reads of it by
	// other processes of the user. It is called once the memory has secrets.
	Hide  func() error
	Lines LineCounter // counts changed lines
	// Logger gets messages for the operator that no caller gets: work of dead
	// processes that was finished, steps and their times. nil drops them.
	Logger *slog.Logger
}

// LineCounter counts changed files, and the lines that they add and remove. open opens
// a file of the side before the changes (0) or after them (1).
type LineCounter func(each func(func(tree.Change) error) error, open func(side int, path string, e tree.Entry) (io.ReadCloser, error)) (files, added, removed int, err error)

// Engine carries out what the commands ask for.
type Engine struct {
	store    *store.Store
	ws       *workspace.Store
	driver   driver.Driver
	runtimes map[string]driver.Driver
	launcher Launcher
	late     func() (*workspace.Store, error)
	home     string
	hide     func() error
	version  string
	now      func() time.Time
	caller   Caller
	lines    LineCounter
	log      *evidence.Log
	logger   *slog.Logger
	shared   *shared
}

// shared is what the engines of one home have together.
type shared struct {
	journals eventquery.Notices
	events   eventquery.Index
	runs     knownRuns
	outputs  runningOutputs
	memos    memos
	masks    maskMemo
	keeps    atomic.Bool // see KeepRecords
	listing  sync.Mutex  // held while all records are read
}

// New makes an Engine.
func New(c Config) *Engine {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Engine{
		store: c.Store, ws: c.Workspace, late: c.Late, driver: c.Driver, runtimes: c.Runtimes, launcher: c.Launcher, caller: c.Caller, home: c.Home, version: c.Version, hide: c.Hide,
		now: c.Now, log: evidence.New(c.Store, c.Workspace, c.Now, c.Caller.Actor), logger: c.Logger, lines: c.Lines, shared: &shared{},
	}
}

// view reads the database; a home that does not exist has nothing in it.
func (e *Engine) view(fn func(*store.Tx) error) error {
	if e.store == nil {
		return store.ErrNotFound
	}
	return e.store.View(fn)
}

// usable refuses a state whose bytes gc has freed.
func usable(c store.Checkpoint) error {
	if c.Freed {
		return api.Refusef(api.CodeFreed, "its receipt remains: `forkcell receipt list`", "checkpoint %s was freed by gc", c.ID)
	}
	return nil
}

// layout returns a cell as the workspace describes it.
func (e *Engine) layout(c store.Cell) (workspace.Cell, error) {
	rules, err := leftout.New(leftout.Options{NoDefaults: c.Rules.NoDefaults, Extra: c.Rules.Extra, IgnoreFile: c.Rules.IgnoreFile})
	if err != nil {
		return workspace.Cell{}, fmt.Errorf("secret rules of %s: %w", c.Name, err)
	}
	return workspace.Cell{
		ID: c.ID, Backend: workspace.Backend(c.Backend), MountAt: c.MountAt, Live: c.Live, Rules: rules, Kept: c.Kept,
	}, nil
}

// newCheckpoint returns the record of a sealed state.
func (e *Engine) newCheckpoint(c store.Cell, parent, kind, runID string, sealed workspace.Sealed) store.Checkpoint {
	areas := map[string]store.Area{}
	for name, a := range sealed.Areas {
		areas[name] = store.Area{Root: a.Root.String(), MetaRoot: a.Meta.String(), Files: a.Files, Dirs: a.Dirs, Bytes: a.Bytes}
	}
	return store.Checkpoint{
		ID: store.NewID("chk"), CellID: c.ID, Parent: parent, Layer: sealed.Layer, RunID: runID, Kind: kind,
		Areas: areas, OwnBytes: sealed.Bytes, CreatedAt: e.now().UTC(),
	}
}

// withProgress lets the workspace report to the caller.
func (e *Engine) withProgress(ctx context.Context) context.Context {
	return workspace.WithProgress(ctx, func(p workspace.Progress) {
		e.caller.report(api.Progress{What: p.What, Files: p.Files, Bytes: p.Bytes, CurrentPath: p.Path})
	})
}

func since(t time.Time) int64 { return time.Since(t).Microseconds() }

// IsDiskFull reports whether a failure came from a full disk.
func IsDiskFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, store.ErrFull) }

// Explain adds a message and a hint to a failure that has none: a damaged database,
// a missing record in it, or a full disk.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*api.Error](err); ok && e.Hint != "" {
		return err
	}
	e := &api.Error{Message: err.Error(), Err: err}
	switch {
	case IsDiskFull(err):
		e.Kind, e.Code = api.Failed, api.CodeDiskFull
		e.Message = "the disk of the state directory is full: " + err.Error()
		e.Hint = "free some space there; `forkcell rm --force CELL` and `forkcell gc` work on a full disk"
	case errors.Is(err, store.ErrDatabase):
		e.Kind, e.Code, e.Hint = api.Refused, "home", "`forkcell recover` rebuilds it from the signed log"
	case errors.Is(err, store.ErrNotFound):
		e.Kind, e.Code = api.Refused, "home"
		e.Message = "the database lacks a record that another one refers to"
		e.Hint = "`forkcell recover` puts it back, or names what is lost"
	default:
		return err
	}
	return e
}
