package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/storage/store"
	"github.com/forkcell/forkcell/internal/testkit/failpoint"
	"github.com/forkcell/forkcell/internal/text/quote"
)

// run executes the command. It always returns with no process of the cell left.
func (r *run) run(ctx context.Context, stdio Stdio) {
	r.UnlockHome()
	signals := newSignalTap(stdio.Signals)
	keys := &keyTap{from: stdio.In}
	if r.spec.TTY && stdio.In != nil {
		stdio.In = keys
	}
	watched, full := r.watchDisk(ctx)
	outcome, err := r.driver.Run(watched, r.spec, driver.Stdio{
		In: stdio.In, Out: r.out.stdout(stdio.Out), Err: r.out.stderr(stdio.Err),
		Resize: stdio.Resize, Signals: signals.out,
	})
	signal := signals.stop()
	if signal == 0 && keys.pressed.Load() && outcome.Signal == int(syscall.SIGINT) {
		signal = outcome.Signal
	}
	r.outcome = outcome
	r.degraded = append(r.degraded, outcome.Controls.Degraded...)
	r.rec.FinishedAt, r.rec.CPUMicros = r.e.Now().UTC(), max(0, outcome.Usage.CPUMicros)
	r.timings.StartUS = outcome.StartTook.Microseconds()
	r.timings.CommandUS = outcome.CommandTook.Microseconds()
	r.classify(err, signal, ctx.Err() != nil)
	if why := full(); why != "" {
		r.diskFull(why)
	}
	r.explainLimits()
	r.closeJournal()
	failpoint.Hit("run.executed")
}

// classify turns the driver's result into an outcome and an exit code.
func (r *run) classify(err error, signal int, cancelled bool) {
	o := r.outcome
	set := func(outcome string, code, sig int) { r.rec.Outcome, r.rec.ExitCode, r.rec.Signal = outcome, code, sig }
	start, isStart := errors.AsType[*driver.StartError](err)
	switch {
	case isStart && start.Cause == driver.CauseNotFound:
		set(failedRun, 127, 0)
		r.fail("command not found in the cell: " + quote.Arg(r.spec.Args[0]))
	case isStart && start.Cause == driver.CauseNotExecutable:
		set(failedRun, 126, 0)
		why := errors.Unwrap(start.Err) // without the program's name
		if why == nil {
			why = start.Err
		}
		r.fail(fmt.Sprintf("command cannot be executed: %s: %v", quote.Arg(r.spec.Args[0]), why))
	case signal != 0:
		set(interrupted, 128+signal, o.Signal)
	case cancelled:
		set(interrupted, 130, o.Signal)
	case err != nil:
		set(errored, 125, 0)
		r.startError = r.startFailure(err)
		r.fail(r.startError.Error())
	case o.TimedOut:
		set(timedOut, 124, o.Signal)
	case o.Signal != 0:
		set(killed, 128+o.Signal, o.Signal)
	case o.Code != 0:
		set(failedRun, o.Code, 0)
	default:
		set(succeeded, 0, 0)
	}
}

// explainLimits notes the limits that may have ended the command.
func (r *run) explainLimits() {
	if r.rec.Outcome == succeeded || r.errorText != "" {
		return
	}
	u, l := r.outcome.Usage, r.spec.Limits
	switch {
	case u.OOMKills > 0:
		r.fail(fmt.Sprintf("the cell ran out of memory: the limit is %d bytes", l.Memory))
	case u.PIDsHits > 0:
		r.fail(fmt.Sprintf("the cell ran out of processes: the limit is %d", l.PIDs))
	}
}

func (r *run) fail(text string) { r.errorText = quote.Line(text) }

// enoughPIDs is a limit of processes that is enough to start a cell. The threads of
// its first process count, and their number varies.
const enoughPIDs = 16

// codePIDs is the code of errors about a cell that has reached its limit of
// processes.
const codePIDs = api.CodePIDs

// startFailure returns the error for a failed start of a run, or of a further
// command in a cell.
func (r *run) startFailure(err error) error {
	start, ok := errors.AsType[*driver.StartError](err)
	limit := r.spec.Limits.PIDs
	if ok && start.Cause == driver.CauseMemory {
		return &api.Error{
			Kind: api.Refused, Code: api.CodeStart, Err: err, Message: fmt.Sprintf("the cell has too little memory to start: the limit is %d bytes", r.spec.Limits.Memory),
			Hint: "give it more with --memory or limits.memory",
		}
	}
	if !ok || start.Cause != driver.CauseProcesses || limit == 0 {
		return runnerError(err)
	}
	e := &api.Error{
		Kind: api.Refused, Code: codePIDs, Err: err, Message: fmt.Sprintf("the cell has no room for one more process: the limit is %d", limit),
		Hint: "end some of its processes, or give it more with --pids or limits.pids",
	}
	if limit < enoughPIDs {
		e.Message = fmt.Sprintf("the command cannot be started: it and the first process of the cell need more processes than the limit of %d", limit)
		e.Hint = fmt.Sprintf("give --pids %d or more; a policy says limits.pids", enoughPIDs)
	}
	return e
}

func runnerError(err error) error {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e
	}
	start, ok := errors.AsType[*driver.StartError](err)
	if cannot, no := errors.AsType[*driver.UnenforceableError](err); no && (!ok || start.Cause != driver.CauseLandlock) {
		return unenforcedError(cannot, err)
	}
	if !ok {
		return api.Failf(api.CodeRun, err, "run the command")
	}
	if start.Cause == driver.CauseWorkdir {
		return &api.Error{
			Kind: api.Usage, Code: api.CodeWorkdir, Message: "the working directory does not exist in the cell: " + start.Err.Error(),
			Hint: "--workdir is relative to the workspace", Err: err,
		}
	}
	if start.Cause == driver.CauseLandlock {
		return &api.Error{
			Kind: api.Refused, Code: api.CodeUnenforced, Message: "landlock cannot be enforced here: " + start.Err.Error(),
			Hint: "use Linux 6.2 or newer with Landlock switched on, or give --allow-degraded", Err: err,
		}
	}
	return &api.Error{
		Kind: api.Refused, Code: api.CodeStart, Message: fmt.Sprintf("start the cell: %s: %v", start.Step, start.Err),
		Hint: "`forkcell doctor` shows what this host can do", Err: err,
	}
}

// degradedHint is the hint of a control that a run can go without.
const degradedHint = "--allow-degraded runs it all the same, and says so in the receipt"

// unenforcedError returns the error for a control that does not work here.
func unenforcedError(e *driver.UnenforceableError, err error) error {
	var hints []string
	if e.Remedy != "" {
		hints = append(hints, e.Remedy)
	}
	if !e.Always {
		hints = append(hints, degradedHint)
	}
	return &api.Error{Kind: api.Refused, Code: api.CodeUnenforced, Message: e.Error(), Hint: strings.Join(hints, "; "), Err: err}
}

// explainUnusable explains why memory that is whole cannot be used.
func explainUnusable(what, hint string, err error) error {
	saved, ok := errors.AsType[*driver.SavedError](err)
	if !ok {
		return err
	}
	if saved.Remedy != "" {
		hint = saved.Remedy + "; " + hint
	}
	return &api.Error{
		Kind: api.Refused, Code: api.CodeRuntime, Err: err, Message: fmt.Sprintf("%s cannot be used: %s", what, saved.Reason), Hint: hint,
	}
}

// diskRests returns the time between two checks of the space that a run uses, and how
// many times the duration of a check the run is then left alone. The duration depends on
// how much the run has changed. A large limit is checked seldom: a run cannot add a
// large part of it in a few seconds.
func diskRests(limit int64) (interval time.Duration, times int) {
	const (
		shortest, longest = 250 * time.Millisecond, 4 * time.Second
		perSecond         = 16 << 30
	)
	interval = min(longest, max(shortest, time.Duration(limit/(perSecond/int64(time.Second)))))
	if interval > time.Second {
		return interval, 50
	}
	return interval, 10
}

// watchDisk ends the run when it has added more than its policy allows, or when the
// disk of the home has few inodes left. It checks
// at intervals, so the run may add more before it ends: the usual file systems have
// no limit for one directory. The returned context ends with the run; full returns
// the reason why the run was ended, or "".
func (r *run) watchDisk(ctx context.Context) (watched context.Context, full func() string) {
	watched, cancel := context.WithCancel(ctx)
	reasons := make(chan string, 2)
	var all sync.WaitGroup
	watch := func(f func(context.Context) string) {
		all.Go(func() {
			if why := f(watched); why != "" {
				reasons <- why
				cancel()
			}
		})
	}
	watch(r.lastInodes)
	var lost error
	if r.policy.Limits.Disk > 0 || r.Budget != nil {
		before, err := r.work.Usage(ctx)
		if err != nil {
			r.notes = append(r.notes, "limit disk: "+err.Error())
		}
		// The times of files are up to a tick late.
		const tick = 10 * time.Millisecond
		since := time.Now().Add(-2 * tick)
		watch(func(ctx context.Context) string {
			var why string
			why, lost = r.overDisk(ctx, before, since)
			return why
		})
	}
	return watched, func() string {
		cancel()
		all.Wait()
		if lost != nil {
			r.notes = append(r.notes, "limit disk: "+lost.Error())
		}
		select {
		case why := <-reasons:
			return why
		default:
			return ""
		}
	}
}

// inodesRest is the time between two looks at the number of free inodes.
const inodesRest = 250 * time.Millisecond

// lastInodes returns the reason to end the run when the disk of the home has few inodes
// left: empty files take no space, and without inodes no other run could go on.
func (r *run) lastInodes(ctx context.Context) string {
	ticks := time.NewTicker(inodesRest)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return ""
		case <-ticks.C:
		}
		if err := r.e.Store.RefuseFewInodes(); errors.Is(err, store.ErrFull) {
			r.limitHit(driver.LimitHit{Limit: "disk", Count: 1})
			return "the disk of the state directory is full: " + err.Error()
		}
	}
}

// overDisk returns the reason to end the run when it has added too much to the bytes that
// were in use before, and "" when ctx ends first. The error is the reason why a check was
// incomplete.
func (r *run) overDisk(ctx context.Context, before int64, since time.Time) (why string, lost error) {
	interval, times := diskRests(r.diskBound())
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	var last look
	for {
		select {
		case <-ctx.Done():
			return "", lost
		case <-ticks.C:
		}
		begin := time.Now()
		free, _ := r.e.Store.FreeSpace() // what is not known counts as used
		if !last.isOver(begin, free, times) {
			continue
		}
		used, err := r.diskUsage(ctx, since)
		r.diskAdded.Store(max(0, used-before))
		if why := r.tooMuch(used - before + r.turnBytes.Load()); why != "" {
			r.limitHit(driver.LimitHit{Limit: "disk", Count: 1})
			return why, lost
		}
		if ctx.Err() == nil && err != nil {
			lost = err
		}
		last = look{ended: time.Now(), took: time.Since(begin), free: free, left: r.diskLeft()}
	}
}

// look is a count of what a run has added.
type look struct {
	ended time.Time
	took  time.Duration
	free  int64 // space of the disk when it began
	left  int64 // what the run could add then
}

// isOver reports whether it is time for another look: the run is left alone for so many
// times the duration of the last one, or until as much of the disk has been used as the run
// could add, by whomever. So a run that makes looks long cannot write for long unseen.
func (l look) isOver(now time.Time, free int64, times int) bool {
	since := now.Sub(l.ended)
	return since >= time.Duration(times)*l.took || since >= 2*l.took && l.free-free >= l.left
}

// diskBound returns how much the run may add.
func (r *run) diskBound() int64 {
	limit := r.policy.Limits.Disk
	if r.Budget != nil {
		limit = narrower(limit, max(1, r.Budget.Left()))
	}
	return limit
}

// diskLeft returns how much more the run may add than it had added at the last look.
func (r *run) diskLeft() int64 {
	left := int64(math.MaxInt64)
	if limit := r.policy.Limits.Disk; limit > 0 {
		left = limit - r.diskAdded.Load() - r.turnBytes.Load()
	}
	if r.Budget != nil {
		left = min(left, r.Budget.Left())
	}
	return left
}

// tooMuch returns the reason why the run may not add so many bytes, or "".
func (r *run) tooMuch(added int64) string {
	if limit := r.policy.Limits.Disk; limit > 0 && added > limit {
		return fmt.Sprintf("the run added more than its limit of %d bytes to the disk", limit)
	}
	if r.Budget != nil && r.Budget.Use(max(0, added)) != nil {
		return "the run added more to the disk than the quota of its caller leaves"
	}
	return ""
}

// diskUsage returns the space of all files of the run, including deleted ones that
// its processes keep open.
func (r *run) diskUsage(ctx context.Context, since time.Time) (int64, error) {
	named, err := r.work.Usage(ctx)
	if err != nil {
		return named, err
	}
	started := r.started.Load()
	if started == nil {
		return named, nil
	}
	held, err := r.driver.HeldSpace(*started, since)
	return named + held, err
}

// diskFull records in the outcome that the disk ended the command. The start may have
// been cancelled by it: a command can fill the disk before its start is reported.
func (r *run) diskFull(why string) {
	r.startError = nil
	const sig = int(syscall.SIGKILL)
	r.rec.Outcome, r.rec.ExitCode, r.rec.Signal = killed, 128+sig, sig
	r.fail(why)
}
