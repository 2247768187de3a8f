package remote

import (
	"testing"
	"time"

	"github.com/forkcell/forkcell/internal/api"
)

// TestAbandoned: a mirror whose files were sent is kept as long as the daemon may still
// make its cell.
func TestAbandoned(t *testing.T) {
	t.Parallel()
	made := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name string
		age  time.Duration
		want bool
	}{
		{prefixRead + "x", 0, true},
		{prefixSent + "upl_x", uploadLife, false},
		{prefixSent + "upl_x", uploadLife + time.Second, true},
	} {
		if got := isAbandoned(api.CellInfo{Name: c.name, CreatedAt: made}, made.Add(c.age)); got != c.want {
			t.Errorf("%s after %v: %v", c.name, c.age, got)
		}
	}
}
