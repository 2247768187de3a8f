package cgroup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// stopWithin bounds how long Freeze, Kill and Remove wait for the kernel.
const stopWithin = 10 * time.Second

// Freeze stops every process of the group and returns when all have stopped. If
// ctx ends before, or they do not stop within ten seconds, they run again and
// the error says so.
func (g *Group) Freeze(ctx context.Context) error {
	d := g.by[Freezer]
	if d == nil {
		return &UnsupportedError{Control: Freezer, Reason: "the group has no freezer"}
	}
	ctx, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	var err error
	if d.v2 {
		err = freezeV2(ctx, d)
	} else {
		err = freezeV1(ctx, d)
	}
	if err != nil {
		return errors.Join(err, g.Thaw())
	}
	return nil
}

func freezeV2(ctx context.Context, d *dir) error {
	if err := d.write("cgroup.freeze", "1"); err != nil {
		return err
	}
	if err := waitKey(ctx, d, "cgroup.events", "frozen", 1); err != nil {
		return fmt.Errorf("cgroup: freeze %s: %w", d.path, err)
	}
	return nil
}

// freezeV1 asks again on every round: a process that starts while the others
// stop can leave the state at FREEZING.
func freezeV1(ctx context.Context, d *dir) error {
	return backoff(ctx, func() (bool, error) {
		if err := d.write("freezer.state", "FROZEN"); err != nil {
			return false, err
		}
		state, err := d.read("freezer.state")
		return strings.TrimSpace(state) == "FROZEN", err
	})
}

// Thaw lets the processes go on. A group that is not frozen stays as it is.
func (g *Group) Thaw() error {
	d := g.by[Freezer]
	switch {
	case d == nil:
		return &UnsupportedError{Control: Freezer, Reason: "the group has no freezer"}
	case d.v2:
		return d.write("cgroup.freeze", "0")
	}
	return d.write("freezer.state", "THAWED")
}

// backoff calls done until it says so, with growing pauses.
func backoff(ctx context.Context, done func() (bool, error)) error {
	pause := 50 * time.Microsecond
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		timer.Reset(pause)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
		pause = min(2*pause, 20*time.Millisecond)
	}
}

// waitKey waits until a key of a file has a value. The kernel wakes a poll on
// these files whenever they change.
func waitKey(ctx context.Context, d *dir, name, key string, want int64) error {
	w, err := newWaker(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	fd, err := d.open(name, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	for {
		text, err := readFrom(fd)
		if err != nil {
			return err
		}
		values, err := parseKeyed(text)
		if err != nil {
			return err
		}
		if values[key] == want {
			return nil
		}
		if err := w.wait(ctx, []int{fd}, nil, -1); err != nil {
			return err
		}
	}
}
