package native

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/sandbox/driver"
)

// startTime returns the time at which a process started, in clock ticks since
// boot. A pid together with its start time is unique.
func startTime(pid int) (uint64, error) {
	data, err := readProc(fmt.Sprintf("/proc/%d/stat", pid))
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

// firstProcessRecord identifies a cell's first process: a pid together with its
// start time is unique.
type firstProcessRecord struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start_time"`
}

// newRecord returns the record of a cell by its first process.
func newRecord(pid int) (driver.Record, error) {
	start, err := startTime(pid)
	if err != nil {
		return nil, err
	}
	return json.Marshal(firstProcessRecord{PID: pid, Start: start})
}

// parseRecord reads a record, and reports whether it is complete. An incomplete
// one was being written when its writer died, before the first process was
// started.
func parseRecord(r driver.Record) (rec firstProcessRecord, ok bool) {
	err := json.Unmarshal(r, &rec)
	return rec, err == nil
}

// Reap implements driver.Driver.
func (n *Driver) Reap(id string, r driver.Record, limit time.Duration) error {
	if rec, ok := parseRecord(r); ok {
		if err := awaitProcess(rec.PID, rec.Start, limit); err != nil {
			return err
		}
	}
	host, err := n.cgroups()
	if err != nil {
		return err
	}
	return host.SweepDead(id)
}

// awaitProcess returns when the process with this pid and start time has ended.
// If it was a cell's first process, every process of the cell has ended then.
func awaitProcess(pid int, started uint64, limit time.Duration) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("wait for process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	// The start time is read after the descriptor was opened, so it belongs to
	// that process.
	now, err := startTime(pid)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	if now != started {
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
			return fmt.Errorf("process %d: %w", pid, driver.ErrStillRunning)
		}
	}
}
