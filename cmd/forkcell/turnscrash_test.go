//go:build failpoints

package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
	"github.com/forkcell/forkcell/internal/engine/caller"
	"github.com/forkcell/forkcell/internal/front/local"
)

// turnsHome names the home of the child of TestTurnsKilledAtEveryFailpoint.
const turnsHome = "FORKCELL_TEST_TURNS_HOME"

// TestTurnsChild takes two turns and rewinds to the first one, in the home of its
// parent.
func TestTurnsChild(t *testing.T) {
	path := os.Getenv(turnsHome)
	if path == "" {
		return
	}
	e, release, err := local.Open(path, local.Write, caller.Caller{Actor: func() string { return "tester" }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = release() }()
	h := &home{T: t, e: e, path: path}
	h.startTurns(api.TurnRequest{})
	h.sh("echo two > file; mkdir -p sub/.claude; echo hook > sub/.claude/x")
	h.turn()
	h.sh("echo three > file")
	h.turn()
	_, err = e.Rewind(t.Context(), api.RewindRequest{Cell: "demo", To: 1})
	h.ok(err)
}

// TestTurnsKilledAtEveryFailpoint kills the supervisor in a turn, and the caller in a
// rewind. Nothing that was recorded is lost, and the cell goes on.
func TestTurnsKilledAtEveryFailpoint(t *testing.T) {
	t.Parallel()
	for point, want := range map[string]struct {
		file  string
		turns int // the newest one
	}{
		"turn.captured":   {"two\n", 0},
		"turn.sealed":     {"two\n", 0},
		"turn.recorded":   {"two\n", 1},
		"turn.recorded@2": {"three\n", 2},
		"rewind.stopped":  {"three\n", 2},
		"rewind.composed": {"three\n", 2},
		"rewind.moved":    {"two\n", 2},
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			h := newHome(t, "")
			child := exec.Command("/proc/self/exe", "-test.run=^TestTurnsChild$")
			child.Env = append(os.Environ(), turnsHome+"="+h.path, "FORKCELL_FAILPOINT="+point)
			if out, err := child.CombinedOutput(); err == nil {
				t.Fatalf("nothing died:\n%s", out)
			}
			// It finishes what the dead process left.
			_, err := h.e.Checkpoint(h.Context(), "demo", "")
			h.ok(err)
			status, err := h.e.Status(h.Context(), "demo")
			h.ok(err)
			list, err := h.e.Turns(h.Context(), "demo")
			h.ok(err)
			if status.State != "idle" || list.Turns[len(list.Turns)-1].Turn != want.turns {
				t.Errorf("%s, %+v", status.State, list)
			}
			h.startTurns(api.TurnRequest{})
			if got := h.sh("cat file"); got != want.file {
				t.Errorf("the cell holds %q", got)
			}
			rewound, err := h.e.Rewind(h.Context(), api.RewindRequest{Cell: "demo"})
			h.ok(err)
			if rewound.CheckpointID != list.Turns[0].CheckpointID {
				t.Errorf("%+v", rewound)
			}
			h.start()
			if got := h.sh("cat file"); got != "one\n" {
				t.Errorf("turn 0 holds %q", got)
			}
			h.stop()
			_, err = h.e.GC(h.Context(), api.GCRequest{})
			h.ok(err)
			h.sound()
		})
	}
}
