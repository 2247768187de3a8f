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

// TestLiveKilledAtEveryFailpoint kills the supervisor at every failpoint.
// Nothing is left behind, the work is kept, and the evidence verifies.
func TestLiveKilledAtEveryFailpoint(t *testing.T) {
	t.Parallel()
	early := []string{"run.recorded", "run.prepared", "live.started"}
	captured := []string{"capture.copied", "live.captured"}
	late := []string{
		"live.ended", "seal.hashed", "seal.packed", "seal.synced", "seal.renamed", "run.sealed", "log.written", "run.concluded",
	}
	for _, backend := range []string{"overlay", "clone", "delta"} {
		for _, point := range early {
			t.Run(backend+"/"+point, func(t *testing.T) { t.Parallel(); killLive(t, backend, point, "start") })
		}
		for _, point := range captured {
			t.Run(backend+"/"+point, func(t *testing.T) { t.Parallel(); killLive(t, backend, point, "checkpoint") })
		}
		for _, point := range late {
			t.Run(backend+"/"+point, func(t *testing.T) { t.Parallel(); killLive(t, backend, point, "stop") })
		}
	}
}

// killLive starts a supervisor that dies at a point, which the given command
// makes it reach.
func killLive(t *testing.T, backend, point, reached string) {
	if can, err := canFreeze(); err != nil || !can && reached == "checkpoint" {
		reached = "" // it is refused before it gets there
	}
	dir := t.TempDir()
	source, state := filepath.Join(dir, "src"), filepath.Join(dir, "home")
	if err := os.MkdirAll(source, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(env []string, args ...string) (string, error) {
		cmd := exec.Command("/proc/self/exe", args...)
		cmd.Args[0] = "forkcell"
		cmd.Env = append(append(os.Environ(), "FORKCELL_HOME="+state), env...)
		out, errs, err := finish(t, cmd)
		return out + errs, err
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := run(nil, args...)
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return out
	}
	must("init", "demo", "--from", source, "--backend", backend)
	at := point
	if backend == "delta" && point == "seal.hashed" {
		at += "@2" // the first is the look at what changed before the run
	}
	died := ""
	for _, step := range [][]string{
		{"start", "demo"}, {"exec", "demo", "--", "sh", "-c", "echo two > file"}, {"checkpoint", "demo"}, {"stop", "demo"},
	} {
		out, err := run([]string{"FORKCELL_FAILPOINT=" + at}, step...)
		refused := step[0] == "checkpoint" && strings.Contains(out, "cannot be captured here")
		if err != nil && !refused {
			if !strings.Contains(out, "died") && !strings.Contains(out, "start the supervisor") {
				t.Fatalf("%v: %s", step, out)
			}
			died = step[0]
			break
		}
	}
	// A capture goes by the same points as the end; a backend may not go by all.
	if died != reached && !strings.HasPrefix(point, "seal.") && point != "log.written" {
		t.Fatalf("it died at %q, not at %q", died, reached)
	}
	must("checkpoint", "demo") // it finishes what the dead process left
	if out := must("status", "demo", "--json"); !strings.Contains(out, `"state":"idle"`) {
		t.Fatal(out)
	}
	if reached != "start" {
		if out := must("run", "--quiet", "demo", "--", "cat", "file"); out != "two\n" {
			t.Errorf("the cell holds %q", out)
		}
	}
	e, release, err := local.Open(state, local.Write, caller.Caller{Actor: func() string { return "tester" }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = release() }()
	must("gc")
	(&home{T: t, e: e, path: state}).sound()
	must("start", "demo")
	must("stop", "demo")
}
