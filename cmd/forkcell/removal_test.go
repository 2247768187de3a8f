package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestForcedRemoval: a cell can be removed although its killed run cannot be
// sealed. Without --force the cell and the run's work stay.
func TestForcedRemoval(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(l *lab, home, run string){
		"generation": func(l *lab, home, run string) {
			upper := filepath.Join(home, "pending", run, "workspace")
			l.ok(os.RemoveAll(upper))
			l.ok(os.WriteFile(upper, nil, 0o600))
		},
		"manifest": func(l *lab, home, _ string) {
			all, err := filepath.Glob(filepath.Join(home, "layers/*/manifest"))
			l.ok(err)
			for _, p := range all {
				l.ok(os.WriteFile(p, []byte("x"), 0o600))
			}
		},
		"no layer": func(l *lab, home, _ string) { l.ok(os.RemoveAll(filepath.Join(home, "layers"))) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.must("init", "box", "--from", "work", "--backend", "clone")
			run := killedRun(l)
			spoil(l, filepath.Join(l.dir, "state"), run)
			if code, out, _ := l.forkcell("run", "box", "--", "true"); code == 0 {
				t.Errorf("a run on top of it succeeded: %s", out)
			}
			if code, _, errs := l.forkcell("rm", "box"); code == 0 {
				t.Errorf("it was removed without --force: %s", errs)
			}
			l.must("rm", "--force", "box")
			if code, _, _ := l.forkcell("status", "box"); code != 3 {
				t.Errorf("status: exit code %d", code)
			}
			l.must("init", "other", "--from", "work", "--backend", "clone")
			l.must("run", "other", "--", "true")
		})
	}
}

// killedRun kills a run while its command works, and returns its id.
func killedRun(l *lab) string {
	l.Helper()
	cmd := l.command("run", "box", "--", "sh", "-c", "echo made > made; echo ready; exec sleep 600")
	out, err := cmd.StdoutPipe()
	l.ok(err)
	l.ok(cmd.Start())
	_, err = io.ReadFull(out, make([]byte, len("ready\n")))
	l.ok(err)
	l.ok(cmd.Process.Kill())
	_ = cmd.Wait()
	runs, err := filepath.Glob(filepath.Join(l.dir, "state/pending/run_*"))
	l.ok(err)
	if len(runs) != 1 {
		l.Fatalf("pending: %v", runs)
	}
	return filepath.Base(runs[0])
}
