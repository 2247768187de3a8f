package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/forkcell/forkcell/internal/api"
)

// warmLab is a lab whose cell is a warm template.
type warmLab struct {
	*lab
	template api.StartResult
}

// newWarmLab makes a template that has run a script.
func newWarmLab(t *testing.T, script string, flags ...string) *warmLab {
	t.Helper()
	need(t, "/usr/bin/python3")
	l := newLab(t)
	l.write("load.py", script)
	w := &warmLab{lab: l}
	w.warm(flags...)
	return w
}

// warm makes the cell a template.
func (w *warmLab) warm(flags ...string) {
	w.Helper()
	if !w.made {
		w.must("init", "box", "--from", "work")
		w.made = true
		w.Cleanup(func() { stopLive(filepath.Join(w.dir, "state")) })
	}
	out := w.must(append([]string{"warm", "python", "box", "--json", "--script", "load.py"}, flags...)...)
	w.ok(json.Unmarshal([]byte(out), &w.template))
}

// cells lists the names of the cells.
func (w *warmLab) cells() (names []string) {
	w.Helper()
	var doc struct {
		Cells []struct{ Name, State string }
	}
	w.ok(json.Unmarshal([]byte(w.must("ls", "--json")), &doc))
	for _, c := range doc.Cells {
		names = append(names, c.Name)
	}
	return names
}

// sockets counts the sockets of live cells.
func (w *warmLab) sockets() int {
	w.Helper()
	list, err := os.ReadDir(filepath.Join(w.dir, "state/sockets"))
	w.ok(err)
	return len(list)
}

// onlyTemplate checks that no branch is left, and that the template still works.
func (w *warmLab) onlyTemplate() {
	w.Helper()
	if got := w.cells(); !slices.Equal(got, []string{"box"}) {
		w.Errorf("the cells are %q", got)
	}
	if n := w.sockets(); n != 1 {
		w.Errorf("there are %d sockets", n)
	}
	w.must("branch", "box", "--name", "again")
	if got := w.must("eval", "again", "1 + 1"); got != "2\n" {
		w.Errorf("1 + 1 is %q", got)
	}
	w.must("rm", "--force", "again")
	w.must("gc")
	w.must("receipt", "verify", "--all")
}

// below lists the processes below a process.
func below(pid int) (list []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			list = append(append(list, child), below(child)...)
		}
	}
	return list
}

// interpreters lists the processes below the supervisor that are Python's.
func (w *warmLab) interpreters() (list []int) {
	for _, pid := range below(w.template.PID) {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if strings.HasPrefix(string(name), "python") {
			list = append(list, pid)
		}
	}
	return list
}

// TestBranchFailsWhole: a branch that fails to start ends and removes the others.
func TestBranchFailsWhole(t *testing.T) {
	t.Parallel()
	w := newWarmLab(t, `
import os, sys
os.environ["FORKCELL_AFTER_FORK"] = "__main__:hook"
def hook(number):
    if number == 5:
        raise ValueError("five is refused")
`)
	code, _, errs := w.forkcell("branch", "box", "--name", "try", "-n", "8")
	if code == 0 || !strings.Contains(errs, "branch try-5: ") || !strings.Contains(errs, "five is refused") {
		t.Errorf("exit %d: %s", code, errs)
	}
	w.onlyTemplate()
}

// TestBranchInterrupted: Ctrl-C leaves no branch.
func TestBranchInterrupted(t *testing.T) {
	t.Parallel()
	w := newWarmLab(t, "")
	for _, sockets := range []int{1, 4, 12} {
		cmd := w.command("branch", "box", "--name", "try", "-n", "40")
		w.ok(cmd.Start())
		for w.sockets() < sockets {
			w.ok(unix.Kill(cmd.Process.Pid, 0))
		}
		w.ok(cmd.Process.Signal(unix.SIGINT))
		if err := cmd.Wait(); err == nil {
			t.Fatal("it was not interrupted")
		}
		w.onlyTemplate()
	}
}

// TestEvalInterrupted: Ctrl-C ends the code, and the interpreter stays usable.
func TestEvalInterrupted(t *testing.T) {
	t.Parallel()
	w := newWarmLab(t, "loaded = 1")
	w.must("branch", "box", "--name", "try")
	for _, cell := range []string{"try", "box"} {
		cmd := w.command("eval", cell, "open('begun', 'w').close()\nwhile True: pass")
		w.ok(cmd.Start())
		for code := 1; cell == "try" && code != 0; {
			code, _, _ = w.forkcell("exec", "try", "--", "test", "-e", "begun")
		}
		w.ok(cmd.Process.Signal(unix.SIGINT))
		if err := cmd.Wait(); err == nil {
			t.Error("it was not interrupted")
		}
		if got := w.must("eval", cell, "loaded"); got != "1\n" {
			t.Errorf("loaded is %q in %s", got, cell)
		}
	}
}

// TestBranchSourceKilled kills the warm process while branches are made, and then the
// first process of the template.
func TestBranchSourceKilled(t *testing.T) {
	t.Parallel()
	w := newWarmLab(t, "")
	w.must("branch", "box", "--name", "before")
	warm := slices.Min(w.interpreters())
	cmd := w.command("branch", "box", "--name", "try", "-n", "40")
	w.ok(cmd.Start())
	for w.sockets() < 4 {
		w.ok(unix.Kill(cmd.Process.Pid, 0))
	}
	w.ok(unix.Kill(warm, unix.SIGKILL))
	if err := cmd.Wait(); err == nil {
		t.Error("a dead process was copied")
	}
	if got := w.cells(); !slices.Equal(got, []string{"before", "box"}) {
		t.Errorf("the cells are %q", got)
	}
	for _, args := range [][]string{{"branch", "box"}, {"eval", "box", "1"}} {
		if code, _, errs := w.forkcell(args...); code != 4 || !strings.Contains(errs, "the warm process of cell box has ended") {
			t.Errorf("%q: exit %d: %s", args, code, errs)
		}
	}
	if got := w.must("eval", "before", "1 + 1"); got != "2\n" {
		t.Errorf("1 + 1 is %q", got)
	}
	w.must("stop", "box")
	w.must("stop", "before")
	w.must("receipt", "verify", "--all")
}

// TestBranchesSupervisorKilled: branches end with their supervisor, and the next
// command finishes their runs.
func TestBranchesSupervisorKilled(t *testing.T) {
	t.Parallel()
	w := newWarmLab(t, "")
	w.must("branch", "box", "--name", "try", "-n", "3")
	w.must("exec", "try-1", "--", "sh", "-c", "echo kept > file")
	inside := below(w.template.PID)
	w.kill(w.template.PID)
	for _, name := range []string{"box", "try-1", "try-2", "try-3"} {
		w.must("checkpoint", name)
		var status struct {
			State       string `json:"state"`
			LastOutcome string `json:"last_outcome"`
		}
		w.ok(json.Unmarshal([]byte(w.must("status", name, "--json")), &status))
		if status.State != "idle" || status.LastOutcome != "interrupted" {
			t.Errorf("%s is %+v", name, status)
		}
	}
	for _, pid := range inside {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if _, state, _ := strings.Cut(string(stat), ") "); err == nil && !strings.HasPrefix(state, "Z") {
			t.Errorf("process %s is left", stat)
		}
	}
	if got := w.must("run", "--quiet", "try-1", "--", "cat", "file"); got != "kept\n" {
		t.Errorf("its file has %q", got)
	}
	if page := w.must("receipt", "show", "--cell", "try-2", "--latest"); !strings.Contains(page, "Branch of") {
		t.Error(page)
	}
	w.must("receipt", "verify", "--all")
	w.warm()
	w.must("rm", "--force", "try-1", "try-2", "try-3")
	w.onlyTemplate()
}

// TestManyBranches makes branches while others end, and checks that each has its own
// number, memory and random numbers.
func TestManyBranches(t *testing.T) {
	t.Parallel()
	w := newWarmLab(t, "import random, socket\nloaded = []")
	var all sync.WaitGroup
	var mu sync.Mutex
	random := map[string]bool{}
	for i := range 5 {
		all.Go(func() {
			name := fmt.Sprint("group", i)
			code, _, errs := w.forkcell("branch", "box", "--name", name, "-n", "4")
			if code != 0 {
				t.Errorf("branch: exit %d: %s", code, errs)
				return
			}
			for n := 1; n <= 4; n++ {
				cell := fmt.Sprintf("%s-%d", name, n)
				_, out, errs := w.forkcell("eval", cell, "loaded.append(1); print(random.random()); (socket.gethostname(), len(loaded))")
				first, value, _ := strings.Cut(out, "\n")
				if want := fmt.Sprintf("('%s', 1)\n", cell); value != want {
					t.Errorf("%s answers %q %s", cell, out, errs)
				}
				mu.Lock()
				random[first] = true
				mu.Unlock()
				if code, _, errs := w.forkcell("stop", cell); code != 0 {
					t.Errorf("stop: exit %d: %s", code, errs)
				}
			}
		})
	}
	all.Wait()
	if len(random) != 20 {
		t.Errorf("%d different random numbers of 20", len(random))
	}
	if list := w.interpreters(); len(list) != 1 {
		t.Errorf("%d interpreters are left", len(list))
	}
	w.must("stop", "box")
	ended := time.Now().Add(time.Minute)
	for unix.Kill(w.template.PID, 0) == nil && time.Now().Before(ended) {
		<-time.After(time.Millisecond)
	}
	w.nothingLeft()
}

// TestBranchesWhileOthersEnd makes a hundred branches while a hundred others end.
func TestBranchesWhileOthersEnd(t *testing.T) {
	t.Parallel()
	w := newWarmLab(t, "loaded = []")
	const n = 100
	w.must("branch", "box", "--name", "old", "-n", fmt.Sprint(n))
	var all sync.WaitGroup
	all.Go(func() {
		if code, _, errs := w.forkcell(append([]string{"stop"}, numbered("old", n)...)...); code != 0 {
			t.Errorf("stop: exit %d: %s", code, errs)
		}
	})
	code, _, errs := w.forkcell("branch", "box", "--name", "new", "-n", fmt.Sprint(n))
	all.Wait()
	if code != 0 {
		t.Fatalf("branch: exit %d: %s", code, errs)
	}
	for _, i := range []int{1, n / 2, n} {
		name := fmt.Sprintf("new-%d", i)
		want := fmt.Sprintf("('%s', 1)\n", name)
		if got := w.must("eval", name, "import socket\nloaded.append(1)\n(socket.gethostname(), len(loaded))"); got != want {
			t.Errorf("%s answers %q", name, got)
		}
	}
	if list := w.interpreters(); len(list) != 1+n {
		t.Errorf("%d interpreters, not those of the template and of %d branches", len(list), n)
	}
	w.must(append([]string{"rm", "--force"}, append(numbered("new", n), numbered("old", n)...)...)...)
	if list := w.interpreters(); len(list) != 1 {
		t.Errorf("%d interpreters are left", len(list))
	}
	w.onlyTemplate()
}

// numbered returns the names of n branches.
func numbered(name string, n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("%s-%d", name, i+1))
	}
	return list
}

// TestBranchOnFullDisk: branches on a full disk fail whole, and work when there is
// room again.
func TestBranchOnFullDisk(t *testing.T) {
	t.Parallel()
	need(t, "/usr/bin/python3")
	out := onSmallDisk(t, `
		forkcell init demo --from src >&2
		forkcell warm python demo >&2
		trap 'forkcell rm --force $(forkcell ls | sed 1d | cut -d" " -f1) >&2 || true' EXIT
		dd if=/dev/zero of="$DISK/filler" bs=64k 2>/dev/null || true
		dd if=/dev/zero bs=1k 2>/dev/null >> "$DISK/filler" || true
		code=0
		forkcell branch demo --name try -n 3 2>"$HOME/why" || code=$?
		rm "$DISK/filler"
		cat "$HOME/why" >&2
		test $code = 1
		grep -q 'the disk of the state directory is full' "$HOME/why"
		forkcell ls >&2
		test "$(forkcell ls --json | grep -o '"name":' | wc -l)" = 1
		forkcell branch demo --name try -n 3 >&2
		forkcell eval try-3 1+1
		forkcell rm --force try-1 try-2 try-3 >&2
		forkcell receipt verify --all >&2
	`)
	if out != "2\n" {
		t.Errorf("it answered %q", out)
	}
}
