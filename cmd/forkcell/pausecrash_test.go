//go:build failpoints

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/local"
)

// pausePoints are the failpoints on the way to a cell that is paused on disk: before it
// is recorded, and afterwards.
func pausePoints() (before, after []string) {
	return []string{"live.memory", "pause.kept"},
		[]string{"pause.recorded", "live.ended", "seal.synced", "run.sealed", "log.written", "run.concluded"}
}

// TestPauseKilledAtEveryFailpoint kills the supervisor of a cell that is paused without
// its processes, or resumed.
func TestPauseKilledAtEveryFailpoint(t *testing.T) {
	t.Parallel()
	before, after := pausePoints()
	for _, point := range slices.Concat(before, after) {
		t.Run("pause/"+point, func(t *testing.T) {
			t.Parallel()
			killPause(t, []string{"pause", "demo", "--fs-only"}, point, slices.Contains(after, point))
		})
	}
	for _, point := range []string{"run.recorded", "run.prepared", "live.started", "resume.started", "resume.ready", "resume.recorded"} {
		t.Run("resume/"+point, func(t *testing.T) {
			t.Parallel()
			killResume(t, []string{"pause", "demo", "--fs-only"}, point)
		})
	}
}

// TestGvisorPauseKilled is the same with memory on disk.
func TestGvisorPauseKilled(t *testing.T) {
	needGvisor(t)
	before, after := pausePoints()
	for _, point := range append(slices.Concat(before, after), "pause.saved", "capture.copied") {
		t.Run("pause/"+point, func(t *testing.T) {
			t.Parallel()
			killPause(t, []string{"pause", "demo"}, point, slices.Contains(after, point))
		})
	}
	for _, point := range []string{"run.prepared", "resume.started", "resume.ready", "resume.recorded"} {
		t.Run("resume/"+point, func(t *testing.T) {
			t.Parallel()
			killResume(t, []string{"pause", "demo"}, point)
		})
	}
}

// TestGvisorBranchKilled kills the supervisor while it makes branches of a guest. None of
// them is left, and the files of the cell are kept.
func TestGvisorBranchKilled(t *testing.T) {
	needGvisor(t)
	for _, point := range []string{"live.saved", "live.captured", "branch.forked", "branch.started"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			p := newPauseLab(t, []string{"pause", "demo"})
			p.start(point)
			if code, out, errs := p.forkcell("branch", "demo", "--name", "try", "-n", "2"); code == 0 {
				t.Fatalf("it did not die: %s%s", out, errs)
			}
			p.must("checkpoint", "demo")
			if out := p.must("ls"); strings.Contains(out, "try") {
				t.Errorf("left: %s", out)
			}
			p.sound()
		})
	}
}

// pauseLab has a live cell with a file and, if its memory is kept, a process that answers.
type pauseLab struct {
	*lab
	memory bool
	said   string
}

func newPauseLab(t *testing.T, pause []string) *pauseLab {
	t.Helper()
	p := &pauseLab{lab: newLab(t), memory: len(pause) == 2}
	runtime := "native"
	if p.memory {
		runtime = "gvisor"
		p.env = []string{"PATH=" + os.Getenv("PATH") + ":" + filepath.Dir(os.Getenv("FORKCELL_TEST_GVISOR"))}
	}
	p.write("server", `mkfifo /dev/shm/in /dev/shm/out
(setsid sh -c 'x=$$; while read q </dev/shm/in; do echo "memory $x" >/dev/shm/out; done' >/dev/null 2>&1 &)`)
	p.must("init", "demo", "--from", "work", "--runtime", runtime)
	p.made = true
	return p
}

// start makes the cell live, with a supervisor that dies at a point.
func (p *pauseLab) start(point string) {
	p.Helper()
	env := p.env
	if point != "" {
		p.env = append(slices.Clone(env), "FORKCELL_FAILPOINT="+point)
	}
	p.must("start", "demo")
	p.env = env
	p.must("exec", "demo", "--", "sh", "-c", "echo two > file; sh server")
	p.said = p.ask()
}

// askMemory asks the process for what it has in its memory.
const askMemory = "echo >/dev/shm/in; cat /dev/shm/out"

func (p *pauseLab) ask() string {
	p.Helper()
	return p.must("exec", "demo", "--", "sh", "-c", askMemory)
}

// state returns the state of the cell.
func (p *pauseLab) state() string {
	p.Helper()
	var status struct {
		State string `json:"state"`
	}
	p.ok(json.Unmarshal([]byte(p.must("status", "demo", "--json")), &status))
	return status.State
}

// goesOn resumes the cell: its files are there and, if they were kept, its processes.
func (p *pauseLab) goesOn() {
	p.Helper()
	if state := p.state(); state != "paused" {
		p.Fatalf("the cell is %s", state)
	}
	p.must("resume", "demo")
	if p.memory {
		if said := p.ask(); said != p.said {
			p.Errorf("it says %q, not %q", said, p.said)
		}
	}
	p.sound()
}

// sound stops the cell, whose file must be there, and checks the home.
func (p *pauseLab) sound() {
	p.Helper()
	if p.state() == "live" {
		p.must("stop", "demo")
	}
	if out := p.must("run", "--quiet", "demo", "--runtime", "native", "--", "cat", "file"); out != "two\n" {
		p.Errorf("the cell holds %q", out)
	}
	p.must("gc")
	if left, err := os.ReadDir(filepath.Join(p.home(), "memory")); err == nil && len(left) > 0 {
		p.Errorf("left: %v", left)
	}
	p.intact()
}

// intact checks the home.
func (p *pauseLab) intact() {
	p.Helper()
	e, release, err := local.Open(p.home(), local.Write, caller.Caller{Actor: func() string { return "tester" }})
	p.ok(err)
	defer func() { _ = release() }()
	(&home{T: p.T, e: e, path: p.home()}).sound()
}

// home is the home of the cell.
func (p *pauseLab) home() string { return filepath.Join(p.dir, "state") }

// killPause kills the supervisor while it pauses the cell. If all was kept by then, the
// cell is paused. Otherwise its run was interrupted, and its files are kept.
func killPause(t *testing.T, pause []string, point string, kept bool) {
	t.Helper()
	p := newPauseLab(t, pause)
	p.start(point)
	if code, out, errs := p.forkcell(pause...); code == 0 {
		t.Fatalf("it did not die: %s%s", out, errs)
	}
	if kept {
		p.goesOn()
		return
	}
	p.must("checkpoint", "demo")
	if state := p.state(); state != "idle" {
		t.Errorf("the cell is %s", state)
	}
	p.sound()
}

// killResume kills the supervisor while it resumes the cell, which stays paused until
// that is recorded.
func killResume(t *testing.T, pause []string, point string) {
	t.Helper()
	p := newPauseLab(t, pause)
	p.start("")
	p.must(pause...)
	env := p.env
	p.env = append(slices.Clone(env), "FORKCELL_FAILPOINT="+point)
	code, out, errs := p.forkcell("resume", "demo")
	p.env = env
	if code == 0 {
		t.Fatalf("it did not die: %s%s", out, errs)
	}
	if point == "resume.ready" && !strings.Contains(errs, "`forkcell resume demo` tries again") ||
		point == "resume.recorded" && !strings.Contains(errs, "`forkcell start demo` starts it") {
		t.Errorf("%d: %s", code, errs)
	}
	if point != "resume.recorded" {
		p.goesOn()
		return
	}
	p.sound()
}
