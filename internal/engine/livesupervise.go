package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/home"
	"github.com/forkcell/forkcell/internal/network"
	"github.com/forkcell/forkcell/internal/policy"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/live/supervise"
	"github.com/forkcell/forkcell/internal/sandbox/live/wire"
	"github.com/forkcell/forkcell/internal/storage/mount"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
)

// Supervise carries out the transaction of a live cell: checkpoint, live, seal,
// prove. It calls ready when the cell can be used; if ready fails, everything is
// undone. Otherwise Supervise returns when the cell was stopped and has its
// receipt. The end of ctx stops the cell too, with the outcome interrupted.
func (e *Engine) Supervise(ctx context.Context, order supervise.StartOrder, ready func(*api.StartResult) error) error {
	begin := time.Now()
	values, err := network.TakeValues(order.Secrets)
	if err != nil {
		return api.Usagef("", "%v", err)
	}
	req := startRun(order.Request, values)
	s, err := e.hold(ctx, req.Cell, home.HeldByStart, req.Wait)
	if err != nil {
		return err
	}
	defer s.Release()
	r, err := s.checkpoint(ctx, req)
	if err != nil {
		return err
	}
	r.total = begin
	r.timings.PrepareUS = since(begin)
	l := &liveRun{r: r, req: req, make: r.driver.Start, branches: new(sync.WaitGroup)}
	l.adopt = func(b *liveRun) { l.branches.Go(func() { b.serveBranch(ctx) }) }
	r.spec.Template = order.Request.Warm != nil && cmp.Or(r.rec.Runtime, api.RuntimeNative) == api.RuntimeNative
	if err = l.start(ctx); err == nil && order.Request.Warm != nil {
		if err = l.awaitWarm(ctx, *order.Request.Warm); err != nil && ctx.Err() == nil {
			return errors.Join(err, l.endCold(ctx, err))
		}
	}
	if err == nil {
		err = ready(l.describe())
	}
	if err != nil {
		return errors.Join(err, l.undo(), r.RelockHome(), r.discard())
	}
	err = l.serve(ctx)
	// Branches end with this process.
	l.branches.Wait()
	return err
}

// liveRun is the run of a live cell.
type liveRun struct {
	r   *run
	req runRequest // the request that started it
	// make makes the cell.
	make      func(context.Context, driver.Spec) (driver.Cell, error)
	cell      driver.Cell
	listener  *wire.Listener
	host      *supervise.Host
	began     time.Time
	turns     *turnTaker // nil if it takes no turns
	warm      []string   // the command of a template
	suspended bool       // it is paused on disk
	readyUS   int64      // the time until a template was warm, or a branch answered

	// adopt makes this process serve a branch, and branches counts those that it serves.
	// last is the id of the last order for branches, and lastNames are its cells.
	adopt     func(*liveRun)
	branches  *sync.WaitGroup
	last      string
	lastNames []string
}

// serve serves the cell until it ends, and concludes its run.
func (l *liveRun) serve(ctx context.Context) error {
	l.live(ctx)
	err := l.conclude(context.WithoutCancel(ctx))
	if err == nil {
		err = l.pauseError()
	}
	return errors.Join(err, l.host.Finish(l.r.result(), err))
}

// conclude seals what the cell left, and records its run. A client that has the
// answer may use the cell at once.
func (l *liveRun) conclude(ctx context.Context) error {
	r := l.r
	defer r.Release()
	if err := l.removeScratch(); err != nil {
		r.notes = append(r.notes, "the directory for saved memory could not be removed: "+err.Error())
	}
	if err := r.seal(ctx); err != nil {
		return err
	}
	r.e.Evidence.ForgetKey()
	p, err := r.prove()
	if err != nil {
		return err
	}
	return r.decide(ctx, p)
}

// start starts the cell and makes its socket. After an error the caller calls undo.
func (l *liveRun) start(ctx context.Context) error {
	r := l.r
	r.spec.Freezable = true
	r.showCarrier()
	if err := l.prepareTurns(l.req.turns); err != nil {
		return api.Failf(api.CodeStart, err, "prepare the turns of cell %s", r.Record.Name)
	}
	if err := l.offerPackages(); err != nil {
		return err
	}
	if _, ok := r.driver.(driver.Restorer); ok {
		dir, err := r.e.Images().Scratch(r.rec.ID)
		if err != nil {
			return home.Explain(err)
		}
		r.spec.Scratch = dir
	}
	begin := time.Now()
	l.host = supervise.NewHost(l.config())
	// No client is served before the cell exists: clients that connect earlier wait.
	listening := inBackground(func() (err error) {
		l.listener, err = wire.Listen(r.e.Socket(r.Record))
		return err
	})
	defer func() { _ = listening() }()
	// A cell lives until it is closed: ctx is for its start.
	started, err := l.make(ctx, r.spec)
	if err != nil && r.withoutGateway(err) {
		if err = r.work.Remount(); err == nil {
			started, err = l.make(ctx, r.spec)
		}
	}
	if err != nil {
		return r.startFailure(err)
	}
	l.cell, l.began = started, time.Now()
	r.timings.StartUS = since(begin)
	r.outcome.Controls = started.Controls()
	r.degraded = append(r.degraded, r.outcome.Controls.Degraded...)
	if err := listening(); err != nil {
		return api.Failf(api.CodeSocket, err, "make the socket of cell %s", r.Record.Name)
	}
	l.host.Bind(l.cell, l.listener, r.spec.Env)
	failpoint.Hit("live.started")
	return nil
}

// config returns what the supervisor needs of the run.
func (l *liveRun) config() supervise.Config {
	r := l.r
	return supervise.Config{
		Version: r.e.Version, Name: r.Record.Name, RunID: r.rec.ID,
		MountAt: r.Record.MountAt, Workdir: r.spec.Workdir, User: r.driver.User(), UserName: policy.Sandbox,
		Env: r.spec.Env, Timeout: r.spec.Timeout, AwaitMain: r.awaitMain(),
		NewID: func() string { return store.NewID("exec") }, Recordable: home.Recordable,
		Record: r.recordEvent, Store: r.out.store, Secrets: r.credentials, StartError: r.execFailure,
		Turns: l.turns.request(), Asks: l.turns.asksFrom(), Turn: l.turn,
		Checkpoint: l.checkpoint, Save: l.checkpointMemory, ApplyPolicy: l.applyPolicy, Pause: l.pause, Resume: l.resume, Expire: l.expire,
		Branch: l.branch, Unbranch: l.removeBranches, Eval: l.eval,
	}
}

// awaitMain returns how long the cell waits for the command that it ends with.
func (r *run) awaitMain() time.Duration {
	if r.rec.Session == nil {
		return 0
	}
	return api.AgentLimit
}

// execFailure returns the error for a further command in a cell that could not be
// started.
func (r *run) execFailure(err error) error {
	if errors.Is(err, driver.ErrHeld) {
		return api.TemplateError(r.Record.Name)
	}
	if _, ok := errors.AsType[*driver.StartError](err); !ok {
		return r.startFailure(err)
	}
	return api.WithHint(r.startFailure(err), codePIDs,
		fmt.Sprintf("end some of its processes, or stop the cell and start it with more of them, at least %d", enoughPIDs))
}

func (l *liveRun) describe() *api.StartResult {
	r := l.r
	res := &api.StartResult{
		Cell: r.Record.Name, CellID: r.Record.ID, RunID: r.rec.ID, PID: os.Getpid(), Socket: r.e.Socket(r.Record),
		StartedAt: r.rec.StartedAt, Degraded: append([]string{}, r.degraded...), Controls: api.Controls(r.outcome.Controls),
		ReadyUS: l.readyUS,
	}
	if r.control != nil {
		res.Control = r.control.files
	}
	return res
}

// undo ends everything that start has made.
func (l *liveRun) undo() error {
	l.closeTurns()
	var err error
	if l.listener != nil {
		err = l.listener.Close()
	}
	if l.cell != nil {
		err = errors.Join(err, l.cell.Close())
	}
	return errors.Join(err, l.removeScratch())
}

// removeScratch removes the directory of a runtime that can save its cell.
func (l *liveRun) removeScratch() error {
	if l.r.spec.Scratch == "" {
		return nil
	}
	return l.r.e.Images().RemoveRun(l.r.rec.ID)
}

// live serves until the cell is to end, or has ended. It returns with no process of
// the cell left.
func (l *liveRun) live(ctx context.Context) {
	l.r.UnlockHome()
	watched, full := l.r.watchDisk(ctx)
	why := l.host.Serve(watched)
	l.r.Ends() // before the socket is closed: a client that finds none reads the reason there
	if watched.Err() != nil && ctx.Err() == nil {
		why.Grace = 0 // the disk is full, and processes could write more during a grace
	}
	l.note(why, l.host.End(why.Grace), full)
	l.host.Close()
	l.closeTurns()
	failpoint.Hit("live.ended")
}

// note records how the cell ended.
func (l *liveRun) note(why supervise.Ending, ended supervise.Ended, full func() string) {
	r := l.r
	if r.rec.Pause != nil {
		why = supervise.Ending{Cause: supervise.Suspended} // whatever else happened then
	}
	if ended.TerminateErr != nil {
		r.notes = append(r.notes, "its processes could not be asked to end: "+ended.TerminateErr.Error())
	}
	r.outcome.Usage = ended.Usage
	if ended.CloseErr != nil {
		r.degraded = append(r.degraded, ended.CloseErr.Error())
	}
	r.rec.FinishedAt, r.rec.CPUMicros = r.e.Now().UTC(), max(0, ended.Usage.CPUMicros)
	r.timings.CommandUS = since(l.began)
	l.noteTurns()
	r.classifyEnding(why)
	if why := full(); why != "" {
		r.diskFull(why)
	}
	r.explainLimits()
	r.closeJournal()
}

// classifyEnding turns the cause of a live cell's end into an outcome and an exit code.
func (r *run) classifyEnding(why supervise.Ending) {
	set := func(outcome string, code, sig int) { r.rec.Outcome, r.rec.ExitCode, r.rec.Signal = outcome, code, sig }
	switch why.Cause {
	case supervise.Stopped, supervise.Suspended:
		set(succeeded, 0, 0)
	case supervise.MainEnded:
		r.classifyMain(why.Exit, set)
	case supervise.TimedOut:
		set(timedOut, 124, 0)
	case supervise.Died:
		const sig = int(syscall.SIGKILL)
		set(killed, 128+sig, sig)
		if r.outcome.Usage.OOMKills <= 0 { // which explains it better
			r.fail("the cell's first process was killed")
		}
	case supervise.Interrupted:
		set(interrupted, 128+int(syscall.SIGTERM), 0)
		r.fail("the supervisor was told to end")
	case supervise.SocketFailed:
		set(errored, 125, 0)
		r.fail(fmt.Sprintf("the cell's socket failed: %v", why.Err))
	case supervise.MainMissing:
		set(errored, 125, 0)
		r.fail("no agent was executed in it")
	case supervise.NotWarm:
		set(failedRun, 1, 0)
		r.fail(why.Err.Error())
	}
}

// classifyMain turns the end of the command that the cell ends with into an outcome.
func (r *run) classifyMain(x wire.Exit, set func(outcome string, code, sig int)) {
	switch {
	case x.TimedOut:
		set(timedOut, x.Code, x.Signal)
	case x.Killed || x.Signal != 0:
		set(killed, x.Code, x.Signal)
	case x.Code != 0:
		set(failedRun, x.Code, 0)
	default:
		set(succeeded, 0, 0)
	}
}

// showCarrier shows this program's file in the cell, where it serves copies and
// forwarded ports. If the file was removed since the start, nothing can be copied.
func (r *run) showCarrier() {
	self, err := os.Executable()
	if err == nil {
		_, err = os.Stat(self)
	}
	if err == nil {
		r.spec.Mounts.Binds = append(r.spec.Mounts.Binds, mount.Bind{Target: supervise.CarrierFile, Source: self, ReadOnly: true})
	}
}
