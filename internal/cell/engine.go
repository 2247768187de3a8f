// Package cell is the transaction: checkpoint, governed run, signed receipt,
// then accept, restore or fork.
//
// It is the only place where the store, the workspaces and the driver meet. It
// knows no backend, driver or database by name, and prints nothing.
package cell

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/forkcell/forkcell/internal/driver"
	"github.com/forkcell/forkcell/internal/leftout"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/internal/workspace"
	"github.com/forkcell/forkcell/receipt"
)

// Runner runs processes in a cell.
type Runner interface {
	Run(ctx context.Context, s driver.Spec, io driver.Stdio) (driver.Outcome, error)
	// Start makes a cell that lives until it is closed.
	Start(ctx context.Context, s driver.Spec) (*driver.Cell, error)
	Resolve(s driver.Spec) (driver.Controls, error)
	// SweepRun removes the control group that a dead process left.
	SweepRun(id string) error
	ProbeOverlay(ctx context.Context, dir string) error
	Doctor(ctx context.Context) []driver.Check
}

// Config is what an Engine is made of.
type Config struct {
	Store     *store.Store // nil: a home that does not exist, read as empty
	Workspace *workspace.Store
	// Late, if set, opens what is missing of a home of which only the locks are
	// open, its database and its workspaces. Only a visit can do without.
	Late     func() (*workspace.Store, error)
	Runner   Runner
	Launcher Launcher         // starts supervisors of live cells
	Actor    func() string    // who asks, as far as the host can tell
	Version  string           // of this program, for events
	Home     string           // where the home is, or would be
	Now      func() time.Time // the wall clock; it may jump
	// Hide keeps the memory of this process from being dumped or read by others
	// of its user. It is called when there are secrets in it, and not before the
	// cell's first process exists, whose start it would hinder. nil: nothing.
	Hide func() error
	// OnProgress lets the workspace's progress reach the caller of the present
	// operation.
	OnProgress *ProgressRelay
}

// ProgressRelay hands progress from the workspace to whoever asked for it.
type ProgressRelay struct {
	mu sync.Mutex
	to func(Progress)
}

// Report passes one report on.
func (r *ProgressRelay) Report(p workspace.Progress) {
	r.mu.Lock()
	to := r.to
	r.mu.Unlock()
	if to != nil {
		to(Progress{What: p.What, Files: p.Files, Bytes: p.Bytes, CurrentPath: p.Path})
	}
}

func (r *ProgressRelay) send(to func(Progress)) (stop func()) {
	if r == nil {
		return func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = to
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.to = nil
	}
}

// Engine carries out what the commands ask for.
type Engine struct {
	store    *store.Store
	ws       *workspace.Store
	runner   Runner
	launcher Launcher
	late     func() (*workspace.Store, error)
	actor    func() string
	home     string
	hide     func() error
	version  string
	now      func() time.Time
	relay    *ProgressRelay

	keyLock   sync.Mutex
	signerKey *receipt.Signer // loaded within the first transaction that signs
}

// New makes an Engine.
func New(c Config) *Engine {
	return &Engine{
		store: c.Store, ws: c.Workspace, late: c.Late, runner: c.Runner, launcher: c.Launcher, actor: c.Actor, home: c.Home, version: c.Version, hide: c.Hide,
		now: c.Now, relay: c.OnProgress,
	}
}

// view reads the database; a home that does not exist has nothing in it.
func (e *Engine) view(fn func(*store.Tx) error) error {
	if e.store == nil {
		return store.ErrNotFound
	}
	return e.store.View(fn)
}

// findCell looks a cell up by name.
func (e *Engine) findCell(name string) (store.Cell, error) {
	if err := checkName("cell", name); err != nil {
		return store.Cell{}, err
	}
	var c store.Cell
	err := e.view(func(tx *store.Tx) (err error) {
		c, err = tx.Cell(name)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return c, notFound("cell", name, "`forkcell ls` shows the cells")
	}
	return c, err
}

// findCheckpoint resolves an id, a unique prefix, a name given with checkpoint
// --name, or one of the words head, base and applied.
func (e *Engine) findCheckpoint(tx *store.Tx, c store.Cell, ref string) (store.Checkpoint, error) {
	switch ref {
	case "", "head":
		return tx.Checkpoint(c.Head)
	case "applied":
		return tx.Checkpoint(c.Applied)
	case "base":
		line, err := tx.Lineage(c.Head)
		if err != nil || len(line) == 0 {
			return store.Checkpoint{}, err
		}
		return line[len(line)-1], nil
	}
	found, err := tx.Named(c.ID, ref)
	if !errors.Is(err, store.ErrNotFound) {
		return found, err
	}
	id, err := tx.Complete("checkpoints", ref)
	if err != nil {
		return store.Checkpoint{}, idError("checkpoint", ref, err, "`forkcell log "+c.Name+"` shows them")
	}
	if found, err = tx.Checkpoint(id); err != nil {
		return found, err
	}
	ours, err := e.reaches(tx, c, found)
	if err == nil && !ours {
		other, lookup := tx.CellByID(found.CellID)
		if lookup != nil {
			return found, lookup
		}
		return found, notFound("checkpoint of "+c.Name, ref,
			fmt.Sprintf("it belongs to cell %s: fork that one with --checkpoint", other.LastName))
	}
	return found, err
}

// reaches tells whether a checkpoint is part of a cell's own history, or of the
// history of what it was forked from.
func (e *Engine) reaches(tx *store.Tx, c store.Cell, chk store.Checkpoint) (bool, error) {
	if chk.CellID == c.ID {
		return true, nil
	}
	for _, from := range []string{c.Head, c.ForkedCheckpoint} {
		if from == "" {
			continue
		}
		in, err := inLineage(tx, chk.ID, from)
		if in || err != nil {
			return in, err
		}
	}
	return false, nil
}

// inLineage tells whether id is tip or one of its ancestors.
func inLineage(tx *store.Tx, id, tip string) (bool, error) {
	line, err := tx.Lineage(tip)
	if err != nil {
		return false, err
	}
	for _, c := range line {
		if c.ID == id {
			return true, nil
		}
	}
	return false, nil
}

// findRun resolves a run of a cell; "" is its last one.
func (e *Engine) findRun(tx *store.Tx, c store.Cell, ref string) (store.Run, error) {
	if ref == "" {
		r, err := tx.LastRun(c.ID)
		if errors.Is(err, store.ErrNotFound) {
			return r, notFound("run", c.Name+" has none yet", "`forkcell run "+c.Name+" -- CMD` makes one")
		}
		return r, err
	}
	id, err := tx.Complete("runs", ref)
	if err != nil {
		return store.Run{}, idError("run", ref, err, "`forkcell log "+c.Name+"` shows them")
	}
	r, err := tx.Run(id)
	if err == nil && r.CellID != c.ID {
		return r, notFound("run of "+c.Name, ref, "`forkcell log "+c.Name+"` shows them")
	}
	return r, err
}

func idError(what, ref string, err error, hint string) error {
	if errors.Is(err, store.ErrAmbiguous) {
		return usage("give more of it", "%s %q fits more than one", what, ref)
	}
	if errors.Is(err, store.ErrNotFound) {
		return notFound(what, ref, hint)
	}
	return err
}

// usable refuses a state whose bytes gc has freed.
func usable(c store.Checkpoint) error {
	if c.Freed {
		return refused("freed", "its receipt remains: `forkcell receipt list`", "checkpoint %s was freed by gc", c.ID)
	}
	return nil
}

// layout is a cell as the workspace sees it.
func (e *Engine) layout(c store.Cell) (workspace.Cell, error) {
	rules, err := leftout.New(leftout.Options{NoDefaults: c.Rules.NoDefaults, Extra: c.Rules.Extra, IgnoreFile: c.Rules.IgnoreFile})
	if err != nil {
		return workspace.Cell{}, fmt.Errorf("secret rules of %s: %w", c.Name, err)
	}
	return workspace.Cell{
		ID: c.ID, Backend: workspace.Backend(c.Backend), MountAt: c.MountAt, Live: c.Live, Rules: rules, Kept: c.Kept,
	}, nil
}

// newCheckpoint records what sealing gave.
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
