package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/held"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/evidence/statements"
	"github.com/forkcell/forkcell/internal/network"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/storage/mount"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/storage/workspace"
	"github.com/forkcell/forkcell/receipt"
)

// Outcomes of a run.
const (
	succeeded   = string(receipt.Succeeded)
	failedRun   = string(receipt.Failed)
	timedOut    = string(receipt.TimedOut)
	killed      = string(receipt.Killed)
	interrupted = string(receipt.Interrupted)
	errored     = string(receipt.Errored)
)

// Decisions about a run.
const (
	pending    = string(receipt.Pending)
	accepted   = string(receipt.Accepted)
	rejected   = string(receipt.Rejected)
	restored   = string(receipt.Restored)
	partial    = string(receipt.Partial)
	forked     = string(receipt.Forked)
	superseded = string(receipt.Superseded)
)

// Run carries out the transaction: checkpoint, run, seal, prove, decide.
//
// The result is set once the run has a record, even if an error reports a failure
// of Forkcell itself.
func (e *Engine) Run(ctx context.Context, req api.RunRequest, stdio Stdio) (*api.RunResult, error) {
	begin := time.Now()
	ready, unwatch, cancel := cancelOnSignal(ctx, stdio.Signals)
	defer cancel()
	defer unwatch()
	s, err := e.hold(ready, req.Cell, "run", req.Wait)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	own, err := e.withOwn(s.Record, req.Policy)
	if err != nil {
		return nil, err
	}
	s.actAs(own)
	req.RunOptions = e.addPins(s.Record, req.RunOptions)
	r, err := s.checkpoint(ready, runRequest{RunRequest: req})
	unwatch() // from here on signals go to the command
	if err == nil && ready.Err() != nil {
		err = errors.Join(ready.Err(), r.discard())
	}
	if err != nil {
		return nil, err
	}
	defer e.shared.outputs.add(r.rec.ID, r.out)()
	if stdio.Begun != nil {
		stdio.Begun(r.rec.ID)
	}
	r.total = begin
	r.timings.PrepareUS = since(begin)

	r.run(ctx, stdio)
	if stdio.Ended != nil {
		stdio.Ended()
	}

	// From here on the transaction continues even if the caller cancels it. Only a
	// new signal ends it: sealing may take long, and the next command can do it.
	ctx = context.WithoutCancel(ctx)
	for len(stdio.Signals) > 0 {
		<-stdio.Signals // it was meant for the command
	}
	sealing, unwatch, cancel := cancelOnSignal(ctx, stdio.Signals, syscall.SIGHUP)
	defer cancel()
	err = r.seal(sealing)
	unwatch()
	if err != nil {
		return r.result(), err
	}
	p, err := r.prove()
	if err != nil {
		return r.result(), err
	}
	if err := r.decide(ctx, p); err != nil {
		return r.result(), err
	}
	res := r.result()
	e.Logger.Debug("run", "cell", res.Cell, "run", res.RunID, "outcome", res.Outcome, "decision", res.Decision, "timings", res.Timings)
	return res, r.startError
}

// Plan resolves the controls of a run without running it.
func (e *Engine) Plan(_ context.Context, req api.RunRequest) (*api.RunPlan, error) {
	c, err := e.FindCell(req.Cell)
	if err != nil {
		return nil, err
	}
	if e, err = e.withOwn(c, req.Policy); err != nil {
		return nil, err
	}
	req.RunOptions = e.addPins(c, req.RunOptions)
	var head store.Checkpoint
	err = e.View(func(tx *store.Tx) (err error) {
		head, err = tx.Checkpoint(c.Head)
		return err
	})
	if err != nil {
		return nil, err
	}
	wanted, err := e.spec(c, runRequest{RunRequest: req})
	if err != nil {
		return nil, err
	}
	spec := wanted.spec
	captured, err := needsGate(wanted.policy, networkRequest{NetworkRequest: req.Network})
	if err != nil {
		return nil, err
	}
	if captured {
		spec.Network = &driver.Network{Programs: wanted.policy.NamesPrograms()}
	}
	controls, err := wanted.driver.Resolve(spec)
	if err != nil {
		return nil, runnerError(err)
	}
	cache, err := e.plannedCache(c, head, runRequest{RunRequest: req})
	if err != nil {
		return nil, err
	}
	return &api.RunPlan{
		Cache: cache,
		Cell:  c.Name, Args: home.Recordable(req.Args), EnvNames: envNames(spec.Env), Workdir: spec.Workdir,
		ReadOnly: append([]string{}, spec.ReadOnly...), Checkpoint: head.ID, Root: head.Root(),
		TimeoutUS: spec.Timeout.Microseconds(), PolicyHash: wanted.policy.Digest(), Grants: append([]string{}, wanted.grants.usedGrants()...), Degraded: append(append([]string{}, wanted.notes...), controls.Degraded...), Controls: api.Controls(controls),
	}, nil
}

// run is the state of one run during the transaction. Each step adds a part.
type run struct {
	*heldCell

	rec store.Run
	// recording is held while rec of a live cell changes: its assurance falls while
	// other work is under way.
	recording sync.Mutex
	runPlan
	runState
	runEvidence
	runEnd
}

// runPlan is the resolved request and policy of a run.
type runPlan struct {
	policy   *policy.Policy
	driver   driver.Driver
	spec     driver.Spec
	areas    []workspace.Area
	masks    []mount.Mask
	control  *controlMasks // nil if control files are not masked
	cache    *api.CacheUse // the shared state under the caches, if any
	granted  []string      // by --resolve
	grants   []string      // that the policy used
	gateway  *network.Gateway
	plainEnv []string // without what the gateway adds
	// limitOutput is how many bytes of each stream are stored.
	limitOutput int64
}

// runState has the states before and after a run, and its working files.
type runState struct {
	work *workspace.Work
	// diskAdded is the disk space that the run had added at the last look, turnBytes that
	// of the states of its turns.
	diskAdded, turnBytes atomic.Int64
	before, after        store.Checkpoint
	sealed               workspace.Sealed
	found                *held.Drifted            // changes of others in a live directory after the seal
	refused              []workspace.RefusedEntry // files of a live directory that no state can hold
	givenUp              bool                     // the live directory is gone, and the cell is being removed
}

// runEvidence is the evidence that the receipt will bind.
type runEvidence struct {
	out     *output
	journal *journal
	// attempted records what was counted of a cell without a network; nil if no journal
	// was begun here.
	attempted func()
	events    receipt.Events
	pid       int              // of the command, inside the cell
	rulings   []receipt.Ruling // policies that replaced the first one
	degraded  []string         // controls that are weaker than requested
	notes     []string
}

// runEnd describes how the command ended.
type runEnd struct {
	// started is the driver's record of the cell, once there is one.
	started      atomic.Pointer[driver.Record]
	outcome      driver.Outcome
	startError   error // the command never ran
	controlsLost bool  // another process finishes the run and does not have them
	errorText    string
	earlier      []string // pending runs that an automatic accept also decided
	timings      api.RunTimings
	total        time.Time
}

// countOutside counts what the run changed outside the workspace.
func (r *run) countOutside() []api.AreaChange {
	list, err := r.e.CountOutside(context.Background(), r.before, r.after)
	if err != nil {
		r.e.Logger.Warn("the changes of a run outside the workspace are not known", "run", r.rec.ID, "error", err)
	}
	return list
}

func (r *run) result() *api.RunResult {
	r.timings.TotalUS = since(r.total)
	return &api.RunResult{
		Cell: r.Record.Name, RunID: r.rec.ID, ReceiptID: r.rec.ReceiptID, Outcome: r.rec.Outcome, ExitCode: r.rec.ExitCode,
		Signal: r.rec.Signal, Decision: r.rec.Decision, SplitLinks: append([]string{}, r.sealed.SplitLinks...),
		CheckpointBefore: r.before.ID, CheckpointAfter: r.after.ID, RootBefore: r.before.Root(), RootAfter: r.after.Root(),
		ChangedFiles: r.rec.Changed, Elsewhere: r.countOutside(), PolicyHash: r.rec.Policy, Degraded: append([]string{}, r.degraded...), Controls: api.Controls(r.outcome.Controls), Events: statements.CountByAction(r.events), Denied: r.deniedNetwork(), Unanswered: r.unansweredNetwork(),
		Notes: append([]string{}, r.notes...), Cache: r.cache, Error: r.errorText, Timings: r.timings,
	}
}
