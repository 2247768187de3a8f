package engine

import (
	"testing"
	"time"
)

// TestLooksAtTheDisk: a run whose files take long to count is left alone for a while, but
// not while the disk fills up by what the run may still add.
func TestLooksAtTheDisk(t *testing.T) {
	t.Parallel()
	ended := time.Now()
	last := look{ended: ended, took: time.Second, free: 100 << 30, left: 1 << 30}
	for _, c := range []struct {
		after time.Duration
		used  int64
		want  bool
	}{
		{time.Second, 0, false},
		{9 * time.Second, 0, false},
		{10 * time.Second, 0, true},
		{time.Second, 2 << 30, false},
		{2 * time.Second, 2 << 30, true},
		{2 * time.Second, 1<<30 - 1, false},
	} {
		if got := last.isOver(ended.Add(c.after), last.free-c.used, 10); got != c.want {
			t.Errorf("after %v, with %d bytes less: %v", c.after, c.used, got)
		}
	}
	if !(look{}).isOver(ended, 0, 10) {
		t.Error("the first look does not come")
	}
}
