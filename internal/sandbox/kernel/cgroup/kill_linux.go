package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Kill ends every process of the group, frozen or not, also those that are
// being started, and returns when none is left.
func (g *Group) Kill() error {
	if len(g.dirs) == 0 {
		return nil
	}
	// Cleanup must not depend on a caller's context, but must end.
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	if g.v2 != nil && g.v2.has("cgroup.kill") {
		if err := g.v2.write("cgroup.kill", "1"); err != nil {
			return err
		}
		if err := g.thawV1(); err != nil {
			return err
		}
		if err := waitKey(ctx, g.v2, "cgroup.events", "populated", 0); err != nil {
			return fmt.Errorf("cgroup: kill %s: %w", g.v2.path, err)
		}
		return nil
	}
	err := backoff(ctx, g.killRound)
	if err != nil {
		return fmt.Errorf("cgroup: kill %s: %w", g.dirs[0].path, err)
	}
	return nil
}

// thawV1 lets killed processes die: a freezer of version 1 holds them.
func (g *Group) thawV1() error {
	if d := g.by[Freezer]; d != nil && !d.v2 {
		return g.Thaw()
	}
	return nil
}

// killRound signals every process that is there, and says whether none was. A
// process that forks faster than it is found meets the next round; with a
// limit on processes that ends soon.
func (g *Group) killRound() (bool, error) {
	d := g.dirs[0]
	first, err := d.pids()
	if err != nil || len(first) == 0 {
		return err == nil, err
	}
	fds := map[int]int{}
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	for _, pid := range first {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			fds[pid] = fd
		}
	}
	// A pid may belong to another process before its descriptor was opened:
	// only what is still in the group now is ours.
	second, err := d.pids()
	if err != nil {
		return false, err
	}
	for pid, fd := range fds {
		if pid == os.Getpid() {
			return false, errors.New("this process is in the group itself")
		}
		if !slices.Contains(second, pid) {
			continue
		}
		err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return false, os.NewSyscallError("pidfd_send_signal", err)
		}
	}
	return false, g.thawV1()
}

// Remove removes the group. Its processes must be gone, or on their way: it
// waits a bounded time for the dying. What is removed already is no error.
func (g *Group) Remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	var errs []error
	for _, d := range g.dirs {
		errs = append(errs, removeDir(ctx, d.path))
		_ = d.file.Close()
	}
	return errors.Join(errs...)
}

func removeDir(ctx context.Context, name string) error {
	var last error
	err := backoff(ctx, func() (bool, error) {
		switch last = unix.Rmdir(name); {
		case last == nil, errors.Is(last, unix.ENOENT):
			return true, nil
		case errors.Is(last, unix.EBUSY), errors.Is(last, unix.EINTR):
			return false, nil
		}
		return false, last
	})
	if err != nil {
		return fmt.Errorf("cgroup: remove %s: %w", name, last)
	}
	return nil
}
