package driver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ErrStillRunning says that a process did not end in the time allowed.
var ErrStillRunning = errors.New("the process is still running")

// StartTime returns the instant, in clock ticks since boot, at which a process
// started. With it a pid names one process only, ever.
func StartTime(pid int) (uint64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("start time of process %d: %w", pid, err)
	}
	// The second field is the name, in parentheses, and may hold anything.
	end := bytes.LastIndexByte(data, ')')
	fields := bytes.Fields(data[end+1:])
	const startTime = 22 - 3
	if end < 0 || len(fields) <= startTime {
		return 0, fmt.Errorf("start time of process %d: unexpected contents", pid)
	}
	ticks, err := strconv.ParseUint(string(fields[startTime]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("start time of process %d: %w", pid, err)
	}
	return ticks, nil
}

// WaitGone returns when the process that had this pid and start time, and with
// it, if it was a cell's first one, every process of its cell, has ended. After
// limit it gives up with ErrStillRunning.
func WaitGone(pid int, startTime uint64, limit time.Duration) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("wait for process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	// Asked after the descriptor was opened: what it says is about that process.
	now, err := StartTime(pid)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	if now != startTime {
		return nil
	}
	deadline := time.Now().Add(limit)
	for {
		left := max(time.Until(deadline), 0)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait for process %d: %w", pid, err)
		case n > 0:
			return nil
		case left == 0:
			return fmt.Errorf("process %d: %w", pid, ErrStillRunning)
		}
	}
}
