package main

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// soon is the limit for "at once" on a busy machine. A program that has read all of a
// slow file by then has another exit code.
const soon = 30 * time.Second

// slowFile makes a file that takes seconds to hash, and little space: each byte of
// it has a chunk of zeros around it. More of them would keep the disk from others for
// longer than their tests wait, once the kernel writes them back.
func slowFile(l *lab, path string) {
	l.Helper()
	f, err := os.Create(path)
	l.ok(err)
	for i := range int64(6_000) {
		_, err := f.WriteAt([]byte("x"), i<<21)
		l.ok(err)
	}
	l.ok(f.Close())
}

// stopWhileReading starts the program, sends it a signal when it has opened the
// file, and returns its exit code as a shell shows it.
func stopWhileReading(l *lab, path string, sig syscall.Signal, start func(in io.Writer, out io.Reader), args ...string) (code int, errs string) {
	l.Helper()
	cmd := l.command(args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	l.ok(err)
	out, err := cmd.StdoutPipe()
	l.ok(err)
	l.ok(cmd.Start())
	if start != nil {
		start(in, out)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for !hasOpen(cmd.Process.Pid, path) {
		select {
		case err := <-ended:
			l.Fatalf("%q ended before it read the file: %v\n%s", args, err, stderr.String())
		case <-time.After(time.Millisecond):
		}
	}
	l.ok(cmd.Process.Signal(sig))
	select {
	case <-ended:
	case <-time.After(soon):
		l.ok(cmd.Process.Kill())
		<-ended
		l.Fatalf("%q did not end at %v", args, sig)
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return 128 + int(status.Signal()), stderr.String()
	}
	return cmd.ProcessState.ExitCode(), stderr.String()
}

// hasOpen reports whether a process has opened a file.
func hasOpen(pid int, path string) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	names, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, n := range names {
		if to, err := os.Readlink(filepath.Join(dir, n.Name())); err == nil && to == path {
			return true
		}
	}
	return false
}

// TestStoppedWhileHashing: a signal ends the program at once while it imports or
// seals something that takes long. The cell can be used afterwards, and nothing is
// lost.
func TestStoppedWhileHashing(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"INT": unix.SIGINT, "TERM": unix.SIGTERM} {
		t.Run("init/"+name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			slow := filepath.Join(l.dir, "work/slow")
			slowFile(l, slow)
			code, errs := stopWhileReading(l, slow, sig, nil, "init", "box", "--from", "work")
			if code != 128+int(sig) || errs != "forkcell: interrupted\n" {
				t.Errorf("exit code %d: %s", code, errs)
			}
			l.ok(os.Remove(slow))
			l.must("init", "box", "--from", "work")
			l.must("run", "box", "--", "true")
			l.must("receipt", "verify", "--all")
		})
		t.Run("seal/"+name, func(t *testing.T) {
			t.Parallel()
			stoppedSeal(newLab(t), sig)
		})
	}
}

func stoppedSeal(l *lab, sig syscall.Signal) {
	l.must("init", "box", "--from", "work", "--backend", "delta")
	slow := filepath.Join(l.dir, "work/slow")
	// The file comes to be while the command runs.
	start := func(in io.Writer, out io.Reader) {
		_, err := io.ReadFull(out, make([]byte, len("ready\n")))
		l.ok(err)
		slowFile(l, slow)
		_, err = io.WriteString(in, "go\n")
		l.ok(err)
	}
	code, errs := stopWhileReading(l, slow, sig, start,
		"run", "-i", "box", "--", "sh", "-c", "echo ready; read line; echo made > made")
	if code != 128+int(sig) || !strings.Contains(errs, "its work is kept") {
		l.Errorf("exit code %d: %s", code, errs)
	}
	// Reading commands do not start it again.
	if out := l.must("status", "box"); !strings.Contains(out, "unfinished") {
		l.Errorf("status: %s", out)
	}
	// The next command does, and can be stopped likewise.
	code, errs = stopWhileReading(l, slow, sig, nil, "run", "box", "--", "true")
	if code != 128+int(sig) {
		l.Errorf("exit code %d: %s", code, errs)
	}
	if b, err := os.ReadFile(filepath.Join(l.dir, "work/made")); err != nil || string(b) != "made\n" {
		l.Errorf("made holds %q, %v", b, err)
	}
	l.ok(os.Remove(slow))
	l.must("run", "box", "--", "grep", "made", "made")
	// How the command ended is known, though its caller was stopped.
	if out := l.must("log", "box"); strings.Contains(out, "interrupted") || !strings.Contains(out, "1 changed") {
		l.Errorf("log: %s", out)
	}
	l.must("receipt", "verify", "--all")
}
