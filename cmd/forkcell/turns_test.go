package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

// startTurns makes the cell live, with turns and masks.
func (h *home) startTurns(t api.TurnRequest) *api.StartResult {
	h.Helper()
	res, err := h.e.Start(h.Context(), api.StartRequest{Cell: "demo", Turns: &t, RunOptions: api.RunOptions{Control: &api.ControlRequest{}}})
	h.ok(err)
	return res
}

// turn takes a turn.
func (h *home) turn() *api.TurnInfo {
	h.Helper()
	info, err := h.e.Turn(h.Context(), "demo")
	h.ok(err)
	return info
}

// awaitTurn waits for a turn, by the cell's statements.
func (h *home) awaitTurn(n int) api.TurnInfo {
	h.Helper()
	limit := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		list, err := h.e.Turns(h.Context(), "demo")
		h.ok(err)
		if len(list.Turns) > n {
			return list.Turns[n]
		}
		select {
		case <-tick.C:
		case <-limit:
			h.Fatalf("no turn %d: %+v", n, list)
		}
	}
}

// TestTurnsAndRewind: turns are states of a live cell, and the cell can be taken back
// to each of them.
func TestTurnsAndRewind(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	first := h.startTurns(api.TurnRequest{Asked: true})
	h.sh("echo two >> file; printf 'a\\nb\\n' > new; echo own > ~/history")
	one := h.turn()
	if one.Turn != 1 || one.ChangedFiles != 2 || one.Added != 3 || one.Removed != 0 || one.By != api.TurnByRequest || one.Unfrozen == (one.PauseUS > 0) {
		t.Errorf("%+v", one)
	}
	h.sh("rm new; mkdir -p sub/.claude; echo hook > sub/.claude/settings.json; echo x > sub/work")
	two := h.turn()
	if two.Turn != 2 || two.ChangedFiles != 3 || two.Added != 2 || two.Removed != 2 {
		t.Errorf("%+v", two)
	}
	// A program in the cell asks, and can only ask.
	h.sh("echo three > file; for i in 1 2 3; do echo > " + api.TurnFile + "; done")
	three := h.awaitTurn(3)
	if three.By != api.TurnByAsk || three.Asked < 1 || three.ChangedFiles != 1 {
		t.Errorf("%+v", three)
	}
	h.sh("echo four > file; echo later > ~/history")

	rewound, err := h.e.Rewind(h.Context(), api.RewindRequest{Cell: "demo", To: 2})
	h.ok(err)
	if rewound.Stopped == nil || rewound.Stopped.Outcome != "succeeded" || !slices.Equal(rewound.SetAside, []string{"sub/.claude"}) {
		t.Errorf("%+v", rewound)
	}
	second := h.startTurns(api.TurnRequest{})
	got := h.sh("cat file ~/history; ls -A sub; test -e new || echo gone")
	if got != "one\ntwo\nown\nwork\ngone\n" {
		t.Errorf("after the rewind: %q", got)
	}
	h.sh("echo five > file")
	if four := h.turn(); four.Turn != 5 && four.Turn != 4 {
		t.Errorf("%+v", four)
	}
	list, err := h.e.Turns(h.Context(), "demo")
	h.ok(err)
	var left []int
	for _, turn := range list.Turns {
		if turn.Left {
			left = append(left, turn.Turn)
		}
	}
	last := list.Turns[len(list.Turns)-1]
	if last.Left || last.RunID != second.RunID {
		t.Errorf("the newest turn: %+v", last)
	}
	if !slices.Equal(list.RunIDs, []string{first.RunID, second.RunID}) || left[0] != 3 || slices.Contains(left, 2) || list.Turns[0].Turn != 0 {
		t.Errorf("%+v", list)
	}
	h.stop()
	// The work after the rewind is accepted with that before it.
	_, err = h.e.Accept(h.Context(), api.AcceptRequest{Cell: "demo"})
	h.ok(err)
	applied, err := h.e.Apply(h.Context(), api.ApplyRequest{Cell: "demo"})
	h.ok(err)
	if len(applied.Written) != 3 {
		t.Errorf("%+v", applied)
	}
	_, err = h.e.Rewind(h.Context(), api.RewindRequest{Cell: "demo", To: 9})
	if api.KindOf(err) != api.NotFound {
		t.Errorf("turn 9: %v", err)
	}
	h.sound()
}

// TestTurnsByThemselves: a cell takes turns when its commands are quiet, and when the
// time has come.
func TestTurnsByThemselves(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	h.startTurns(api.TurnRequest{Quiet: 100 * time.Millisecond})
	h.sh("echo quiet > file; echo said")
	if one := h.awaitTurn(1); one.By != api.TurnByQuiet || one.ChangedFiles != 1 {
		t.Errorf("%+v", one)
	}
	h.stop()
	h.startTurns(api.TurnRequest{Every: time.Second})
	h.sh("echo timed > file")
	if two := h.awaitTurn(2); two.By != api.TurnByTime || two.ChangedFiles != 1 {
		t.Errorf("%+v", two)
	}
	h.stop()
	_, err := h.e.Start(h.Context(), api.StartRequest{Cell: "demo", Turns: &api.TurnRequest{Every: time.Millisecond}})
	if api.KindOf(err) != api.Usage {
		t.Errorf("turns in milliseconds: %v", err)
	}
	h.start()
	if _, err := h.e.Turn(h.Context(), "demo"); err == nil || !strings.Contains(err.Error(), "takes no turns") {
		t.Errorf("a turn of a cell without: %v", err)
	}
	h.stop()
	h.sound()
}

// TestRewindToFreedTurn: a rewind to a turn whose state is gone is refused, and the cell
// goes on.
func TestRewindToFreedTurn(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	for _, text := range []string{"two", "three"} {
		h.startTurns(api.TurnRequest{})
		h.sh("echo " + text + " > file")
		h.turn()
		_, err := h.e.Rewind(h.Context(), api.RewindRequest{Cell: "demo"})
		h.ok(err)
	}
	_, err := h.e.GC(h.Context(), api.GCRequest{})
	h.ok(err)
	h.startTurns(api.TurnRequest{})
	_, err = h.e.Rewind(h.Context(), api.RewindRequest{Cell: "demo", To: 1})
	if api.CodeOf(err) != api.CodeFreed {
		t.Errorf("a turn that was freed: %v", err)
	}
	if got := h.sh("cat file"); got != "one\n" {
		t.Errorf("the cell holds %q", got)
	}
	h.stop()
	h.sound()
}

// layers counts the layers of the home.
func (h *home) layers() int {
	h.Helper()
	list, err := os.ReadDir(filepath.Join(h.path, "layers"))
	h.ok(err)
	return len(list)
}

// TestTurnsWithoutChanges: a turn without changes has the state of the turn before, and
// no turn leaves a layer that nothing refers to.
func TestTurnsWithoutChanges(t *testing.T) {
	t.Parallel()
	h := newHome(t, "")
	h.startTurns(api.TurnRequest{})
	h.sh("echo two > file")
	one := h.turn()
	layers := h.layers()
	two := h.turn()
	if two.Turn != 2 || two.CheckpointID != one.CheckpointID || two.ChangedFiles != 0 || h.layers() != layers {
		t.Errorf("%+v after %+v, %d layers, before %d", two, one, h.layers(), layers)
	}
	h.sh("echo one > file; echo own > ~/history")
	if three := h.turn(); three.CheckpointID == one.CheckpointID || three.ChangedFiles != 1 {
		t.Errorf("%+v after %+v", three, one)
	}
	h.stop()

	h.startTurns(api.TurnRequest{Every: time.Second})
	layers = h.layers()
	h.sh("echo more > ~/history; sleep 2.5; echo timed > file")
	if four := h.awaitTurn(4); four.ChangedFiles != 1 {
		t.Errorf("%+v", four)
	}
	if got := h.layers(); got != layers+1 {
		t.Errorf("%d layers, before %d", got, layers)
	}
	h.stop()
	h.sound()
}

// TestTurnsLeaveRoom: the turns of a run never take more of the disk than they leave
// free, and the first one that is skipped is in the events.
func TestTurnsLeaveRoom(t *testing.T) {
	t.Parallel()
	out := onSmallDisk(t, `
		forkcell agent generic --allow-nongit --workspace src --turns 1s --detach --name s -- \
			sh -c 'head -c 20000000 /dev/urandom > big; n=0; while sleep 1; do n=$((n+1)); echo $n > count; done' >&2
		trap 'forkcell session stop s >&2 || true' EXIT
		timeout 60 sh -c 'until forkcell session timeline s | grep "turns of this run take" >&2; do sleep 0.2; done'
		stat -f -c '%a %S' "$DISK"
	`)
	var blocks, size int64
	if _, err := fmt.Sscan(out, &blocks, &size); err != nil || blocks*size < 20_000_000 {
		t.Errorf("%d blocks of %d are free: %v", blocks, size, err)
	}
}

// TestTurnPause measures how long a cell with 100 changed files stands still.
func TestTurnPause(t *testing.T) {
	h := newHome(t, "")
	h.startTurns(api.TurnRequest{})
	h.sh("for i in $(seq 100); do head -c 4000 /dev/urandom > f$i; done")
	var pauses []int64
	for range 5 {
		h.sh("for i in $(seq 100); do echo x >> f$i; done")
		info := h.turn()
		if info.ChangedFiles != 100 && len(pauses) > 0 {
			t.Errorf("%+v", info)
		}
		pauses = append(pauses, info.PauseUS)
		if info.Unfrozen != (info.PauseUS == 0) {
			t.Errorf("%+v", info)
		}
	}
	t.Logf("pauses in microseconds: %v", pauses)
	h.stop()
	h.sound()
}
