package cell

import (
	"context"
	"syscall"

	"github.com/forkcell/forkcell/internal/driver"
	"github.com/forkcell/forkcell/internal/failpoint"
)

// run executes the command. It returns when no process of the cell is left, in all
// cases.
func (r *run) run(ctx context.Context, stdio Stdio) {
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
