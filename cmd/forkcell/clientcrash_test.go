//go:build failpoints

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stopFile is where a supervisor of the lab that stops at its failpoint says its id.
func (l *lab) stopFile() string { return filepath.Join(l.dir, "stopped") }

// stopped waits until a supervisor of the lab stands at its failpoint, and returns its id.
func (l *lab) stopped() int {
	l.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(time.Millisecond) {
		said, _ := os.ReadFile(l.stopFile()) // not there before
		id, whole := strings.CutSuffix(string(said), "\n")
		stat, _ := os.ReadFile("/proc/" + id + "/stat")
		if _, state, _ := bytes.Cut(stat, []byte(") ")); whole && bytes.HasPrefix(state, []byte("T")) {
			pid, err := strconv.Atoi(id)
			l.ok(err)
			return pid
		}
	}
	l.Fatal("no supervisor has come to its failpoint")
	return 0
}

// killed runs a command until its supervisor stands at its failpoint, kills the command,
// and lets the supervisor go on.
func (l *lab) killed(args ...string) {
	l.Helper()
	cmd := l.command(args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	l.ok(cmd.Start())
	supervisor := l.stopped()
	defer func() { l.ok(unix.Kill(supervisor, unix.SIGCONT)) }() // also if this fails
	l.ok(cmd.Process.Kill())
	if err := cmd.Wait(); err == nil {
		l.Fatal("it had ended before")
	}
	if said.Len() > 0 {
		l.Errorf("it said %s", &said)
	}
}

// at gives the program a failpoint at which its next supervisor stops, and returns what
// takes it away.
func (l *lab) at(point string) (undo func()) {
	env := l.env
	l.env = append(slices.Clone(env), "FORKCELL_FAILPOINT="+point+"=stop:"+l.stopFile())
	return func() { l.env = env }
}

// TestBranchClientKilled kills the command that branches a template. None of the branches
// is left, and the template goes on.
func TestBranchClientKilled(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"live.captured", "branch.forked", "branch.started"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			need(t, "/usr/bin/python3")
			w := &warmLab{lab: newLab(t)}
			w.write("load.py", "")
			undo := w.at(point)
			w.warm()
			undo()
			w.killed("branch", "box", "--name", "try", "-n", "3")
			w.free("box")
			w.onlyTemplate()
		})
	}
}

// TestGvisorClientKilled kills the command that branches, saves, pauses or resumes a
// guest. The next command tells the truth, and nothing else is left.
func TestGvisorClientKilled(t *testing.T) {
	needGvisor(t)
	for _, c := range []struct {
		args   []string
		points []string
	}{
		{[]string{"branch", "demo", "--name", "try", "-n", "2"}, []string{"capture.copied", "live.saved", "branch.forked", "branch.started"}},
		{[]string{"checkpoint", "demo", "--memory", "--name", "kept"}, []string{"capture.copied", "live.saved", "live.memory"}},
		{[]string{"pause", "demo"}, []string{"capture.copied", "pause.saved", "pause.kept", "pause.recorded"}},
		{[]string{"resume", "demo"}, []string{"run.prepared", "resume.started", "resume.ready", "resume.recorded"}},
		{[]string{"branch", "demo", "--from", "warm", "--name", "try", "-n", "2"}, []string{"branch.forked", "branch.started"}},
	} {
		for _, point := range c.points {
			t.Run(strings.Join(c.args, "_")+"/"+point, func(t *testing.T) {
				t.Parallel()
				p := newPauseLab(t, []string{"pause", "demo"})
				p.killClient(point, c.args)
			})
		}
	}
}

func (p *pauseLab) killClient(point string, args []string) {
	p.Helper()
	starts := args[0] == "resume" || slices.Contains(args, "--from") // a supervisor
	if !starts {
		p.start(point + "=stop:" + p.stopFile())
	} else {
		p.start("")
		p.must("checkpoint", "demo", "--memory", "--name", "warm")
		p.must("pause", "demo")
		defer p.at(point)()
	}
	p.killed(args...)
	p.env = slices.DeleteFunc(p.env, func(v string) bool { return strings.HasPrefix(v, "FORKCELL_FAILPOINT=") })
	p.settles()
}

// settles waits until nothing works on the cell any more. The cell must go on with its
// memory, and so must a branch of each memory that is kept.
func (p *pauseLab) settles() {
	p.Helper()
	p.free("demo")
	if p.state() == "paused" {
		p.must("resume", "demo")
	}
	if said := p.ask(); said != p.said {
		p.Errorf("it says %q, not %q", said, p.said)
	}
	p.must("stop", "demo")
	p.keptAnswers()
	p.intact()
}

// keptAnswers branches each memory that is kept.
func (p *pauseLab) keptAnswers() {
	p.Helper()
	p.must("gc")
	left, err := os.ReadDir(filepath.Join(p.home(), "memory"))
	p.ok(err)
	for _, kept := range left {
		p.must("branch", "demo", "--from", kept.Name(), "--name", "again")
		if said := p.must("exec", "again", "--", "sh", "-c", askMemory); said != p.said {
			p.Errorf("the kept one says %q, not %q", said, p.said)
		}
		p.must("rm", "--force", "again")
	}
}

// free waits until no other command works on a cell, and it is the only one.
func (l *lab) free(cell string) {
	l.Helper()
	for end := time.Now().Add(time.Minute); ; {
		code, _, errs := l.forkcell("checkpoint", cell)
		list := l.must("ls", "--json")
		if code == 0 && strings.Count(list, `"cell_id"`) == 1 {
			return
		}
		if time.Now().After(end) {
			l.Fatalf("%s%s", errs, list)
		}
	}
}

func needGvisor(t *testing.T) {
	t.Helper()
	if os.Getenv("FORKCELL_TEST_GVISOR") == "" {
		t.Skip("make test-gvisor builds the runtime and runs this test")
	}
}

// TestGvisorCheckpointKilled kills the supervisor while it keeps the memory of its guest.
// The run was interrupted then, and its files are kept. Memory is kept with its
// checkpoint, or not at all.
func TestGvisorCheckpointKilled(t *testing.T) {
	needGvisor(t)
	for _, point := range []string{"capture.copied", "live.saved", "live.memory", "live.captured", "log.written"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			p := newPauseLab(t, []string{"pause", "demo"})
			p.start(point)
			if code, out, _ := p.forkcell("checkpoint", "demo", "--memory", "--name", "kept"); code == 0 {
				t.Fatalf("it did not die: %s", out)
			}
			p.must("checkpoint", "demo")
			if state := p.state(); state != "idle" {
				t.Errorf("the cell is %s", state)
			}
			code, _, errs := p.forkcell("branch", "demo", "--from", "kept", "--name", "try")
			switch {
			case code == 3 && strings.Contains(errs, "no such checkpoint: kept"):
			case code != 0:
				t.Errorf("exit %d: %s", code, errs)
			default:
				if said := p.must("exec", "try", "--", "sh", "-c", askMemory); said != p.said {
					t.Errorf("it says %q, not %q", said, p.said)
				}
				p.must("rm", "--force", "try")
			}
			p.keptAnswers()
			if out := p.must("run", "--quiet", "demo", "--runtime", "native", "--", "cat", "file"); out != "two\n" {
				t.Errorf("the cell holds %q", out)
			}
			p.intact()
		})
	}
}

// TestGvisorBranchFromKilled kills the supervisor of branches of a checkpoint. None is
// left, and the memory is as good as before.
func TestGvisorBranchFromKilled(t *testing.T) {
	needGvisor(t)
	for _, point := range []string{"branch.forked", "live.started", "branch.started"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			p := newPauseLab(t, []string{"pause", "demo"})
			p.start("")
			p.must("checkpoint", "demo", "--memory", "--name", "warm")
			env := p.env
			p.env = append(slices.Clone(env), "FORKCELL_FAILPOINT="+point)
			code, out, errs := p.forkcell("branch", "demo", "--from", "warm", "--name", "try", "-n", "2")
			p.env = env
			if code == 0 {
				t.Fatalf("it did not die: %s%s", out, errs)
			}
			p.must("gc") // finishes what dead processes left
			p.settles()
		})
	}
}
