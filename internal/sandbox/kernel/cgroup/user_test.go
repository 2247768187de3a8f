package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// asUser runs this test binary as an ordinary user, in group g if there is one.
func asUser(t *testing.T, g *Group, pattern string, env ...string) {
	t.Helper()
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = exe.Close() }()
	dir, err := os.MkdirTemp("/tmp", "forkcell-cgroup-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chown(dir, testUID, testUID); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", `read go; exec /proc/self/fd/3 "$@"`, "sh", "-test.v", "-test.timeout=2m", "-test.run="+pattern)
	cmd.Dir, cmd.ExtraFiles = dir, []*os.File{exe}
	cmd.Env = append([]string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=/usr/bin:/bin"}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testUID, Gid: testUID}}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if g != nil {
		if err := g.Add(cmd.Process.Pid); err != nil {
			t.Error(err)
		}
	}
	_, _ = fmt.Fprintln(in, "go")
	err = cmd.Wait()
	if err != nil || strings.Contains(out.String(), "no tests to run") {
		t.Errorf("as uid %d: %v\n%s", testUID, err, out.String())
	} else if testing.Verbose() {
		t.Log(out.String())
	}
}

// TestOrdinaryUser is about a user to whom nothing was delegated.
func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Getenv(envDelegated) != "" {
		t.Skip("this run is about a delegated group")
	}
	if os.Geteuid() == 0 {
		asUser(t, nil, "^TestOrdinaryUser$")
		return
	}
	h, err := Detect(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range h.Support() {
		if s.Status == Works {
			continue // a host whose service manager delegates
		}
		if s.Reason == "" || s.Remedy == "" {
			t.Errorf("%+v", s)
		}
	}
	if h.Can(Memory).Status == Missing {
		if _, err := h.Create("x", Limits{Memory: 1 << 20}); err == nil || !strings.Contains(err.Error(), "memory cannot be enforced") {
			t.Errorf("create: %v", err)
		}
	}
}

// TestDelegated runs every test of this package against the real host again, as
// an ordinary user in a group that root has given away.
func TestDelegated(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a group away")
	}
	t.Parallel()
	g := newGroup(t, realHost(t, Options{}, Memory, CPU, PIDs), Limits{Memory: 1 << 30, CPUsMilli: 2000, PIDs: 500})
	handOver(t, g)
	// Where version 2 freezes, version 1 is given away too, for the variants.
	v1 := newGroup(t, realHost(t, Options{WithoutV2: true}, Freezer), Limits{})
	handOver(t, v1)
	both := &Group{dirs: append(append([]*dir{}, g.dirs...), v1.dirs...)}
	asUser(t, both, "^Test(Memory|PIDs|CPU|Freeze|FreezeGivesUp|Kill|CreateAllOrNothing|TwoAtOnce|ManyLeaveNothing|Open|Sweep)$", envDelegated+"=1")
}

func handOver(t *testing.T, g *Group) {
	t.Helper()
	for _, d := range g.Dirs() {
		for _, name := range []string{d, d + "/cgroup.procs", d + "/cgroup.threads", d + "/cgroup.subtree_control", d + "/tasks"} {
			if err := os.Chown(name, testUID, testUID); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
	}
}
