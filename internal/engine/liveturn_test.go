package engine

import (
	"slices"
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestTurnsOfOneRun: a run has a limit of turns, and of the disk space that they take.
func TestTurnsOfOneRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		taken   int
		bytes   int64
		room    turnRoom
		refused bool
	}{
		{0, 0, turnRoom{free: 1}, false},
		{maxTurns - 1, 5, turnRoom{free: 5}, false},
		{maxTurns, 0, turnRoom{free: 5}, true},
		{1, 6, turnRoom{free: 5}, true},
		// A turn may have all that the run has added. Half of the rest is for the run.
		{0, 0, turnRoom{free: 100, limit: 30, added: 10}, false},
		{0, 0, turnRoom{free: 100, limit: 29, added: 10}, true},
		{1, 10, turnRoom{free: 100, limit: 50, added: 10}, false},
		{2, 20, turnRoom{free: 100, limit: 50, added: 10}, true},
		{2, 20, turnRoom{free: 100, limit: 5, added: 10}, true},
	} {
		err := (&turnTaker{taken: c.taken, bytes: c.bytes}).refuse(c.room)
		if (err != nil) != c.refused || c.refused && api.CodeOf(err) != api.CodeTurns {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestTurnsLeft: a rewind leaves the turns that the present one does not follow. A turn
// that was left, and those before it, are on the way again when the cell is back at it.
func TestTurnsLeft(t *testing.T) {
	t.Parallel()
	k := &knownTurns{tip: -1}
	add := func() { k.add(api.TurnInfo{Turn: len(k.turns)}) }
	check := func(what string, want ...int) {
		t.Helper()
		var kept []int
		for _, turn := range k.turns {
			if !turn.Left {
				kept = append(kept, turn.Turn)
			}
		}
		if !slices.Equal(kept, want) {
			t.Errorf("%s: %v are kept, want %v", what, kept, want)
		}
	}
	add()
	add()
	add()
	check("without a rewind", 0, 1, 2)
	k.goTo(0)
	check("back at 0", 0)
	add()
	check("another turn after 0", 0, 3)
	k.goTo(2)
	check("at 2, which was left", 0, 1, 2)
	add()
	check("another turn after 2", 0, 1, 2, 4)
	k.goTo(3)
	check("at 3 again", 0, 3)
}
