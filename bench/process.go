package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// processorTime is the time that a process has used, user and system, its children
// excluded. The kernel's clock of a process has nanoseconds, where /proc counts
// in hundredths of a second, and includes threads that have ended.
func processorTime(pid int) (time.Duration, error) {
	// CPUCLOCK_SCHED of a thread group, as in clock_getcpuclockid(3).
	const sched = 2
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &at); err != nil {
		return 0, err
	}
	return time.Duration(at.Nano()), nil
}

// children are the processes that a process started and that live.
func children(pid int) ([]int, error) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, list := range lists {
		data, err := os.ReadFile(list)
		if err != nil {
			return nil, err
		}
		for _, field := range bytes.Fields(data) {
			child, err := strconv.Atoi(string(field))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", list, err)
			}
			pids = append(pids, child)
		}
	}
	return pids, nil
}

// memory is the size of processes, in bytes.
type memory struct {
	resident int64
	// proportional counts pages that several processes have for each of them in
	// part. A process that must not be inspected shows it to root only.
	proportional int64
	hidden       bool
}

func (m *memory) add(pid int) error {
	resident, err := kilobytes(fmt.Sprintf("/proc/%d/status", pid), "VmRSS:")
	if err != nil {
		return err
	}
	proportional, err := kilobytes(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss:")
	if errors.Is(err, fs.ErrPermission) {
		m.hidden, err = true, nil
	}
	m.resident += resident
	m.proportional += proportional
	return err
}

// kilobytes reads one line of a file like /proc/PID/status, in bytes.
func kilobytes(file, name string) (int64, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		return n << 10, nil
	}
	return 0, fmt.Errorf("%s has no line %s", file, name)
}
