package native

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
	"github.com/forkcell/forkcell/internal/sandbox/kernel/cgroup"
)

// Freeze stops every process of the cell, its first one included, and returns
// when all have stopped. An *UnenforceableError says that this host cannot: the
// cell was not started as Freezable, or no freezer is to be had here.
func (c *Cell) Freeze(ctx context.Context) error {
	if c.limits.group == nil {
		return &driver.UnenforceableError{Control: "freezer", Reason: "the cell was not started to be frozen"}
	}
	err := c.limits.group.Freeze(ctx)
	if no, ok := errors.AsType[*cgroup.UnsupportedError](err); ok {
		return c.noFreezer(no)
	}
	return err
}

// noFreezer gives the reason that the host gave when it was looked at.
func (c *Cell) noFreezer(no *cgroup.UnsupportedError) error {
	out := &driver.UnenforceableError{Control: "freezer", Reason: no.Reason, Remedy: no.Remedy}
	if host := c.limits.host; host != nil {
		if can := host.Can(cgroup.Freezer); can.Status != cgroup.Works {
			out.Reason, out.Remedy = can.Reason, can.Remedy
		}
	}
	return out
}

// Thaw lets the processes go on.
func (c *Cell) Thaw() error { return c.limits.group.Thaw() }

// Usage returns what the cell's processes have used so far.
func (c *Cell) Usage() driver.Usage { return c.limits.usage() }

// Terminate asks every process of the cell but the first to end, with SIGTERM,
// and waits for those that it asked until the limit. It says whether all of them
// ended. A process that starts meanwhile is not asked; Close ends it.
func (c *Cell) Terminate(limit time.Duration) (bool, error) {
	list, err := c.processes()
	if err != nil {
		return false, err
	}
	var fds []int
	for _, p := range list {
		if p.PID == 1 {
			continue
		}
		k, err := openStarted(p.HostPID, p.ticks)
		if err != nil {
			continue // it has ended
		}
		defer k.close()
		fds = append(fds, int(k.file.Fd()))
		_ = k.signal(unix.SIGTERM)
		// One that was stopped must go on to hear it.
		_ = k.signal(unix.SIGCONT)
	}
	return awaitAll(fds, limit)
}

// awaitAll waits until the processes behind pidfds have ended.
func awaitAll(fds []int, limit time.Duration) (bool, error) {
	deadline := time.Now().Add(limit)
	for len(fds) > 0 {
		left := time.Until(deadline)
		if left <= 0 {
			return false, nil
		}
		polls := make([]unix.PollFd, len(fds))
		for i, fd := range fds {
			polls[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
		}
		_, err := unix.Poll(polls, int(left.Milliseconds())+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false, err
		}
		fds = fds[:0]
		for _, p := range polls {
			if p.Revents == 0 {
				fds = append(fds, int(p.Fd))
			}
		}
	}
	return true, nil
}
