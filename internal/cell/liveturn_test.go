package cell

import (
	"testing"

	"github.com/forkcell/forkcell/internal/api"
)

// TestTurnsOfOneRun: a run has a limit of turns, and of the disk space that they take.
func TestTurnsOfOneRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		taken       int
		bytes, free int64
		refused     bool
	}{
		{0, 0, 1, false}, {maxTurns - 1, 5, 5, false}, {maxTurns, 0, 5, true}, {1, 6, 5, true},
	} {
		err := (&turnTaker{taken: c.taken, bytes: c.bytes}).refuse(c.free)
		if (err != nil) != c.refused || c.refused && api.CodeOf(err) != api.CodeTurns {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
