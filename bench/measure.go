package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// bench is one run of the program.
type bench struct {
	program string
	work    string
	home    string
	quick   bool
	cells   int
	only    string
	site    *site   // where clients ask, once there is one
	daemon  *daemon // once there is one
}

// patience is how long one case goes on repeating on a machine that is slow.
const patience = 25 * time.Second

// times repeats something so often, or on a slow machine less, but never less
// than three times.
func (b *bench) times(normal, quick int) iter.Seq[int] {
	n := normal
	if b.quick {
		n = quick
	}
	return func(yield func(int) bool) {
		begin := time.Now()
		for i := 0; i < n && (i < 3 || time.Since(begin) < patience); i++ {
			if !yield(i) {
				return
			}
		}
	}
}

// command makes a command that stands in dir and sees only what it needs.
func (b *bench) command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "FORKCELL_HOME="+b.home)
	return cmd
}

// timeCommand runs a command and returns how long it took from start to exit. want is
// the exit code that it must have.
func timeCommand(cmd *exec.Cmd, want int) (time.Duration, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	begin := time.Now()
	err := cmd.Run()
	took := time.Since(begin)
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		return 0, err
	}
	if code != want {
		return 0, fmt.Errorf("%s: exit code %d, want %d: %s", strings.Join(cmd.Args, " "), code, want, stderr.String())
	}
	return took, nil
}

// forkcell runs the program with --json, takes its document, and returns how
// long the whole process took.
func (b *bench) forkcell(ctx context.Context, want int, doc any, args ...string) (time.Duration, error) {
	cmd := b.command(ctx, b.work, b.program, args...)
	var out bytes.Buffer
	cmd.Stdout = &out
	took, err := timeCommand(cmd, want)
	if err == nil && doc != nil {
		if err := json.Unmarshal(out.Bytes(), doc); err != nil {
			return 0, fmt.Errorf("forkcell %s: %w", strings.Join(args, " "), err)
		}
	}
	return took, err
}

// peakOf runs a command and returns how long it took, and how much memory it had at
// most. The kernel's own count of a process that has ended includes the memory of its
// parent, which it shares until it executes its program.
func peakOf(cmd *exec.Cmd) (took time.Duration, peak int64, err error) {
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	looks := time.NewTicker(time.Millisecond)
	defer looks.Stop()
	for {
		select {
		case err := <-ended:
			return time.Since(begin), peak, err
		case <-looks.C:
			// It may have ended, or not have executed its program yet.
			if now, err := kilobytes(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid), "VmHWM:"); err == nil {
				peak = now
			}
		}
	}
}

// peer runs something that is not forkcell.
func (b *bench) peer(ctx context.Context, name string, args ...string) (time.Duration, error) {
	return timeCommand(b.command(ctx, b.work, name, args...), 0)
}

// settle writes out what the last measurement left dirty, so that the next one
// does not pay for it.
func (b *bench) settle(ctx context.Context) error {
	_, err := b.peer(ctx, "sync", "-f", b.work)
	return err
}

func (b *bench) tree(s shape) string { return filepath.Join(b.work, s.name) }

func median[T time.Duration | int64 | float64](list []T) T {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	mid := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[mid-1] + sorted[mid]) / 2
	}
	return sorted[mid]
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
