//go:build failpoints

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/local"
)

// TestExpiryKilledAtEveryFailpoint kills the supervisor, or the process that expires
// cells, in the middle of an expiry. Nothing is left, the work is kept, and the next
// process finishes.
func TestExpiryKilledAtEveryFailpoint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		action, point string
		supervisor    bool // it is the one that dies
	}{
		{"stop", "expire.recorded", true},
		{"stop", "log.written", true},
		{"pause", "expire.frozen", true},
		{"pause", "expire.recorded", true},
		{"remove", "live.ended", true},
		{"remove", "expire.stopped", false},
		{"remove", "log.written", false},
	} {
		t.Run(c.action+"/"+c.point, func(t *testing.T) {
			t.Parallel()
			if can, err := canFreeze(); (err != nil || !can) && c.action == "pause" {
				t.Skip("this host has no freezer")
			}
			killExpiry(t, c.action, c.point, c.supervisor)
		})
	}
}

func killExpiry(t *testing.T, action, point string, supervisor bool) {
	dir := t.TempDir()
	source, state := filepath.Join(dir, "src"), filepath.Join(dir, "home")
	if err := os.MkdirAll(source, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(deadly bool, args ...string) (string, error) {
		cmd := exec.Command("/proc/self/exe", args...)
		cmd.Args[0] = "forkcell"
		cmd.Env = append(os.Environ(), "FORKCELL_HOME="+state)
		if deadly {
			cmd.Env = append(cmd.Env, "FORKCELL_FAILPOINT="+point)
		}
		out, errs, err := finish(t, cmd)
		return out + errs, err
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := run(false, args...)
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return out
	}
	t.Cleanup(func() { stopLive(state) })
	must("init", "demo", "--from", source, "--ttl", "1s", "--on-timeout", action)
	if out, err := run(supervisor, "start", "demo"); err != nil {
		t.Fatal(out)
	}
	if action != "remove" { // a cell with work that nobody decided about is kept
		must("exec", "demo", "--", "sh", "-c", "echo two > file")
	}
	for !strings.Contains(must("expire", "--dry-run"), "demo") {
	}
	if out, err := run(!supervisor, "expire"); err == nil {
		t.Fatalf("it came past %s: %s", point, out)
	}
	// The next process does, or finishes, what is left to do.
	must("receipt", "verify", "--all")
	for strings.Contains(must("expire"), "waits") {
	}
	if action == "remove" {
		if out, err := run(false, "status", "demo"); err == nil {
			t.Errorf("it is still there: %s", out)
		}
	} else {
		if out := must("run", "--quiet", "demo", "--", "cat", "file"); out != "two\n" {
			t.Errorf("the cell holds %q", out)
		}
		if n := strings.Count(must("log", "demo"), " expire "); n != 1 {
			t.Errorf("%d expiries are in the log", n)
		}
	}
	must("gc")
	must("receipt", "verify", "--all")
	if left := must("receipt", "list", "--json"); !strings.Contains(left, "rcpt_") {
		t.Errorf("receipts %s", left)
	}
	e, release, err := local.Open(state, local.Write, caller.Caller{Actor: func() string { return "tester" }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = release() }()
	if action != "remove" {
		(&home{T: t, e: e, path: state}).sound()
	}
}
