package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// guests lists the processes below the supervisor that are guests of the runtime gvisor.
func guests(supervisor int) (list []int) {
	for _, pid := range below(supervisor) {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.HasPrefix(string(args), "runsc-sandbox\x00") {
			list = append(list, pid)
		}
	}
	return list
}

// TestGvisorGuestKilled kills the guest of a cell and that of its branch. Each cell ends
// with its guest, and its run is recorded.
func TestGvisorGuestKilled(t *testing.T) {
	runtime := os.Getenv("FORKCELL_TEST_GVISOR")
	if runtime == "" {
		t.Skip("make test-gvisor builds the runtime and runs this test")
	}
	t.Parallel()
	l := newLab(t)
	l.env = append(l.env, "PATH="+os.Getenv("PATH")+":"+filepath.Dir(runtime))
	l.must("init", "box", "--from", "work", "--runtime", "gvisor")
	supervisor := l.started("box")
	source := guests(supervisor)
	l.must("branch", "box", "--name", "try")
	if all := guests(supervisor); len(source) != 1 || len(all) != 2 {
		t.Fatalf("guests %v, then %v", source, all)
	}
	l.ok(syscall.Kill(source[0], syscall.SIGKILL))
	l.must("exec", "try", "--", "true")
	for _, pid := range guests(supervisor) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // that of the source may have ended by now
	}
	awaitEnd(supervisor)
	for _, cell := range []string{"box", "try"} {
		if out := l.must("log", cell); !strings.Contains(out, "killed, pending") {
			t.Errorf("%s: %s", cell, out)
		}
		if _, _, errs := l.forkcell("exec", cell, "--", "true"); !strings.Contains(errs, "is not started; `forkcell start "+cell+"` starts it") {
			t.Errorf("%s: %s", cell, errs)
		}
	}
}
