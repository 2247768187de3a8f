package cell

import (
	"context"
	"fmt"
	"time"

	"github.com/forkcell/forkcell/internal/driver"
)

// diskInterval is how often the space that a run takes is looked at. The cost
// follows what the run has changed, so it is at most a tenth of the time.
const diskInterval = 250 * time.Millisecond

// watchDisk ends the run when it has added more than its policy allows. It
// looks now and then, so the run may add more before it ends: the kernel has no
// limit for one directory on the usual file systems. The returned context ends
// with the run; full tells whether the limit ended it.
func (r *run) watchDisk(ctx context.Context) (watched context.Context, full func() bool) {
	limit := r.policy.Limits.Disk
	if limit == 0 {
		return ctx, func() bool { return false }
	}
	before, err := r.work.Usage(ctx)
	if err != nil {
		r.notes = append(r.notes, "limit disk: "+err.Error())
	}
	watched, cancel := context.WithCancel(ctx)
	var lost error
	met := make(chan bool, 1)
	// The times of files are up to a tick late.
	const tick = 10 * time.Millisecond
	since := time.Now().Add(-2 * tick)
	go func() {
		var over bool
		over, lost = r.overDisk(watched, before+limit, since)
		met <- over
		cancel()
	}()
	return watched, func() bool {
		cancel()
		over := <-met
		if lost != nil {
			r.notes = append(r.notes, "limit disk: "+lost.Error())
		}
		return over
	}
}

// overDisk returns true when more than most bytes are in use, false when ctx
// ends first. The error is why a look did not see everything.
func (r *run) overDisk(ctx context.Context, most int64, since time.Time) (over bool, lost error) {
	timer := time.NewTimer(diskInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, lost
		case <-timer.C:
		}
		begin := time.Now()
		used, err := r.diskUsage(ctx, since)
		if used > most {
			r.limitHit(driver.LimitHit{Limit: "disk", Count: 1})
			return true, lost
		}
		if ctx.Err() == nil && err != nil {
			lost = err
		}
		timer.Reset(max(diskInterval, 10*time.Since(begin)))
	}
}

// diskUsage is the space of all files that the run has: those that have a name,
// and those that its processes alone keep.
func (r *run) diskUsage(ctx context.Context, since time.Time) (int64, error) {
	named, err := r.work.Usage(ctx)
	if err != nil {
		return named, err
	}
	started := r.started.Load()
	if started == nil {
		return named, nil
	}
	held, err := r.e.driver.Held(*started, since)
	return named + held, err
}

// diskFull says in the outcome that the limit ended the command.
func (r *run) diskFull() {
	r.rec.Outcome, r.rec.ExitCode = killed, 137
	r.fail(fmt.Sprintf("the run added more than its limit of %d bytes to the disk", r.policy.Limits.Disk))
}
