// Package engine implements the transaction: checkpoint, governed run, signed receipt,
// then accept, restore or fork.
//
// It is the only place where the store, the workspaces and the driver meet. It
// knows no backend, driver or database by name, and prints nothing.
package engine

import (
	"io"
	"log/slog"
	"time"

	"github.com/forkcell/forkcell/internal/engine/applies"
	"github.com/forkcell/forkcell/internal/engine/aside"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/engine/diff"
	"github.com/forkcell/forkcell/internal/engine/held"
	"github.com/forkcell/forkcell/internal/engine/history"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/engine/inventory"
	"github.com/forkcell/forkcell/internal/engine/publication"
	"github.com/forkcell/forkcell/internal/engine/transfer"
	"github.com/forkcell/forkcell/internal/evidence/statements"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/storage/workspace"
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
	Caller   caller.Caller    // the caller, unless As sets another
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
	*home.Home
	*transfer.Exchange
	*history.History
	*inventory.Inventory
	*publication.Publisher
	*diff.Comparer
	*applies.Applier
	driver   driver.Driver
	runtimes map[string]driver.Driver
	launcher Launcher
	late     func() (*workspace.Store, error)
	hide     func() error
	lines    LineCounter
	shared   *sharedState
	holder   *held.Holder
	// leftovers is set by New, since what it lists stands on all the rest.
	leftovers func(*Engine) held.Leftovers
}

// sharedState is the state that all engines of one home share.
type sharedState struct {
	history   history.State
	outputs   runningOutputs
	inventory inventory.State
	masks     aside.Memo
	counts    diff.Counts
	requests  requestClock
	// steady is a clock that never jumps.
	steady func() time.Duration
}

// New makes an Engine.
func New(c Config) *Engine {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	h := &home.Home{
		Store: c.Store, Workspace: c.Workspace, Evidence: statements.New(c.Store, c.Workspace, c.Now, c.Caller.Actor),
		Caller: c.Caller, Path: c.Home, Version: c.Version, Now: c.Now, Logger: c.Logger,
	}
	if h.Caller.Closed == nil {
		h.Caller.Closed = h.WrittenDirs
	}
	e := &Engine{
		Home: h, late: c.Late, driver: c.Driver, runtimes: c.Runtimes, launcher: c.Launcher, hide: c.Hide,
		lines: c.Lines, shared: &sharedState{steady: bootTime}, leftovers: leftovers,
	}
	e.compose()
	return e
}

// As returns an engine that acts for a caller. Engines of one home share the rest.
func (e *Engine) As(c caller.Caller) *Engine {
	other := *e
	other.Home = e.Home.As(c)
	other.compose()
	return &other
}

// compose makes the parts of the engine that only need its home.
func (e *Engine) compose() {
	e.holder = &held.Holder{Home: e.Home, Left: e.leftovers(e)}
	e.Exchange = transfer.New(e.Home, e)
	e.Inventory = inventory.New(e.Home, &e.shared.inventory)
	e.History = history.New(e.Home, e.Inventory, &e.shared.history)
	e.Publisher = publication.New(e.holder, &e.shared.masks, e.History)
	e.Comparer = diff.New(e.Inventory, &e.shared.masks, &e.shared.counts, e.checkpointLive)
	e.Applier = applies.New(e.holder, &e.shared.masks)
}

func since(t time.Time) int64 { return time.Since(t).Microseconds() }
