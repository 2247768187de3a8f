package cgroup

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestProcessLimitOfNamespace shows what FallbackFor says of RLIMIT_NPROC: it
// holds for the processes in one user namespace, whatever else the same user of
// the host runs.
func TestProcessLimitOfNamespace(t *testing.T) {
	t.Parallel()
	for range 2 {
		in, out := startInNamespace(t, 8)
		_, _ = io.WriteString(in, "go\n")
		// The processes of the first namespace stay while the second starts its.
		tried := 0
		r := bufio.NewReader(out)
		for {
			line, err := r.ReadString('\n')
			if strings.TrimSpace(line) == "try" {
				tried++
			}
			if err != nil {
				t.Fatalf("%d tries, then %v", tried, err)
			}
			if strings.Contains(line, "ork") { // "Cannot fork"
				break
			}
		}
		// Seven beside the shell, and the one that failed.
		if tried != 8 {
			t.Errorf("%d tries", tried)
		}
	}
}

// startInNamespace starts a shell that starts processes until it cannot, as the
// only user of a user namespace.
func startInNamespace(t *testing.T, limit uint64) (io.Writer, io.Reader) {
	t.Helper()
	host := os.Getuid()
	if host == 0 {
		host = testUID // root itself is never limited
	}
	cmd := exec.Command("/bin/sh", "-c", "read go; while :; do echo try; sleep 600 </dev/null >/dev/null 2>&1 & done 2>&1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: host, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: host, Size: 1}},
		Credential:  &syscall.Credential{Uid: 1000, Gid: 1000, NoSetGroups: true},
		Setpgid:     true,
	}
	return startLimited(t, cmd, limit)
}

func startLimited(t *testing.T, cmd *exec.Cmd, limit uint64) (io.Writer, io.Reader) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		_ = cmd.Wait()
	})
	if err := unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: limit, Max: limit}, nil); err != nil {
		t.Fatal(err)
	}
	return in, out
}
