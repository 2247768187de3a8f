package cell

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/driver"
	"github.com/forkcell/forkcell/internal/event"
	"github.com/forkcell/forkcell/internal/failpoint"
	"github.com/forkcell/forkcell/internal/gateway"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/internal/supervise"
)

// cellBranched is the state in the event of a cell that was branched.
const cellBranched = "cell branched"

// branching are the branches of one order while they are made. Their cells are
// recorded together with the intent to remove them, as those of a race are: if the
// process dies, the next change of the home removes them.
type branching struct {
	source   *liveRun
	template driver.Template
	e        *Engine // acts for the caller of the order
	secrets  map[string][]byte
	request  runRequest // of each branch, but for its cell and its secrets
	began    time.Time

	id       string
	lock     *store.Lock // held while they are made
	intent   raceIntent
	children []*liveRun
}

// branch makes branches of the cell, all or none. call is the context of the order,
// life that of this process, which supervises them.
func (l *liveRun) branch(call, life context.Context, o supervise.BranchOrder) (*api.BranchResult, error) {
	defer wipe(o.Secrets)
	began := time.Now()
	template, ok := l.cell.(driver.Template)
	if !ok {
		return nil, notTemplate(l.r.cell.Name)
	}
	if err := Explain(l.r.e.store.RefuseFull()); err != nil {
		return nil, err
	}
	names, err := l.branchNames(o.Request)
	if err != nil {
		return nil, err
	}
	at, err := l.checkpoint(call, "")
	if err != nil {
		return nil, err
	}
	b := &branching{source: l, template: template, secrets: o.Secrets, began: began, id: store.NewID("branch")}
	if b.e, err = l.engineFor(o); err != nil {
		return nil, err
	}
	b.request = l.branchRequest(o.Request, at.CheckpointID)
	if err := b.make(call, names, at.CheckpointID); err != nil {
		return nil, err
	}
	l.last, l.lastNames = o.ID, names
	l.r.recordEvent(event.Config(event.Subject{Message: api.Counted(len(names), "branch") + " at " + at.CheckpointID}, cellBranched))
	res := &api.BranchResult{Source: l.r.cell.Name, CheckpointID: at.CheckpointID, PauseUS: at.PauseUS}
	for _, c := range b.children {
		res.Children = append(res.Children, api.BranchChild{
			Cell: c.r.cell.Name, FirstAnswerUS: c.readyUS, MemoryBytes: memoryOf(c.cell),
		})
		l.branches.Go(func() { c.serveBranch(life) })
	}
	return res, nil
}

// serveBranch serves a branch until it ends.
func (l *liveRun) serveBranch(ctx context.Context) {
	if err := l.serve(ctx); err != nil {
		l.r.e.logger.Warn("the run of a branch was not concluded", "cell", l.r.cell.Name, "error", err)
	}
}

// unbranch ends and removes the branches of an order whose client has gone.
func (l *liveRun) unbranch(ctx context.Context, id string) error {
	if l.last != id {
		return nil // they were not made
	}
	l.last = ""
	return l.r.e.RemoveAll(context.WithoutCancel(ctx), l.lastNames, true)
}

// branchNames returns the names of new cells. Without a name they are called after
// the branched cell.
func (l *liveRun) branchNames(q api.BranchRequest) ([]string, error) {
	if q.Name != "" {
		return forkNames(api.ForkRequest{Name: q.Name, N: q.N})
	}
	for try := 1; ; try++ {
		names, err := forkNames(api.ForkRequest{Name: branchPrefix(l.r.cell.Name, try), N: q.N})
		if err != nil {
			return nil, err
		}
		if free, err := l.r.e.namesFree(names); err != nil || free {
			return names, err
		}
	}
}

// branchPrefix returns the name of a branch, or how it begins. It leaves room for a
// number.
func branchPrefix(cell string, try int) string {
	end := "-branch"
	if try > 1 {
		end += fmt.Sprint(try)
	}
	const most = 63 - len("-10000")
	return cell[:min(len(cell), most-len(end))] + end
}

// engineFor returns the engine of branches. Their policies are under the policy of the
// branched cell, and under the ceiling of the caller.
func (l *liveRun) engineFor(o supervise.BranchOrder) (*Engine, error) {
	c := l.r.e.caller
	c.Actor, c.Ceiling = func() string { return o.Actor }, o.Ceiling
	ceiling, err := c.under(l.r.policy)
	if err != nil {
		return nil, err
	}
	c.Ceiling = &api.PolicyFile{Name: api.Text("the policy of " + l.r.cell.Name), Text: ceiling.Canonical()}
	return l.r.e.As(c), nil
}

// branchRequest returns the request for a branch: that of the branched cell, with
// what the order changes.
func (l *liveRun) branchRequest(q api.BranchRequest, checkpoint string) runRequest {
	o := l.req.RunOptions
	if len(l.r.rulings) > 0 {
		o.Policy = nil // the cell got another one since it was started
	}
	if q.Policy != nil {
		o.Policy = q.Policy
	}
	o.Memory, o.CPUs, o.PIDs = narrower(o.Memory, q.Memory), narrower(o.CPUs, q.CPUs), narrower(o.PIDs, q.PIDs)
	o.Timeout, o.Wait = narrower(o.Timeout, q.Timeout), 0
	o.Network.Credentials, o.Network.CredentialsFile = nil, ""
	origin := &branchOrigin{gateway: l.r.gateway}
	origin.Source, origin.SourceRunID, origin.CheckpointID, origin.At = l.r.cell.Name, l.r.rec.ID, checkpoint, l.r.e.now().UTC()
	return runRequest{RunRequest: api.RunRequest{Args: []string{"branch"}, RunOptions: o}, reloadable: true, origin: origin}
}

// make makes the branches, or none.
func (b *branching) make(ctx context.Context, names []string, checkpoint string) (err error) {
	if b.lock, err = b.e.store.LockCell(ctx, b.id, b.source.r.cell.Name, "branch", 0); err != nil {
		return err
	}
	defer b.lock.Unlock()
	if err := b.fork(ctx, names, checkpoint); err != nil {
		return err
	}
	failpoint.Hit("branch.forked")
	if err = b.start(ctx); err == nil {
		failpoint.Hit("branch.started")
		err = b.keep(ctx)
	}
	if err != nil {
		return errors.Join(err, b.remove(context.WithoutCancel(ctx)))
	}
	return nil
}

// fork makes the cells.
func (b *branching) fork(ctx context.Context, names []string, checkpoint string) error {
	f, err := b.e.stateToFork(ctx, api.ForkRequest{Cell: b.source.r.cell.Name, Checkpoint: checkpoint})
	if err != nil {
		return err
	}
	defer f.lock.Unlock()
	cells := b.e.forkCells(f.from, f.at, names)
	b.intent = raceIntent{Cell: f.from.Name}
	for _, c := range cells {
		b.intent.Forks = append(b.intent.Forks, raceFork{c.ID, c.Name})
	}
	b.children = make([]*liveRun, len(cells))
	return b.e.makeForks(ctx, f, cells, func(tx *store.Tx) error { return putRace(tx, b.id, b.intent) })
}

// start starts every branch. After an error the caller removes those that run.
func (b *branching) start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	room := make(chan struct{}, 2*runtime.GOMAXPROCS(0))
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
	var err error
	if req.values, err = gateway.TakeValues(cloned(b.secrets)); err != nil {
		return nil, api.Usagef("", "%v", err)
	}
	s, err := b.e.hold(ctx, req.Cell, heldByStart, 0)
	if err != nil {
		return nil, err
	}
	r, err := s.checkpoint(ctx, req)
	if err != nil {
		s.release()
		return nil, err
	}
	r.total, r.timings.PrepareUS = began, since(began)
	l := &liveRun{r: r, req: req, warm: b.source.warm}
	l.make = func(ctx context.Context, spec driver.Spec) (driver.Cell, error) {
		return l.copyOf(ctx, b.template, driver.Branch{Spec: spec, Number: i + 1})
	}
	if err := l.start(ctx); err != nil {
		return nil, errors.Join(err, l.abandon())
	}
	l.readyUS = since(b.began)
	return l, nil
}

// copyOf makes the cell of a branch.
func (l *liveRun) copyOf(ctx context.Context, t driver.Template, b driver.Branch) (driver.Cell, error) {
	var finish func()
	b.Stdio, finish = l.host.Output()
	child, err := t.Branch(ctx, b)
	if errors.Is(err, driver.ErrNotWarm) {
		source := l.req.origin.Source
		err = api.Refusef(api.CodeNotWarm, "`forkcell stop "+source+"`, and make it a template again", "the warm process of cell %s has ended", source)
	}
	if err != nil {
		finish()
		return nil, err
	}
	l.host.Follow(child, l.warm, finish)
	return child, nil
}

// abandon undoes a branch that is not served.
func (l *liveRun) abandon() error {
	defer l.r.release()
	return errors.Join(l.undo(), l.r.forget())
}

// keep drops the intent to remove the branches.
func (b *branching) keep(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	home, err := b.e.store.LockHome(false)
	if err != nil {
		return err
	}
	defer home.Unlock()
	return b.e.store.Update(func(tx *store.Tx) error { return tx.DropIntent(b.id) })
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

// cloned returns a copy of secrets, for an owner of its own.
func cloned(raw map[string][]byte) map[string][]byte {
	out := map[string][]byte{}
	for name, b := range raw {
		out[name] = slices.Clone(b)
	}
	return out
}
