package main

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// commandLimit is far more time than any command of a test takes. A command
	// that takes longer hangs, and would otherwise block the whole package.
	commandLimit = 2 * time.Minute
	// streamLimit is how long processes that a command left may keep its streams.
	streamLimit = 20 * time.Second
)

// finish runs a command to its end. A command that hangs is made to print its
// goroutines, and the test fails with them. This is done with SIGABRT, since
// SIGQUIT is passed on to the command in the cell.
func finish(t *testing.T, cmd *exec.Cmd) (out, errs string, err error) {
	t.Helper()
	out, errs, hung, err := finishWithin(cmd, commandLimit)
	if hung {
		t.Fatalf("%q did not end in %s: %v\n%s%s", cmd.Args, commandLimit, err, out, errs)
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		t.Fatalf("%q has ended, but what it started keeps its streams: %v\n%s%s", cmd.Args, err, out, errs)
	}
	return out, errs, err
}

func finishWithin(cmd *exec.Cmd, limit time.Duration) (out, errs string, hung bool, err error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, streamLimit
	if err := cmd.Start(); err != nil {
		return "", "", false, err
	}
	abort := time.AfterFunc(limit, func() { _ = cmd.Process.Signal(unix.SIGABRT) })
	kill := time.AfterFunc(limit+streamLimit, func() { _ = cmd.Process.Kill() })
	err = cmd.Wait()
	hung = !abort.Stop()
	kill.Stop()
	return stdout.String(), stderr.String(), hung, err
}

// TestFinishOfWhatHangs: the limit ends a run that waits for ever, and the test
// that started it would show where it did.
func TestFinishOfWhatHangs(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if code, _, errs := l.forkcell("init", "box", "--from", "work"); code != 0 {
		t.Fatalf("init: %s", errs)
	}
	out, errs, hung, err := finishWithin(l.command("run", "--quiet", "box", "--", "sleep", "609"), 5*time.Second)
	if !hung || err == nil || !strings.Contains(errs, "goroutine ") || !strings.Contains(errs, "internal/sandbox/driver") {
		t.Errorf("hung %v, %v: %s%s", hung, err, out, errs)
	}
	l.must("checkpoint", "box") // finishes the run
}

// Context is for one call of the engine, which may not take longer than a
// command may.
func (h *home) Context() context.Context {
	ctx, cancel := context.WithTimeout(h.T.Context(), commandLimit)
	h.Cleanup(cancel)
	return ctx
}

// lasting is for a call that goes on in the background: the end of the test does
// not cancel it, the end of its cell does.
func (h *home) lasting() context.Context {
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.T.Context()))
	time.AfterFunc(commandLimit, cancel)
	return ctx
}
