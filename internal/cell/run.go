package cell

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/driver"
	"github.com/forkcell/forkcell/internal/failpoint"
	"github.com/forkcell/forkcell/internal/gateway"
	"github.com/forkcell/forkcell/internal/mount"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/quote"
	"github.com/forkcell/forkcell/internal/store"
	"github.com/forkcell/forkcell/internal/workspace"
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

// Run is the transaction: checkpoint, run, seal, prove, decide.
//
// The result is not nil once the run has a record, also when an error says that
// something of Forkcell itself failed.
func (e *Engine) Run(ctx context.Context, req api.RunRequest, stdio Stdio) (*api.RunResult, error) {
	begin := time.Now()
	ready, deaf, cancel := heedSignals(ctx, stdio.Signals)
	defer cancel()
	defer deaf()
	s, err := e.hold(ready, req.Cell, "run", req.Wait)
	if err != nil {
		return nil, err
	}
	defer s.release()
	r, err := s.begin(ready, runRequest{RunRequest: req})
	deaf() // signals are the command's now
	if err == nil && ready.Err() != nil {
		err = errors.Join(ready.Err(), r.forget())
	}
	if err != nil {
		return nil, err
	}
	r.total = begin
	r.timings.PrepareUS = since(begin)

	r.execute(ctx, stdio)
	if stdio.Ended != nil {
		stdio.Ended()
	}

	// From here on the transaction is finished whatever the caller cancels, unless
	// a new signal asks to end: sealing may take long, and the next command can do
	// it.
	ctx = context.WithoutCancel(ctx)
	for len(stdio.Signals) > 0 {
		<-stdio.Signals // it was meant for the command
	}
	sealing, deaf, cancel := heedSignals(ctx, stdio.Signals, syscall.SIGHUP)
	defer cancel()
	err = r.seal(sealing)
	deaf()
	if err != nil {
		return r.result(), err
	}
	if err := r.conclude(ctx); err != nil {
		return r.result(), err
	}
	return r.result(), r.startError
}

// Plan resolves a run's controls and runs nothing.
func (e *Engine) Plan(_ context.Context, req api.RunRequest) (*api.RunPlan, error) {
	c, err := e.findCell(req.Cell)
	if err != nil {
		return nil, err
	}
	var head store.Checkpoint
	err = e.view(func(tx *store.Tx) (err error) {
		head, err = tx.Checkpoint(c.Head)
		return err
	})
	if err != nil {
		return nil, err
	}
	asked, err := e.spec(c, runRequest{RunRequest: req})
	if err != nil {
		return nil, err
	}
	spec := asked.spec
	captured, err := needsGate(asked.policy, networkRequest{NetworkRequest: req.Network})
	if err != nil {
		return nil, err
	}
	if captured {
		spec.Network = &driver.Network{}
	}
	controls, err := e.driver.Resolve(spec)
	if err != nil {
		return nil, runnerError(err)
	}
	cache, err := e.plannedCache(c, head, runRequest{RunRequest: req})
	if err != nil {
		return nil, err
	}
	return &api.RunPlan{
		Cache: cache,
		Cell:  c.Name, Args: recordable(req.Args), EnvNames: envNames(spec.Env), Workdir: spec.Workdir,
		ReadOnly: append([]string{}, spec.ReadOnly...), Checkpoint: head.ID, Root: head.Root(),
		TimeoutUS: spec.Timeout.Microseconds(), PolicyHash: policyHash(asked.policy), Grants: append([]string{}, asked.grants.recorded()...), Degraded: append(append([]string{}, asked.notes...), controls.Degraded...), Controls: api.Controls(controls),
	}, nil
}

// run is one run on its way through the transaction.
type run struct {
	*session
	rec    store.Run
	policy *policy.Policy
	spec   driver.Spec
	work   *workspace.Work
	// started is the driver's record of the cell, once there is one.
	started atomic.Pointer[driver.Record]
	out     *output

	journal *journal
	events  receipt.Events
	pid     int // of the command, inside the cell

	before, after store.Checkpoint
	sealed        workspace.Sealed
	found         *drifted            // what others made of a live directory after the seal
	refused       []workspace.Refused // what a live directory holds and no state can
	outcome       driver.Outcome
	startError    error // the command never ran
	controlsLost  bool  // another process finishes the run, and does not know them
	givenUp       bool  // its live directory is gone, and the cell is removed
	notes         []string
	areas         []workspace.Area
	cache         *api.CacheUse // what the area of the caches stands on, if it has one
	granted       []string      // by --resolve
	grants        []string      // that the policy used
	masks         []mount.Mask
	gateway       *gateway.Gateway
	plainEnv      []string         // without what the gateway adds
	rulings       []receipt.Ruling // policies that came to rule later
	degraded      []string         // what was asked for and is not as it should be
	errorText     string
	earlier       []string // pending runs that an automatic accept decided too
	timings       api.RunTimings
	total         time.Time
}

// begin seals the present, writes the intent down, and opens a writable
// generation.
func (s *session) begin(ctx context.Context, req runRequest) (*run, error) {
	asked, err := s.e.spec(s.cell, req)
	if err != nil {
		return nil, err
	}
	hash, err := s.e.keepPolicy(asked.policy)
	if err != nil {
		return nil, api.Failf(api.CodePolicy, err, "keep the policy")
	}
	r := &run{
		session: s, spec: asked.spec, policy: asked.policy, degraded: asked.notes, areas: asked.areas,
		masks: asked.masks, grants: asked.grants.recorded(),
	}
	opened := r.openGate(ctx, hash, req.network())
	defer func() { _, _ = opened() }() // whatever fails, nobody reads credentials any more
	if req.CheckpointName != "" {
		if err := checkName("checkpoint", req.CheckpointName); err != nil {
			return nil, err
		}
	}
	if err := s.catchUp(ctx); err != nil {
		return nil, err
	}
	if err := s.squash(ctx); err != nil {
		return nil, stateError(s.head, err)
	}
	if err := r.addCache(req); err != nil {
		return nil, err
	}
	r.before, r.after = s.head, s.head
	r.rec = store.Run{
		ID: store.NewID("run"), CellID: s.cell.ID, State: "running", Decision: pending, Before: s.head.ID, After: s.head.ID,
		Command: recordable(req.Args), EnvNames: envNames(r.spec.Env), Workdir: quote.Line(r.spec.Workdir),
		ReadOnly: texts(r.spec.ReadOnly), TimeoutUS: r.spec.Timeout.Microseconds(), Policy: hash,
		RestoreOnFail: req.RestoreOnFail, AcceptOnSuccess: req.AcceptOnSuccess,
		Actor: s.e.caller.Actor(), StartedAt: s.e.now().UTC(),
	}
	// Whoever finishes the run if this process dies knows no more than its record.
	network, _ := needsGate(r.policy, req.network())
	if r.rec.Asked, err = r.asked(network, req.Network.Resolve); err != nil {
		return nil, err
	}
	if req.CheckpointName != "" {
		if err := s.e.store.Update(func(tx *store.Tx) error { return s.name(tx, req.CheckpointName) }); err != nil {
			return nil, err
		}
	}
	if err := s.e.store.Note(func(tx *store.Tx) error { return tx.PutRun(r.rec) }); err != nil {
		return nil, fmt.Errorf("record the run: %w", err)
	}
	failpoint.Hit("run.recorded")
	if err := r.prepare(ctx, opened, req.Network.Resolve); err != nil {
		return nil, errors.Join(err, r.forget())
	}
	return r, nil
}

// prepare opens the generation and says what the driver has to do with it.
func (r *run) prepare(ctx context.Context, opened func() (*gate, error), granted []string) (err error) {
	at := r.at
	at.Areas = r.areas
	if r.work, err = r.e.ws.Begin(ctx, at, r.before.Layer, r.rec.ID); err != nil {
		return areaError(stateError(r.before, fmt.Errorf("prepare the workspace: %w", err)))
	}
	r.spec.ID, r.spec.Mounts = r.rec.ID, r.work.Mounts()
	if !r.policy.Filesystem.IncludeWorkdir {
		r.spec.Mounts = without(r.spec.Mounts, r.cell.MountAt)
	}
	r.masked()
	r.spec.Mounts.Masks = append(r.spec.Mounts.Masks, r.masks...)
	r.spec.Started = r.recordStart
	if err := r.openJournal(); err != nil {
		return err
	}
	env := r.spec.Env
	gate, err := opened()
	if err != nil {
		return err
	}
	r.connect(gate, granted)
	r.out = newOutput(r.e.store, env, r.policy.Limits.Output, r.credentials())
	failpoint.Hit("run.prepared")
	return nil
}

// forget undoes a run that did not get as far as its first process.
func (r *run) forget() error {
	var err error
	if r.work != nil {
		err = r.work.Discard()
	}
	if r.out != nil {
		r.out.discard()
	}
	return errors.Join(err, r.dropJournal(), r.e.store.Update(func(tx *store.Tx) error { return tx.DropRun(r.rec.ID) }))
}

// execute runs the command. Whatever happens, it returns with no process of the
// cell left.
func (r *run) execute(ctx context.Context, stdio Stdio) {
	r.unlockHome()
	signals := newSignalTap(stdio.Signals)
	keys := &keyTap{from: stdio.In}
	if r.spec.TTY && stdio.In != nil {
		stdio.In = keys
	}
	watched, full := r.watchDisk(ctx)
	outcome, err := r.e.driver.Run(watched, r.spec, driver.Stdio{
		In: stdio.In, Out: r.out.stdout(stdio.Out), Err: r.out.stderr(stdio.Err),
		Resize: stdio.Resize, Signals: signals.out,
	})
	signal := signals.stop()
	if signal == 0 && keys.pressed.Load() && outcome.Signal == int(syscall.SIGINT) {
		signal = outcome.Signal
	}
	r.outcome = outcome
	r.degraded = append(r.degraded, outcome.Controls.Degraded...)
	r.rec.FinishedAt = r.e.now().UTC()
	r.timings.StartUS = outcome.StartTook.Microseconds()
	r.timings.CommandUS = outcome.CommandTook.Microseconds()
	r.classify(err, signal, ctx.Err() != nil)
	if full() {
		r.diskFull()
	}
	r.explainLimits()
	r.closeJournal()
	failpoint.Hit("run.executed")
}

// seal makes what the run left a state. Things that no state can hold make the
// run an error and leave the cell where it was, but for a live directory, which is
// where the command left it.
func (r *run) seal(ctx context.Context) error {
	begin := time.Now()
	defer func() { r.timings.SealUS = since(begin) }()
	if err := errors.Join(r.relockHome(), r.e.store.MakeRoom()); err != nil {
		return err
	}
	r.lookBehindMasks()
	r.takeBack(ctx)
	sealed, err := r.work.Seal(ctx)
	bad, unkeepable := errors.AsType[*workspace.UnsealableError](err)
	if unkeepable {
		r.unsealable(bad)
		if r.cell.Live == "" {
			return nil
		}
		sealed, r.refused, err = r.work.SealLive(ctx, store.NewID("op"))
	}
	if errors.Is(err, context.Canceled) {
		r.noteOutcome()
		return &api.Error{
			Kind: api.Failed, Code: api.CodeInterrupted, Message: "interrupted while the run " + r.rec.ID + " was sealed",
			Hint: "its work is kept: the next command that changes the cell finishes it", Err: err,
		}
	}
	if err != nil {
		r.noteOutcome()
		return &api.Error{
			Kind: api.Failed, Code: api.CodeSeal,
			Message: fmt.Sprintf("seal the run %s: %v", r.rec.ID, err),
			Hint:    "its work is kept; mend the cause (see `df`), then any command on the cell finishes it", Err: err,
		}
	}
	r.take(sealed)
	r.noteLiveChanges()
	if unkeepable { // what was not taken stays until gc
		r.sealed.Unchanged = false
	}
	failpoint.Hit("run.sealed")
	return nil
}

func (r *run) take(sealed workspace.Sealed) {
	r.sealed = sealed
	r.rec.Changed = sealed.Changed
	if !sealed.Unchanged {
		r.after = r.e.newCheckpoint(r.cell, r.before.ID, "run", r.rec.ID, sealed)
	}
	r.rec.After = r.after.ID
}

func (r *run) unsealable(bad *workspace.UnsealableError) {
	r.rec.Outcome, r.rec.ExitCode = errored, 125
	r.fail("the result cannot be kept: " + strings.Join(bad.Problems, "; "))
	e := &api.Error{
		Kind: api.Failed, Code: api.CodeUnsealable, Message: "the run's result cannot be kept; the cell stays as it was before",
		Hint: "the files are in " + r.work.Dir() + " until gc", Details: bad.Problems, Err: bad,
	}
	switch {
	case r.cell.Live != "" && r.rec.RestoreOnFail:
		e.Message, e.Hint = "the run's result cannot be kept; the directory is again as it was before", ""
	case r.cell.Live != "":
		e.Message = "the run's result cannot be kept whole; the state after it lacks what cannot be kept"
		e.Hint = "it is still in " + quote.Path(r.cell.Live) + ": remove it there"
	}
	r.startError = e
}

// noteOutcome remembers how the command ended, for the process that will finish
// this transaction. If even that fails, the run will be called interrupted. What
// this one meant to decide is not decided.
func (r *run) noteOutcome() {
	r.rec.State, r.rec.Decision, r.rec.ReceiptID = "running", pending, ""
	_ = r.e.store.Update(func(tx *store.Tx) error { return tx.PutRun(r.rec) })
}

func (r *run) result() *api.RunResult {
	r.timings.TotalUS = since(r.total)
	return &api.RunResult{
		Cell: r.cell.Name, RunID: r.rec.ID, ReceiptID: r.rec.ReceiptID, Outcome: r.rec.Outcome, ExitCode: r.rec.ExitCode,
		Signal: r.rec.Signal, Decision: r.rec.Decision, SplitLinks: append([]string{}, r.sealed.SplitLinks...),
		CheckpointBefore: r.before.ID, CheckpointAfter: r.after.ID, RootBefore: r.before.Root(), RootAfter: r.after.Root(),
		ChangedFiles: r.rec.Changed, PolicyHash: r.rec.Policy, Degraded: append([]string{}, r.degraded...), Controls: api.Controls(r.outcome.Controls), Events: byAction(r.events), Denied: r.deniedNetwork(), Unanswered: r.unansweredNetwork(),
		Notes: append([]string{}, r.notes...), Cache: r.cache, Error: r.errorText, Timings: r.timings,
	}
}

func byAction(e receipt.Events) map[string]int64 {
	counts := map[string]int64{"allowed": 0, "denied": 0}
	maps.Copy(counts, e.ByAction)
	return counts
}

func since(t time.Time) int64 { return time.Since(t).Microseconds() }
