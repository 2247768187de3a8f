package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/sandbox/live/supervise"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
	"github.com/forkcell/forkcell/receipt"
)

// Race has the forks of a race. They are recorded together with the intent to
// remove them: if the process dies, the next change of the home removes them.
type Race struct {
	e    *Engine
	id   string
	lock *store.Lock // held as long as the race is under way
	cell store.Cell
	base store.Checkpoint // the state that was forked

	attempts []raceFork

	mu     sync.Mutex
	intent raceIntent
}

// RaceOptions describe a race that begins.
type RaceOptions struct {
	Cell     string
	Attempts int
	// Accept reports whether the winner shall become the state of the cell, which
	// must not be live then.
	Accept bool
	// Expect, if set, is the revision that the cell must have. That of the caller would
	// be asked of the attempts, too.
	Expect *int64
	// Keep keeps the cells of the attempts, also if the process dies.
	Keep bool
	// Warm makes the attempts branches of the cell, which must be live, with these
	// policies, limits and credentials. nil makes forks.
	Warm *api.BranchRequest
	// Code says that an attempt is code for the interpreter of its branch.
	Code bool
}

// AttemptVariable has the number of the attempt, in each attempt and its judge. By it
// the records show which run of a cell was that of a race.
const AttemptVariable = "FORKCELL_ATTEMPT"

// Bests returns the rules by which a race can be won, the usual one first.
func Bests() []string {
	return []string{string(receipt.BestExit), string(receipt.BestScore), string(receipt.BestFastest)}
}

// BeginRace forks or branches a cell once for each attempt. The caller ends the race with End.
func (e *Engine) BeginRace(ctx context.Context, o RaceOptions) (*Race, error) {
	from, err := e.FindCell(o.Cell)
	if err != nil {
		return nil, err
	}
	// It is compared again when the forks are recorded: this is for the right refusal.
	if err := e.Store.View(func(tx *store.Tx) error { return home.CheckRevision(tx, from, o.Expect) }); err != nil {
		return nil, err
	}
	if holder, live := e.Supervisor(from); live && o.Accept {
		return nil, e.BusyError(from, "race", &store.BusyError{Holder: holder})
	}
	if o.Accept {
		if err := e.noEarlierWork(from); err != nil {
			return nil, err
		}
	}
	e.settleRaces(ctx)
	r := &Race{e: e, id: store.NewID("race"), intent: raceIntent{Cell: from.Name}}
	if r.lock, err = e.Store.LockCell(ctx, r.id, from.Name, "race", 0); err != nil {
		return nil, err
	}
	if err := r.forkAttempts(ctx, o); err != nil {
		r.lock.Unlock()
		return nil, err
	}
	failpoint.Hit("race.forked")
	return r, nil
}

// forkAttempts makes the cells of the attempts, under the first names that are free. A
// live cell is captured once: a second capture would be a change of the cell since the
// revision that the caller expects.
func (r *Race) forkAttempts(ctx context.Context, o RaceOptions) error {
	var f forking
	if o.Warm == nil {
		var err error
		if f, err = r.e.stateToFork(ctx, api.ForkRequest{Cell: o.Cell}, o.Expect); err != nil {
			return err
		}
		defer f.lock.Unlock()
	}
	for try := 1; ; try++ {
		prefix := racePrefix(o.Cell, try)
		names, err := forkNames(api.ForkRequest{Name: prefix, N: o.Attempts})
		if err != nil {
			return err
		}
		taken, err := r.e.FirstTaken(append(judges(names), names...))
		if err != nil {
			return err
		}
		if taken != "" {
			continue
		}
		from, at, err := r.makeAttempts(ctx, o, f, prefix, names)
		if e, ok := errors.AsType[*api.Error](err); ok && e.Code == api.CodeNameTaken {
			continue // by another process, just now
		}
		r.cell, r.base = from, at
		return err
	}
}

// makeAttempts makes the cells of the attempts: forks of a state, or branches.
func (r *Race) makeAttempts(ctx context.Context, o RaceOptions, f forking, prefix string, names []string) (from store.Cell, at store.Checkpoint, err error) {
	if o.Warm == nil {
		return f.from, f.at, r.fork(ctx, f, names, !o.Keep)
	}
	if o.Code {
		if err := r.e.checkInterpreter(o.Cell); err != nil {
			return from, at, err
		}
	}
	req := *o.Warm
	req.Cell, req.Name, req.N = o.Cell, prefix, o.Attempts
	res, err := r.e.orderBranch(ctx, req, o.Expect, &supervise.RaceOrder{ID: r.id, Keep: o.Keep, Variable: AttemptVariable})
	if err != nil {
		return from, at, err
	}
	r.intent.Live = true
	err = r.e.Store.View(func(tx *store.Tx) error {
		for _, name := range names {
			c, err := tx.Cell(name)
			if err != nil {
				return err
			}
			r.attempts = append(r.attempts, raceFork{c.ID, c.Name})
		}
		if from, err = tx.Cell(o.Cell); err != nil {
			return err
		}
		at, err = tx.Checkpoint(res.CheckpointID)
		return err
	})
	if !o.Keep {
		r.intent.Forks = r.attempts // as the supervisor has recorded it
	}
	return from, at, err
}

// racePrefix returns how the names of the forks of a race begin. It leaves room for
// the number of an attempt, and for its judge.
func racePrefix(cell string, try int) string {
	end := "-race"
	if try > 1 {
		end += fmt.Sprint(try)
	}
	const most = 63 - len("-100-judge")
	return cell[:min(len(cell), most-len(end))] + end
}

func judges(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = n + "-judge"
	}
	return out
}

// Attempts returns the names of the cells of the attempts.
func (r *Race) Attempts() []string {
	names := make([]string, len(r.attempts))
	for i, f := range r.attempts {
		names[i] = f.Name
	}
	return names
}

// ForkForJudge makes a cell with the workspace that an attempt has ended with, and with
// the home and the other areas of the raced cell. It returns the name of the new cell.
// What happens in it leaves no trace in the attempt.
func (r *Race) ForkForJudge(ctx context.Context, attempt, checkpoint string) (string, error) {
	names := judges([]string{attempt})
	f, err := r.e.stateToFork(ctx, api.ForkRequest{Cell: attempt, Checkpoint: checkpoint}, nil)
	if err != nil {
		return names[0], err
	}
	defer f.lock.Unlock()
	sealed, err := r.e.withWorkspaceOf(ctx, f.from, r.base, f.at)
	if err != nil {
		return names[0], err
	}
	if sealed != nil {
		f.next = &nextState{kindJudged, *sealed}
	}
	return names[0], r.fork(ctx, f, names, true)
}

// fork makes cells on a state. In the same transaction it adds them to the intent unless
// they stay.
func (r *Race) fork(ctx context.Context, f forking, names []string, temporary bool) error {
	f.race = r.id
	cells := r.e.forkCells(f.from, f.at, names)
	made := make([]raceFork, len(cells))
	for i, c := range cells {
		made[i] = raceFork{c.ID, c.Name}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.intent
	if temporary {
		next.Forks = slices.Concat(r.intent.Forks, made)
	}
	err := r.e.makeForks(ctx, f, cells, func(tx *store.Tx) error { return putRace(tx, r.id, next) })
	if err != nil {
		return err
	}
	r.intent = next
	if r.attempts == nil {
		r.attempts = made
	}
	return nil
}

// End removes the cells of the race except those to keep, and returns the names of
// the attempts' cells that exist after it. A cell that another process uses stays.
func (r *Race) End(ctx context.Context, keep ...string) (kept []string, err error) {
	defer r.lock.Unlock()
	stays, err := r.e.removeForks(ctx, r.id, r.intent, func(f raceFork) (bool, error) { return slices.Contains(keep, f.Name), nil })
	for _, f := range r.attempts {
		if !slices.Contains(r.intent.Forks, f) || slices.Contains(stays, f.Name) {
			kept = append(kept, f.Name)
		}
	}
	return kept, err
}
