package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// stopLimit bounds the time until the processes of a template have stopped.
const stopLimit = 5 * time.Second

// hold stops every process of the template but the first one and the spawner, and
// returns when all have stopped. Signals do it, which every host has: nobody is left
// in the template who could send another.
func (t *template) hold(ctx context.Context) error {
	return t.stop(ctx, func() ([]int, error) {
		list, err := t.processes()
		var pids []int
		for _, p := range list {
			if p.HostPID != t.pid {
				pids = append(pids, p.HostPID)
			}
		}
		return pids, err
	})
}

// holdAgain stops the warm process and what it has started, also a copy that was not
// admitted yet. The others are stopped since hold.
func (t *template) holdAgain(ctx context.Context) error {
	if _, err := t.started(); err != nil {
		return t.hold(ctx) // a kernel that does not list children
	}
	return t.stop(ctx, t.started)
}

// stop stops what list returns until it returns nothing that runs.
func (t *template) stop(ctx context.Context, list func() ([]int, error)) error {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		pids, err := list()
		if err != nil {
			return fmt.Errorf("stop the template: %w", err)
		}
		running := 0
		for _, pid := range pids {
			if stopOne(pid) {
				running++
			}
		}
		if running == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d processes of the template do not stop: %w", running, ctx.Err())
		case <-t.gone:
			return errEnded
		case <-time.After(pause):
		}
	}
}

// stopOne stops a process and reports whether it ran.
func stopOne(pid int) bool {
	p, err := readStat(pid)
	if err != nil || strings.Contains("TZX", p.State) {
		return false
	}
	return unix.Kill(pid, unix.SIGSTOP) == nil
}

// started returns the warm process and what it has started: processes without a
// parent are the first one's.
func (t *template) started() (list []int, err error) {
	list = []int{t.warm.pid}
	var visit func(pid int) error
	visit = func(pid int) error {
		children, err := childrenOf(pid)
		for _, child := range children {
			if child == t.warm.pid || child == t.helper || t.isCopy(child) {
				continue
			}
			list = append(list, child)
			err = errors.Join(err, visit(child))
		}
		return err
	}
	return list, errors.Join(visit(t.pid), visit(t.warm.pid))
}

// childrenOf lists the children of a process, which may have ended.
func childrenOf(pid int) (list []int, err error) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	threads, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, thread := range threads {
		data, err := os.ReadFile(dir + "/" + thread.Name() + "/children")
		if err != nil {
			return nil, err
		}
		for _, text := range strings.Fields(string(data)) {
			child, err := strconv.Atoi(text)
			if err != nil {
				return nil, err
			}
			list = append(list, child)
		}
	}
	return list, err
}
