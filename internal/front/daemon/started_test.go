package daemon_test

import (
	"fmt"
	"os"
	"strings"
)

// started is a process. Its number is used again when it has ended, so it is known by
// its number and its start together.
type started struct {
	pid  int
	time string
}

func newStarted(pid int) started { return started{pid, startTime(pid)} }

// exists reports whether the process has not ended.
func (p started) exists() bool { return p.time != "" && startTime(p.pid) == p.time }

// startTime returns when a process started, in the kernel's units; "" if there is no
// such process.
func startTime(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name before it has no such end
	f := strings.Fields(rest)
	const state, start = 3, 22
	if len(f) <= start-state || f[0] == "Z" {
		return ""
	}
	return f[start-state]
}
