package cgroup

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// envOwner has the test binary make a group, put a process in and wait for its
// death.
const envOwner = "FORKCELL_TEST_OWNER"

// own is the part of a supervisor that is killed.
func own(id string) int {
	h, err := Detect(Options{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	g, err := h.Create(id, Limits{PIDs: 10})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	cmd := exec.Command("/bin/sleep", "600")
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	if err := g.Add(cmd.Process.Pid); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(strings.Join(g.Dirs(), " "))
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// startOwner starts a supervisor and returns its group's directories.
func startOwner(t *testing.T, id string) (*exec.Cmd, []string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), envOwner+"="+id)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "/") {
		t.Fatalf("owner: %q, %v", line, err)
	}
	return cmd, strings.Fields(line)
}

func left(dirs []string) (n int) {
	for _, d := range dirs {
		if exists(d) {
			n++
		}
	}
	return n
}

func TestSweep(t *testing.T) {
	t.Parallel()
	h := realHost(t, Options{}, PIDs)
	ours := fmt.Sprintf("test-%d-", os.Getpid())
	alive := func(id string) bool { return !strings.HasPrefix(id, ours+"dead") }
	id := ours + "dead"
	cmd, dirs := startOwner(t, id)
	// While the owner lives, a caller that takes it for dead does no harm.
	if err := h.sweep(alive); err != nil {
		t.Fatal(err)
	}
	if n := left(dirs); n != len(dirs) || n == 0 {
		t.Fatalf("%d of %d directories of a living owner are left", n, len(dirs))
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := h.sweep(func(string) bool { return true }); err != nil || left(dirs) != len(dirs) {
		t.Fatalf("a sweep took what is called alive: %v", err)
	}
	if err := h.sweep(alive); err != nil {
		t.Fatal(err)
	}
	if n := left(dirs); n != 0 {
		t.Errorf("%d directories are left", n)
	}
}

// A process that was killed holds its locks for a moment longer.
func TestSweepDead(t *testing.T) {
	t.Parallel()
	h := realHost(t, Options{}, PIDs)
	for i := range 5 {
		id := fmt.Sprintf("test-%d-killed-%d", os.Getpid(), i)
		cmd, dirs := startOwner(t, id)
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := h.SweepDead(id); err != nil {
			t.Error(err)
		}
		if n := left(dirs); n != 0 || len(dirs) == 0 {
			t.Errorf("%d of %d directories are left", n, len(dirs))
		}
		_ = cmd.Wait()
	}
}
