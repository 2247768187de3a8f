package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// ordinary is a user without rights, for a root caller's tests.
const ordinary = 65533

// build builds the program once for the tests of a run.
func build(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "forkcell-gvisor-") // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "forkcell-gvisor")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", program, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// specification is that of a command in a container that sees the host's root, read-only.
func specification(uid int, args ...string) *specs.Spec {
	return &specs.Spec{
		Version: "1.1.0",
		Root:    &specs.Root{Path: "/", Readonly: true},
		Process: &specs.Process{Args: args, Cwd: "/", Env: []string{"PATH=/usr/bin:/bin"}, User: specs.User{UID: uint32(uid), GID: uint32(uid)}},
		Linux:   &specs.Linux{},
	}
}

// TestRun runs commands in a container, in namespaces as a cell has them: as their
// root, and as a user who has one number there and no capability.
func TestRun(t *testing.T) {
	program := build(t)
	for _, uid := range []int{0, ordinary} {
		if uid != 0 && os.Geteuid() != 0 {
			uid = os.Geteuid()
		}
		name := map[bool]string{true: "root", false: "ordinary user"}[uid == 0]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for script, code := range map[string]int{"true": 0, "exit 7": 7} {
				spec := specification(uid, "/bin/sh", "-c", script)
				host := uid
				if os.Geteuid() != 0 {
					host = os.Geteuid()
				}
				if uid != 0 {
					one := []specs.LinuxIDMapping{{ContainerID: uint32(uid), HostID: uint32(uid), Size: 1}}
					spec.Linux.UIDMappings, spec.Linux.GIDMappings = one, one
					spec.Linux.Namespaces = []specs.LinuxNamespace{{Type: specs.UserNamespace}}
				}
				if out, got := run(t, program, host, uid, spec); got != code {
					t.Errorf("%s: exit code %d, want %d\n%s", script, got, code, out)
				}
			}
		})
	}
}

// run runs the program in new namespaces, as the given user there.
func run(t *testing.T, program string, host, uid int, spec *specs.Spec) (string, int) {
	t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "forkcell-gvisor-cell-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chown(dir, host, host); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "cell", dir, string(text))
	one := []syscall.SysProcIDMap{{ContainerID: uid, HostID: host, Size: 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
		UidMappings: one, GidMappings: one,
		Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid), NoSetGroups: true},
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// TestArguments refuses what is no cell.
func TestArguments(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {t.TempDir()}, {t.TempDir(), "{}", "saved", "more"}} {
		if _, err := prepare(args); err == nil {
			t.Errorf("%q was accepted", args)
		}
		if _, err := arguments(append([]string{"offline"}, args...)); err == nil {
			t.Errorf("offline with %q was accepted", args)
		}
	}
}

// TestSpareCollector: garbage is collected again after the time, as before, and within
// it what is on the heap is bounded.
func TestSpareCollector(t *testing.T) {
	limit := debug.SetMemoryLimit(-1)
	done := spareCollector(time.Millisecond)
	during := debug.SetMemoryLimit(-1)
	<-done
	percent := debug.SetGCPercent(100)
	debug.SetGCPercent(percent)
	if now := debug.SetMemoryLimit(-1); percent <= 0 || now != limit || during != startMemory && during != limit {
		t.Errorf("the collector runs at %d %%; the limit is %d, was %d during the start and %d before", percent, now, during, limit)
	}
}
