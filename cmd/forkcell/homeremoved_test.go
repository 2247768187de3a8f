package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
)

// removeHome removes the home of live cells. Their supervisors notice it within seconds,
// and leave neither a process nor a directory.
func removeHome(l *lab, supervisors ...int) {
	l.Helper()
	var cells []int
	for _, pid := range supervisors {
		cells = append(cells, below(pid)...)
	}
	if len(cells) == 0 {
		l.Fatal("the cells have no processes")
	}
	state := filepath.Join(l.dir, "state")
	openAll(state)
	l.ok(os.RemoveAll(state))
	for _, pid := range append(supervisors, cells...) {
		awaitEnd(pid)
	}
	if _, err := os.Stat(state); !errors.Is(err, os.ErrNotExist) {
		l.Errorf("the home is there again: %v", err)
	}
}

// awaitEnd waits for the end of a process that is no child of this one.
func awaitEnd(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it has ended
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// started starts a cell and returns its supervisor.
func (l *lab) started(args ...string) int {
	l.Helper()
	var res api.StartResult
	l.ok(json.Unmarshal([]byte(l.must(append([]string{"start", "--json"}, args...)...)), &res))
	return res.PID
}

// TestHomeRemoved removes the home of a live cell and of a template
// with a branch.
func TestHomeRemoved(t *testing.T) {
	t.Parallel()
	w := newWarmLab(t, "")
	w.must("branch", "box", "--name", "try")
	w.must("fork", "box", "--name", "plain")
	plain := w.started("plain")
	w.must("exec", "plain", "--", "sh", "-c", `(setsid sh -c "trap '' TERM HUP; while :; do sleep 1; done" >/dev/null 2>&1 &)`)
	removeHome(w.lab, w.template.PID, plain)
}

// TestGvisorHomeRemoved is the same for a guest of the runtime gvisor and its branch.
func TestGvisorHomeRemoved(t *testing.T) {
	runtime := os.Getenv("FORKCELL_TEST_GVISOR")
	if runtime == "" {
		t.Skip("make test-gvisor builds the runtime and runs this test")
	}
	t.Parallel()
	l := newLab(t)
	l.env = append(l.env, "PATH="+os.Getenv("PATH")+":"+filepath.Dir(runtime))
	l.must("init", "box", "--from", "work", "--runtime", "gvisor")
	pid := l.started("box")
	l.must("branch", "box", "--name", "try")
	removeHome(l, pid)
}
