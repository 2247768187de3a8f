package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/evidence/event"
	"github.com/forkcell/forkcell/internal/network"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/live/supervise"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
)

// cellBranched is the state in the event of a cell that was branched.
const cellBranched = "cell branched"

// branching are the branches of one order while they are made. Their cells are
// recorded together with the intent to remove them, as those of a race are: if the
// process dies, the next change of the home removes them.
type branching struct {
	cell   string   // the name of the branched one
	warm   []string // its command, if it is a template
	moment *moment
	// capture sets moment, and the request of each branch.
	capture func(context.Context) error
	// confirm, if set, is called when all have started. If it fails, none is left.
	confirm  func() error
	adopt    func(*liveRun)
	branches *sync.WaitGroup
	e        *Engine // acts for the caller of the order
	asked    string  // the request of the API that asked for them, or ""
	expect   *int64  // the revision that the cell must have; nil is any
	captures bool    // capture makes a state of the cell
	race     *supervise.RaceOrder
	settings api.Settings
	secrets  map[string][]byte
	request  runRequest // of each branch, but for its cell and its secrets
	began    time.Time

	// measure returns the memory of each, once they have started.
	measure func() []int64

	id       string
	lock     *store.Lock // held while they are made
	intent   raceIntent
	children []*liveRun
}

// branch makes branches of the cell, all or none. This process supervises them.
func (l *liveRun) branch(ctx context.Context, o supervise.BranchOrder) (*api.BranchResult, error) {
	defer wipe(o.Secrets)
	if err := l.branchable(); err != nil {
		return nil, err
	}
	if t, ok := l.cell.(driver.Template); ok {
		defer t.Expect()()
	}
	if err := home.Explain(l.r.e.Store.RefuseFull()); err != nil {
		return nil, err
	}
	names, err := l.r.e.branchNames(l.r.Record.Name, o.Request)
	if err != nil {
		return nil, err
	}
	b := newBranching(l.r.Record.Name, o)
	b.warm, b.adopt, b.branches, b.captures = l.warm, l.adopt, l.branches, true
	if b.e, err = l.r.e.engineFor(l.r.Record.Name, l.r.policy, o); err != nil {
		return nil, err
	}
	b.capture = func(ctx context.Context) (err error) {
		if b.moment, err = l.moment(ctx); err == nil {
			b.request = l.branchRequest(o.Request, b.moment.at.CheckpointID)
		}
		return err
	}
	if err := b.make(ctx, names); err != nil {
		return nil, err
	}
	l.last, l.lastNames = o.ID, names
	l.r.recordEvent(event.Config(event.Subject{Message: api.Counted(len(names), "branch") + " at " + b.moment.at.CheckpointID}, cellBranched))
	for _, c := range b.children {
		l.adopt(c)
	}
	return b.result(), nil
}

func newBranching(cell string, o supervise.BranchOrder) *branching {
	b := &branching{cell: cell, secrets: o.Secrets, began: time.Now(), id: store.NewID("branch"), asked: o.RequestID, expect: o.Expect, race: o.Race, settings: o.Request.Settings}
	b.measure = sync.OnceValue(func() []int64 { return memoryOfAll(b.children) })
	return b
}

// result describes the branches, which have started.
func (b *branching) result() *api.BranchResult {
	res := &api.BranchResult{Source: b.cell, CheckpointID: b.moment.at.CheckpointID, PauseUS: b.moment.at.PauseUS}
	memory := b.measure()
	for i, c := range b.children {
		res.Children = append(res.Children, api.BranchChild{Cell: c.r.Record.Name, FirstAnswerUS: c.readyUS, MemoryBytes: memory[i], Sockets: c.r.outcome.Controls.Sockets})
	}
	return res
}

// serveBranch serves a branch until it ends.
func (l *liveRun) serveBranch(ctx context.Context) {
	if err := l.serve(ctx); err != nil {
		l.r.e.Logger.Warn("the run of a branch was not concluded", "cell", l.r.Record.Name, "error", err)
	}
}

// removeBranches ends and removes the branches of an order whose client has gone.
func (l *liveRun) removeBranches(id string) error {
	if l.last != id {
		return nil // they were not made
	}
	l.last = ""
	return l.r.e.RemoveAll(context.Background(), l.lastNames, true)
}

// engineFor returns the engine of branches. Their policies are under the policy of the
// branched cell, and under the ceiling of the caller.
func (e *Engine) engineFor(cell string, p *policy.Policy, o supervise.BranchOrder) (*Engine, error) {
	c := e.Caller
	c.Actor, c.ID, c.MayGive, c.Ceiling = func() string { return o.Actor }, o.Caller, giving(o.Bounded), o.Ceiling
	ceiling, err := c.UnderCeiling(p)
	if err != nil {
		return nil, err
	}
	c.Ceiling = &api.PolicyFile{Name: api.Text("the policy of " + cell), Text: ceiling.Canonical(), Grants: c.CeilingGrants()}
	return e.As(c), nil
}

// branchRequest returns the request for a branch: that of the branched cell, with
// what the order changes.
func (l *liveRun) branchRequest(q api.BranchRequest, checkpoint string) runRequest {
	origin := &branchOrigin{}
	origin.setGateway(l.r.gateway)
	origin.Source, origin.SourceRunID, origin.CheckpointID, origin.At = l.r.Record.Name, l.r.rec.ID, checkpoint, l.r.e.Now().UTC()
	return branchRun(l.options(), q, origin)
}

// branchRun returns the request for a branch: options of the branched cell, with what
// an order changes.
func branchRun(o api.RunOptions, q api.BranchRequest, origin *branchOrigin) runRequest {
	if q.Policy != nil {
		o.Policy = q.Policy
	}
	o.Memory, o.CPUs, o.PIDs = narrower(o.Memory, q.Memory), narrower(o.CPUs, q.CPUs), narrower(o.PIDs, q.PIDs)
	o.Timeout, o.Wait = narrower(o.Timeout, q.Timeout), 0
	o.Network.Credentials, o.Network.CredentialsFile, o.Network.SSH, o.Network.Unrestricted = nil, "", nil, false
	return runRequest{RunRequest: api.RunRequest{Args: []string{"branch"}, RunOptions: o}, reloadable: true, origin: origin}
}

// make makes the branches, or none.
func (b *branching) make(ctx context.Context, names []string) (err error) {
	if b.lock, err = b.e.Store.LockCell(ctx, b.id, b.cell, "branch", 0); err != nil {
		return err
	}
	defer b.lock.Unlock()
	if err := b.capture(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.moment.end()) }()
	if err := b.fork(ctx, names, b.moment.at.CheckpointID); err != nil {
		return err
	}
	failpoint.Hit("branch.forked")
	if err = b.start(ctx); err == nil {
		failpoint.Hit("branch.started")
		if b.confirm != nil {
			err = b.confirm()
		}
	}
	if err == nil {
		go b.measure()
		err = b.keep(ctx)
	}
	if err != nil {
		return errors.Join(err, b.remove(context.WithoutCancel(ctx)))
	}
	return nil
}

// fork makes the cells.
func (b *branching) fork(ctx context.Context, names []string, checkpoint string) error {
	c := b.e.Caller
	c.Request = b.asked
	e := b.e.As(c) // only the statements that make the cells are the request's
	f, err := e.stateToFork(ctx, api.ForkRequest{Cell: b.cell, Checkpoint: checkpoint, Settings: b.settings}, nil)
	if err != nil {
		return err
	}
	defer f.lock.Unlock()
	f.expect, f.captured = b.expect, b.captures
	if b.race != nil {
		f.race = b.race.ID
	}
	cells := e.forkCells(f.from, f.at, names)
	b.intent = raceIntent{Cell: f.from.Name}
	for _, c := range cells {
		b.intent.Forks = append(b.intent.Forks, raceFork{c.ID, c.Name})
	}
	b.children = make([]*liveRun, len(cells))
	return e.makeForks(ctx, f, cells, func(tx *store.Tx) error { return putRace(tx, b.id, b.intent) })
}

// start starts every branch. After an error the caller removes those that run.
func (b *branching) start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	room := make(chan struct{}, b.moment.perProcessor*runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	errs := make([]error, len(b.children))
	for i := range b.children {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			if b.children[i], errs[i] = b.child(ctx, i); errs[i] != nil {
				cancel() // the others are not needed
			}
		})
	}
	all.Wait()
	return b.firstFailure(errs)
}

// firstFailure returns the failure that the others followed from.
func (b *branching) firstFailure(errs []error) error {
	var cancelled error
	for i, err := range errs {
		switch {
		case err == nil:
		case errors.Is(err, context.Canceled):
			cancelled = err
		default:
			name := b.intent.Forks[i].Name
			if e, ok := errors.AsType[*api.Error](err); ok {
				other := *e
				other.Message = "branch " + name + ": " + e.Message
				// A branch has the source's options, and branch cannot add this one.
				other.Hint = strings.Replace(e.Hint, degradedHint, "a branch of a cell that was started with `--allow-degraded` goes without it, and says so in its receipt", 1)
				return &other
			}
			return api.Failf(api.CodeBranch, err, "branch %s", name)
		}
	}
	return cancelled
}

// child starts one branch. It is not served yet.
func (b *branching) child(ctx context.Context, i int) (*liveRun, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	began, req := time.Now(), b.request
	req.Cell = b.intent.Forks[i].Name
	if b.race != nil {
		req.Env = append(slices.Clone(req.Env), fmt.Sprintf("%s=%d", b.race.Variable, i+1))
	}
	var err error
	if req.values, err = network.TakeValues(cloneSecrets(b.secrets)); err != nil {
		return nil, api.Usagef("", "%v", err)
	}
	s, err := b.e.hold(ctx, req.Cell, home.HeldByStart, 0)
	if err != nil {
		return nil, err
	}
	r, err := s.checkpoint(ctx, req)
	if err != nil {
		s.Release()
		return nil, err
	}
	r.total, r.timings.PrepareUS = began, since(began)
	l := &liveRun{r: r, req: req, warm: b.warm, adopt: b.adopt, branches: b.branches}
	l.make = func(ctx context.Context, spec driver.Spec) (driver.Cell, error) {
		return b.moment.copy(ctx, l, spec, i+1)
	}
	if err := l.start(ctx); err != nil {
		return nil, errors.Join(err, l.abandon())
	}
	l.readyUS = since(b.began)
	return l, nil
}

// abandon undoes a branch that is not served.
func (l *liveRun) abandon() error {
	defer l.r.Release()
	return errors.Join(l.undo(), l.r.discard())
}

// keep drops the intent to remove the branches. Those of a race are removed with it.
func (b *branching) keep(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	home, err := b.e.Store.LockHome(false)
	if err != nil {
		return err
	}
	defer home.Unlock()
	return b.e.Store.Update(func(tx *store.Tx) error {
		if err := tx.DropIntent(b.id); err != nil || b.race == nil || b.race.Keep {
			return err
		}
		return putRace(tx, b.race.ID, raceIntent{Cell: b.intent.Cell, Forks: b.intent.Forks, Live: true})
	})
}

// remove ends the branches that were started, and removes all of them.
func (b *branching) remove(ctx context.Context) (err error) {
	for _, l := range b.children {
		if l != nil {
			err = errors.Join(err, l.abandon())
		}
	}
	_, removed := b.e.removeForks(ctx, b.id, b.intent, func(raceFork) (bool, error) { return false, nil })
	return errors.Join(err, removed)
}

// cloneSecrets returns a copy of secrets, for an owner of its own.
func cloneSecrets(raw map[string][]byte) map[string][]byte {
	out := map[string][]byte{}
	for name, b := range raw {
		out[name] = slices.Clone(b)
	}
	return out
}
