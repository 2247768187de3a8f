package diff

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/storage/fsx"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/tree"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// comparison is a request for a diff, with the two states that it refers to.
type comparison struct {
	e    *Comparer
	cell store.Cell
	req  api.DiffRequest
	// captured has the newest captured state of a live cell stand for its present one,
	// which is not captured.
	captured bool

	from, to store.Checkpoint
	notes    []string

	// waits reports whether runs and earlier are known: the undecided work that is shown,
	// and that which is not.
	waits     bool
	runs      []string
	earlier   []api.EarlierWork
	unapplied int
	// work is the undecided work that the head contains, once it was looked for, and before
	// the state before it.
	work   []home.Work
	before store.Checkpoint
	// only are the paths of the workspace to list; nil is all.
	only map[string]bool
	// source is the state of the source that begin builds on, the state before all
	// undecided work.
	source, begin store.Checkpoint
}

func (d *comparison) note(format string, args ...any) {
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}

// findStates resolves the request to two states, and finds the undecided work between them.
func (d *comparison) findStates(ctx context.Context) error {
	if err := d.resolve(ctx); err != nil {
		return err
	}
	return d.waiting(ctx)
}

// resolve resolves the request to two states.
func (d *comparison) resolve(ctx context.Context) error {
	var refs []string
	for _, ref := range []string{d.req.State, d.req.From, d.req.To} {
		if ref != "" {
			refs = append(refs, ref)
		}
	}
	err := d.exclusive(len(refs))
	switch {
	case err != nil:
	case d.req.Run != "":
		err = d.run(d.req.Run)
	case d.req.SinceApply:
		err = d.sinceApply(ctx)
	case len(refs) == 0:
		err = d.latest(ctx)
	default:
		err = d.compareNamed(ctx, refs)
	}
	if err == nil {
		err = home.CheckUsable(d.from)
	}
	if err == nil {
		err = home.CheckUsable(d.to)
	}
	return err
}

func (d *comparison) exclusive(refs int) error {
	switch {
	case refs > 2:
		return api.Usagef("give two of them", "three states cannot be compared")
	case d.req.Run != "" && refs > 0:
		return api.Usagef("give one of them", "checkpoints and --run exclude each other")
	case d.req.SinceApply && (refs > 0 || d.req.Run != ""):
		return api.Usagef("give one of them", "checkpoints, --run and --since-apply exclude each other")
	}
	return nil
}

// run compares the states before and after a run.
func (d *comparison) run(ref string) error {
	return d.e.View(func(tx *store.Tx) error {
		r, err := d.e.FindRun(tx, d.cell, ref)
		if err != nil {
			return err
		}
		if r.State != "done" {
			return api.Refusef(api.CodeUnfinished, "`forkcell status "+d.cell.Name+"` shows the cell", "run %s has not ended", r.ID)
		}
		if d.from, err = tx.Checkpoint(r.Before); err == nil {
			d.to, err = tx.Checkpoint(r.After)
		}
		return err
	})
}

// latest compares the start of a live cell with its present files. If the cell is not
// live, it shows its undecided work, or, if there is none, its last run.
func (d *comparison) latest(ctx context.Context) error {
	now, err := d.presentState(ctx, d.cell)
	if err != nil {
		return err
	}
	if !now.live {
		if found, err := d.compareUndecided(ctx); found || err != nil {
			return err
		}
		return d.run("")
	}
	if now.missed == nil {
		d.from, d.to = now.head, now.state
		d.note("cell %s is live: its start compared with its present state, captured as %s", d.cell.Name, now.state.ID)
		return nil
	}
	if now.state.ID != now.head.ID {
		d.from, d.to = now.head, now.state
		d.noteMissed(d.cell, now)
		return nil
	}
	last, err := d.lastEnded()
	if err != nil {
		return err
	}
	if last == "" {
		return now.missed
	}
	d.note("cell %s is live, and its present state cannot be captured: %v", d.cell.Name, now.missed)
	d.note("showing its last finished run instead, %s", last)
	return d.run(last)
}

// lastEnded returns the last run of the cell that has ended, or "".
func (d *comparison) lastEnded() (id string, err error) {
	err = d.e.View(func(tx *store.Tx) error {
		r, err := tx.LastRun(d.cell.ID)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		id = r.ID
		return err
	})
	return id, err
}

// sinceApply compares the last known state of the source directory with the present
// state.
func (d *comparison) sinceApply(ctx context.Context) error {
	err := d.e.View(func(tx *store.Tx) (err error) {
		d.from, err = tx.Checkpoint(d.cell.Applied)
		return err
	})
	if err != nil {
		return err
	}
	now, err := d.presentState(ctx, d.cell)
	d.to = now.state
	d.noteMissed(d.cell, now)
	return err
}

// compareNamed compares two named states, or one named state with the present state of the
// cell. A state of the cell itself is then the old side, a state of another cell
// the new side.
func (d *comparison) compareNamed(ctx context.Context, refs []string) error {
	var states []store.Checkpoint
	foreign := false
	for i, ref := range refs {
		chk, other, err := d.find(ctx, ref, i == 0 && d.req.State != "")
		if err != nil {
			return err
		}
		states, foreign = append(states, chk), foreign || other
	}
	if len(states) == 2 {
		d.from, d.to = states[0], states[1]
		return nil
	}
	now, err := d.presentState(ctx, d.cell)
	if err != nil {
		return err
	}
	d.noteMissed(d.cell, now)
	d.from, d.to = states[0], now.state
	// A captured state of a live cell is newer than its start.
	if foreign || now.missed != nil && d.from.Kind == home.KindLive && now.state.ID == now.head.ID {
		d.from, d.to = d.to, d.from
	}
	return nil
}

// find resolves one side of a diff: a state of the cell, or, unless mustOwn is set,
// another cell or a state of one. An ambiguous reference is refused.
func (d *comparison) find(ctx context.Context, ref string, mustOwn bool) (chk store.Checkpoint, foreign bool, err error) {
	var other store.Cell
	var back int
	err = d.e.View(func(tx *store.Tx) error {
		chk, err = d.e.FindCheckpoint(tx, d.cell, ref)
		own := err == nil
		if mustOwn || !own && api.KindOf(err) != api.NotFound {
			return err
		}
		name, n, _ := home.SplitBack(ref)
		if own && home.IsWord(name) {
			return nil
		}
		found, lookup := tx.Cell(name)
		if lookup == nil && !d.e.Caller.MaySee(name) {
			lookup = store.ErrNotFound
		}
		switch {
		case lookup == nil && own && found.ID != d.cell.ID:
			return api.Refusef(api.CodeAmbiguous, "`--checkpoint "+name+"` is the checkpoint; the id of its head is the other cell's state",
				"%s is a checkpoint of %s and also a cell", quote.Arg(name), d.cell.Name)
		case lookup == nil && !own:
			other, back, foreign = found, n, true
			return nil
		case own:
			return nil
		case !errors.Is(lookup, store.ErrNotFound):
			return lookup
		}
		id, lookup := d.e.CompleteID(tx, "checkpoints", name, nil)
		if lookup != nil {
			return api.Missing("checkpoint or cell", ref, "`forkcell log "+d.cell.Name+"` shows its checkpoints, `forkcell ls` the cells")
		}
		foreign = true
		chk, err = home.StateBefore(tx, d.cell, id, n, ref)
		return err
	})
	if err != nil || other.ID == "" {
		return chk, foreign, err
	}
	if back > 0 {
		err = d.e.View(func(tx *store.Tx) error {
			chk, err = home.StateBefore(tx, other, other.Head, back, ref)
			return err
		})
		return chk, foreign, err
	}
	now, err := d.presentState(ctx, other)
	d.noteMissed(other, now)
	return now.state, foreign, err
}

// presentState is the present state of a cell.
type presentState struct {
	head   store.Checkpoint
	state  store.Checkpoint // the head, or the newest captured state of a live cell
	live   bool
	missed error // why a live cell could not be captured
}

// presentState captures a live cell, and returns the head of any other.
func (d *comparison) presentState(ctx context.Context, c store.Cell) (presentState, error) {
	var now presentState
	read := func(into *store.Checkpoint, id string) error {
		return d.e.View(func(tx *store.Tx) (err error) {
			*into, err = tx.Checkpoint(id)
			return err
		})
	}
	if err := read(&now.head, c.Head); err != nil {
		return now, err
	}
	now.state = now.head
	if d.captured {
		return now, d.lastKnown(c, &now)
	}
	captured, err := d.e.capture(ctx, c.Name, "")
	if ctx.Err() != nil {
		return now, ctx.Err()
	}
	now.live, now.missed = captured != nil || err != nil, err
	switch {
	case captured != nil:
		return now, read(&now.state, captured.CheckpointID)
	case now.missed != nil:
		return now, d.e.View(func(tx *store.Tx) (err error) {
			now.state, err = lastCaptured(tx, c, now.head)
			return err
		})
	}
	return now, nil
}

// lastKnown finds the newest captured state of a cell that is live.
func (d *comparison) lastKnown(c store.Cell, now *presentState) error {
	return d.e.View(func(tx *store.Tx) error {
		running, err := tx.UnfinishedRuns(c.ID)
		if now.live = len(running) > 0; err != nil || !now.live {
			return err
		}
		now.state, err = lastCaptured(tx, c, now.head)
		return err
	})
}

// lastCaptured returns the newest state that was captured since a live cell was
// started, such as a turn, or the state that it was started from.
func lastCaptured(tx *store.Tx, c store.Cell, start store.Checkpoint) (store.Checkpoint, error) {
	newest, err := tx.NewestCheckpoints(c.ID, 1)
	if err != nil || len(newest) == 0 || newest[0].Kind != home.KindLive || newest[0].Parent != start.ID {
		return start, err
	}
	running, err := tx.UnfinishedRuns(c.ID)
	for _, r := range running {
		if newest[0].CreatedAt.After(r.StartedAt) {
			return newest[0], err
		}
	}
	return start, err
}

// noteMissed says which state is shown of a live cell that could not be captured.
func (d *comparison) noteMissed(c store.Cell, now presentState) {
	switch {
	case now.missed == nil:
	case now.state.ID == now.head.ID:
		d.note("cell %s is live, and its present state cannot be captured: %v; its start is shown instead", c.Name, now.missed)
	default:
		d.note("cell %s is live, and its present state cannot be captured: %v; its state of %s is shown instead, %s",
			c.Name, now.missed, now.state.CreatedAt.UTC().Format(time.TimeOnly+"Z"), now.state.ID)
	}
}

// paths returns the filter for the paths of the request, which are relative to
// the workspace or absolute.
func (d *comparison) paths() (keep func(tree.Change) bool) {
	listed := func(p string) bool { return d.only == nil || d.only[p] || path.IsAbs(p) }
	if len(d.req.Paths) == 0 {
		return func(ch tree.Change) bool { return listed(ch.Path) }
	}
	var wanted []string
	for _, p := range d.req.Paths {
		p = path.Clean(p)
		if path.IsAbs(p) && fsx.Within(p, d.cell.MountAt) {
			p = path.Clean("./" + p[len(d.cell.MountAt):])
		}
		wanted = append(wanted, p)
	}
	chosen := func(p string) bool {
		for _, w := range wanted {
			if w == "." && !path.IsAbs(p) || fsx.Within(p, w) {
				return true
			}
		}
		return false
	}
	return func(ch tree.Change) bool {
		return listed(ch.Path) && (chosen(ch.Path) || ch.OldPath != "" && chosen(ch.OldPath))
	}
}
